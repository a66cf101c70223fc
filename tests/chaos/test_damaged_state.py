"""Each file of the state folder is emptied, truncated or overwritten with noise: the scheduler starts, has everything
that it acknowledged, and names the affected job. `RUNAI_CHAOS=1` damages every file in every way; the default damages
one file of most kinds in one way.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from scheduler.client import Client
from scheduler.client.uploading import upload
from scheduler.files.bundle import snapshot
from scheduler.model import JobState
from scheduler.schema import JobSubmit, ProjectEntry
from tests.app.conftest import Service, until
from tests.chaos.campaign import LONG, tell
from tests.engines.workplace import processes, supervisors

PATIENCE = 60.0
NOISE = random.Random(1).randbytes(8192)

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "emptied": lambda content: b"",
    "cut short": lambda content: content[: len(content) // 2],
    "noise": lambda content: NOISE,
}
MATTERS = re.compile(r"(?!jobs/|running/|blobs/owners/).*|.*/(claim|exit\.json)")
"""The files read at the start; tests/engines/test_damage.py covers the other files of a worker."""

POOL_FILE = "projects:\n- {name: team, guaranteed: 2, members: ['*']}\n"


def is_running(client: Client, job: str) -> bool:
    return client.job(job).state is JobState.RUNNING


@dataclass
class Scene:
    """A scheduler that was killed with all its processes, and what it had acknowledged. `kept` is its state folder."""

    service: Service
    kept: Path
    jobs: dict[str, str]
    """By the test's own name for it."""

    def damage(self, name: str, damage: Callable[[bytes], bytes]) -> None:
        """A copy of the state folder with one file damaged."""
        state = self.service.folder.path
        shutil.rmtree(state)
        shutil.copytree(self.kept, state, symlinks=True)
        (state / name).write_bytes(damage((state / name).read_bytes()))

    def end(self) -> None:
        if self.service.process is not None:
            self.service.process.kill()
            self.service.process.wait()
        for process in (*supervisors(self.service.folder.path), *processes(self.service.folder.path)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)


def wait_while(flag: Path) -> list[str]:
    return ["sh", "-c", f"test -s notes.txt || exit 9; while [ -e {flag} ]; do sleep 0.02; done"]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """One job has succeeded, one failed; two run, one of which ends after the scheduler; two wait. All have files."""
    place = tmp_path_factory.mktemp("scene")
    flag, meanwhile = place / "flag", place / "meanwhile"
    flag.touch()
    meanwhile.touch()
    (place / "pool.yaml").write_text(POOL_FILE)
    service = Service(place, "--auth=token", "--declared-gpus=8", f"--pool-file={place / 'pool.yaml'}")
    scene = Scene(service, place / "kept", {})
    try:
        service.start()
        with service.client() as client:
            client.project_put(ProjectEntry(name="team", guaranteed=1, weight=7, members=["*"]))

            def submit(name: str, command: list[str], gpus: float) -> None:
                files = upload(client, snapshot(place / "files", extra={"notes.txt": name.encode()}))
                job = client.submit(JobSubmit(name=name, project="team", command=command, gpus=gpus, **files.fields))
                scene.jobs[name] = job.id

            (place / "files").mkdir()
            (place / "files/large.bin").write_bytes(random.Random(2).randbytes(2**20 + 5))
            submit("succeeded", ["true"], 1)
            submit("failed", ["false"], 1)
            for name in ("succeeded", "failed"):
                client.wait(scene.jobs[name], PATIENCE)
            submit("running", wait_while(flag), 1)
            submit("meanwhile", wait_while(meanwhile), 1)
            for name in ("running", "meanwhile"):
                until(partial(is_running, client, scene.jobs[name]))
            submit("first", wait_while(flag), 6)
            submit("second", wait_while(flag), 6)
        service.kill()
        meanwhile.unlink()
        until((service.folder.path / f"jobs/{scene.jobs['meanwhile']}/attempts/1/0/done").exists)
        scene.end()
        flag.unlink()
        shutil.copytree(service.folder.path, scene.kept, symlinks=True)
        yield scene
    finally:
        scene.end()


def files(scene: Scene) -> list[str]:
    """All files; last those of the job that ended after the scheduler."""
    every = [str(path.relative_to(scene.kept)) for path in scene.kept.rglob("*") if path.is_file()]
    return sorted(every, key=lambda name: (scene.jobs["meanwhile"] in name, name))


def kind(scene: Scene, name: str) -> str:
    """The kind of a file: paths of the same kind differ in jobs, digests and numbers."""
    for job_id in scene.jobs.values():
        name = name.replace(job_id, "job")
    return re.sub(r"[0-9a-f]{32,}|\b[0-9a-f]{2}\b|\d+", "#", name)


def test_any_damaged_file_costs_its_job_at_the_most(scene: Scene) -> None:
    cases = list(itertools.product(files(scene), DAMAGES))
    if not LONG:
        turn = itertools.cycle(DAMAGES)
        kinds = {kind(scene, name): name for name in files(scene) if MATTERS.fullmatch(name)}
        cases = [(name, next(turn)) for name in kinds.values()]
    for name, damage in cases:
        scene.damage(name, DAMAGES[damage])
        try:
            check(scene, name)
        except BaseException as error:
            error.add_note(f"{name}, {damage}")
            raise
        finally:
            scene.end()
    tell("damaged files", len(cases))


def check(scene: Scene, name: str) -> None:
    process = scene.service.spawn()

    def ready() -> bool:
        endpoint = scene.service.folder.endpoint()
        return process.poll() is not None or (endpoint is not None and endpoint.pid == process.pid)

    scene.service.process = process
    until(ready)
    if process.poll() is not None:
        told = scene.service.log.read_text(errors="replace").splitlines()[-1]
        assert name in ("runai.sqlite", "runai.sqlite-wal"), told
        assert told.startswith(f"The database {scene.service.folder.path / 'runai.sqlite'} ")
        assert "from a backup" in told
        return
    with scene.service.client() as client:
        project = client.project("team")
        assert (project.guaranteed, project.weight) == (1, 7)
        ended = {job: client.wait(job_id, PATIENCE) for job, job_id in scene.jobs.items()}
        for job, view in ended.items():
            if job == "failed":
                assert view.state is JobState.FAILED
            elif view.state is not JobState.SUCCEEDED:
                assert view.state is JobState.FAILED
                assert name.startswith(("blobs/", f"jobs/{view.id}/work/")), f"{job}: {view.reason} {view.attempts}"
                assert name.startswith("jobs/") or "submit" in view.reason, view.attempts
            if job in ("succeeded", "failed"):
                assert len(view.attempts) == 1
        end = f"jobs/{scene.jobs['meanwhile']}/attempts/1/0/exit.json"
        assert len(ended["meanwhile"].attempts) == (2 if name == end else 1)
        if name == end:
            assert "exit.json is damaged" in ended["meanwhile"].attempts[0].reason
