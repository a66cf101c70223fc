"""The power fails during a burst of submissions: the scheduler starts again, has everything that it acknowledged, and
runs no attempt twice. `RUNAI_CHAOS=1` repeats it a hundred times.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from scheduler.client import AsyncClient
from scheduler.errors import Conflict, NotFound, RunaiError
from scheduler.files.bundle import snapshot
from scheduler.model import JobState
from scheduler.schema import JobSubmit, JobView
from scheduler.store import ChangeSet, Store
from tests.app.conftest import until
from tests.chaos.campaign import LONG, seed, tell
from tests.chaos.machine import PATIENCE, Machine
from tests.store.samples import job as sample_job

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="needs root on Linux, to mount a disk"
)

CUTS = 100 if LONG else 4
CLIENTS = 4
BURST = 15
"""Upper bound of each client's submissions between two cuts."""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    machine.destroy()


@dataclass
class Told:
    """What the scheduler has acknowledged."""

    submitted: set[str] = field(default_factory=set)
    cancelled: dict[str, float] = field(default_factory=dict)
    """The jobs with a cancel request, and the number of their attempts then; infinite without a response."""
    succeeded: dict[str, int] = field(default_factory=dict)
    """The jobs that succeeded, with the number of their attempts."""


def test_what_is_not_synced_is_lost_in_a_power_cut(machine: Machine) -> None:
    """Checks the machine itself: without it, the tests below would prove nothing."""
    machine.run("sleep", "600")
    for name in ("kept", "lost"):
        (machine.disk / name).write_text("content")
    descriptor = os.open(machine.disk / "kept", os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    machine.cut()
    machine.run("sleep", "600")
    assert (machine.disk / "kept").read_text() == "content"
    assert not (machine.disk / "lost").exists() or (machine.disk / "lost").read_text() == ""


READS = """
import pathlib, shutil, sys, time
from scheduler.files.durable import sync
from scheduler.store import Store
written, file, told = map(pathlib.Path, sys.argv[1:])
for suffix in ("", "-wal"):
    shutil.copyfile(f"{written}{suffix}", f"{file}{suffix}")
sync(file)
store = Store(f"sqlite:///{file}")
store.open()
told.write_text(str(len(store.load().jobs)))
time.sleep(600)
"""


async def test_what_a_scheduler_has_read_outlives_a_power_cut(machine: Machine, tmp_path: Path) -> None:
    """Also what the scheduler before was killed over, between writing it and syncing it."""
    written, told = tmp_path / "written", tmp_path / "told"
    store = Store(f"sqlite:///{written}")
    store.open()
    await store.write(ChangeSet(submitted=(sample_job(1), sample_job(2))))
    machine.run(sys.executable, "-c", READS, str(written), str(machine.point / "state"), str(told))
    await asyncio.to_thread(until, told.exists)
    machine.cut()
    store.close()
    machine.run("sleep", "600")
    kept = shutil.copytree(machine.disk, tmp_path / "kept", ignore=shutil.ignore_patterns("lost+found"))
    again = Store(f"sqlite:///{kept}/state")
    again.open()
    assert told.read_text() == str(len(again.load().jobs)) == "2"
    again.close()


async def test_a_power_cut_loses_nothing_acknowledged_and_runs_nothing_twice(machine: Machine) -> None:
    chance = random.Random(seed())
    told, marks = Told(), machine.folder / "marks"
    marks.touch()
    for _ in range(CUTS):
        machine.start()
        url = await asyncio.to_thread(machine.wait_until_ready)
        token = machine.state.read_token() or ""
        assert token
        async with AsyncClient(url, token) as client:
            await check(client, told, marks)
            clients = [asyncio.create_task(burst(client, told, marks, chance)) for _ in range(CLIENTS)]
            await asyncio.sleep(chance.uniform(0, 1))
            await asyncio.to_thread(machine.cut)
            await asyncio.gather(*clients)
        if chance.random() < 0.3:  # and again, before or when it is ready
            machine.start()
            await asyncio.sleep(chance.uniform(0, 2.5))
            await asyncio.to_thread(machine.cut)
    machine.start()
    url = await asyncio.to_thread(machine.wait_until_ready)
    async with AsyncClient(url, token) as client:
        await check(client, told, marks)
    tell("power cuts", CUTS)
    tell("power cuts: jobs", len(told.submitted))
    tell("power cuts: attempts", len(marks.read_text().split()))


async def burst(client: AsyncClient, told: Told, marks: Path, chance: random.Random) -> None:
    """Submit jobs, with and without files; cancel some, read others. Ends when the scheduler does not respond."""
    ours: list[str] = []
    try:
        for _ in range(BURST):
            script = f'echo "$RUNAI_JOB_ID.$RUNAI_ATTEMPT" >> {marks}; sleep {chance.choice((0, 0, 0.1, 0.5))}'
            bundle = None
            if chance.random() < 0.3:
                packed = snapshot(Path(__file__).parent, extra={"random": chance.randbytes(100)})
                bundle = await client.upload_bundle(packed.data)
                script = f"test -s random && {script}"
            job = await client.submit(JobSubmit(command=["sh", "-c", script], bundle=bundle, gpus=1))
            told.submitted.add(job.id)
            ours.append(job.id)
            if chance.random() < 0.15:
                cancelled = chance.choice(ours)
                told.cancelled.setdefault(cancelled, math.inf)
                with contextlib.suppress(Conflict):  # it has ended
                    told.cancelled[cancelled] = len((await client.cancel(cancelled)).attempts)
            note(await client.job(chance.choice(ours)), told)
    except RunaiError as error:
        if error.status < 500:
            raise


def note(job: JobView, told: Told) -> None:
    if job.state is JobState.SUCCEEDED:
        told.succeeded[job.id] = len(job.attempts)


async def check(client: AsyncClient, told: Told, marks: Path) -> None:
    """Everything acknowledged is there, and finishes."""
    lost = []
    for job_id in sorted(told.submitted):
        try:
            job = await client.wait(job_id, timeout=PATIENCE)
        except NotFound:
            lost.append(job_id)
            continue
        wanted = {JobState.SUCCEEDED, JobState.CANCELLED} if job_id in told.cancelled else {JobState.SUCCEEDED}
        assert job.state in wanted, f"{job_id}: {job.reason} {job.attempts}"
        assert len(job.attempts) <= told.cancelled.get(job_id, math.inf), f"{job_id} has run after its end"
        assert told.succeeded.get(job_id) in (None, len(job.attempts)), f"{job_id} has run again"
        note(job, told)
    assert not lost, f"{len(lost)} of {len(told.submitted)} acknowledged jobs are lost"
    runs = Counter(marks.read_text().split())
    assert not [run for run, times in runs.items() if times > 1]
    assert {run.partition(".")[0] for run in runs} >= set(told.succeeded)
