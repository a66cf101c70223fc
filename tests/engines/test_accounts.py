"""Jobs as their owners: each runs as its owner, and cannot read files of the scheduler or of other users."""

from __future__ import annotations

import hashlib
import io
import os
import pwd
import shutil
import stat
import tarfile
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from scheduler.discovery.statefolder import StateFolder
from scheduler.engines.files import Area, log_file
from scheduler.engines.local.engine import LocalEngine
from scheduler.errors import Invalid
from scheduler.files.blobs import Blobs
from scheduler.model import JobId
from scheduler.store import Store
from tests.engines.workplace import Workplace, launch, shell

OWNER, OTHER = "daemon", "nobody"

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to run jobs as somebody else")


@pytest.fixture
async def shared() -> AsyncIterator[Workplace]:
    """A state folder that other users can reach, as that of a running scheduler."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o711)
    here = Workplace(folder / "state")
    here.engine = LocalEngine(here.state_dir, as_owner=True)
    state = StateFolder(here.state_dir)
    state.open()
    state.lock()
    state.token()
    state.write_endpoint("http://127.0.0.1:1")
    store = Store(f"sqlite:///{here.state_dir}/runai.sqlite")
    store.open()
    await here.open()
    state.open()  # as a restart does: the jobs stay reachable
    yield here
    await here.close()
    store.close()
    state.unlock()
    shutil.rmtree(folder)


async def sent(here: Workplace, files: dict[str, bytes]) -> str:
    """A bundle of these files, as stored for a job."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for path, content in files.items():
            about = tarfile.TarInfo(path)
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))
    digest = hashlib.sha256(packed.getvalue()).hexdigest()
    with Blobs(here.state_dir).receive(digest) as incoming:
        incoming.write(packed.getvalue())
        await incoming.commit()
    return digest


@as_root
async def test_a_job_is_its_owners_process_with_their_groups_and_home(shared: Workplace) -> None:
    await shared.engine.launch(launch("j", shell("id -u; id -g; id -G; echo $HOME $USER $LOGNAME"), user=OWNER))
    assert (await shared.end("j")).exit_code == 0
    log = (await shared.files.read(log_file(JobId("j"), 1, 0), 0, 1000)).decode().split("\n")
    them = pwd.getpwnam(OWNER)
    groups = {int(each) for each in log[2].split()}
    assert log[:2] == [str(them.pw_uid), str(them.pw_gid)]
    assert groups == set(os.getgrouplist(OWNER, them.pw_gid))
    assert log[3] == f"{them.pw_dir} {OWNER} {OWNER}"


@as_root
async def test_its_folders_are_the_owners_from_attempt_to_attempt(shared: Workplace) -> None:
    digest = await sent(shared, {"data/in": b"sent\n"})
    code = (
        'cat data/in; echo more >> data/in; echo x >> "$RUNAI_CHECKPOINT_DIR/c"; cat "$RUNAI_CHECKPOINT_DIR/c"; '
        'echo y > "$RUNAI_OUTPUT_DIR/y"'
    )
    for attempt in (1, 2):
        await shared.engine.launch(launch("j", shell(code), user=OWNER, bundle=digest, attempt=attempt))
        assert (await shared.end("j", attempt=attempt)).exit_code == 0
    assert await shared.files.read(log_file(JobId("j"), 2, 0), 0, 1000) == b"sent\nmore\nx\nx\n"
    assert [output.path for output in await shared.files.list(JobId("j"), Area.OUTPUT)] == ["y"]
    await shared.files.forget(JobId("j"))
    assert not shared.job("j").exists()


@as_root
async def test_a_stop_reaches_it_and_its_children(shared: Workplace) -> None:
    code = 'trap "exit 3" TERM; sleep 600 & touch "$RUNAI_OUTPUT_DIR/out"; echo > "$RUNAI_OUTPUT_DIR/out"; wait'
    await shared.engine.launch(launch("j", shell(code), user=OWNER))
    await shared.output_of("j")
    await shared.engine.stop(JobId("j"), 1, 30)
    assert (await shared.end("j")).exit_code == 3


@as_root
async def test_it_cannot_read_files_of_the_scheduler_or_of_another_job(shared: Workplace) -> None:
    """Everything below the state folder except its own three folders: not even listings are readable."""
    secret = 'echo mine > "$RUNAI_OUTPUT_DIR/out"; echo mine; sleep 600'
    await shared.engine.launch(launch("theirs", shell(secret), user=OTHER))
    await shared.output_of("theirs")
    below = [str(path) for path in shared.state_dir.rglob("*") if not path.is_socket()]
    assert f"{shared.state_dir}/token" in below
    assert f"{shared.state_dir}/runai.sqlite" in below
    look = 'if [ -d "$1" ]; then ls "$1"; else cat "$1"; fi >/dev/null 2>&1 && echo "$1"; shift'
    folders = f"{shared.state_dir} {shared.state_dir}/jobs"
    code = f"while [ $# -gt 0 ]; do {look}; done; cat /proc/{os.getpid()}/environ; ls {folders}"
    await shared.engine.launch(launch("j", (*shell(code), "sh", *below), user=OWNER))
    await shared.end("j")
    log = (await shared.files.read(log_file(JobId("j"), 1, 0), 0, 100_000)).decode()
    assert all("ermission denied" in line for line in log.splitlines()), log
    for path in shared.state_dir.rglob("*"):
        about = path.lstat()
        if stat.S_ISREG(about.st_mode) and about.st_uid == 0:
            assert not about.st_mode & 0o077, path
    await shared.engine.stop(JobId("theirs"), 1, 0)
    await shared.end("theirs")


@as_root
@pytest.mark.parametrize(("user", "sentence"), [("root", "never run as root"), ("no-such-user", "has no user")])
async def test_no_job_runs_as_root_or_as_another_user(shared: Workplace, user: str, sentence: str) -> None:
    with pytest.raises(Invalid, match=sentence):
        await shared.engine.launch(launch("j", shell("id"), user=user))
    assert not (shared.state_dir / "running" / "j.1").exists()


@as_root
async def test_a_folder_that_owners_cannot_get_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    engine = LocalEngine(tmp_path / "state", as_owner=True)
    with pytest.raises(Invalid, match=r"cannot access .*choose another"):
        await engine.open(lambda status: None)


async def test_only_root_can(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(Invalid, match="Only root can"):
        await LocalEngine(tmp_path / "state", as_owner=True).open(lambda status: None)
