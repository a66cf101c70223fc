"""Agents on a slow network that breaks all the time: what they fetch, print, report and write arrives whole and once,
and so does their end.
`RUNAI_CHAOS=1` takes longer; `RUNAI_SEED` repeats the choices of a run.
"""

from __future__ import annotations

import hashlib
import io
import random
import tarfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.engines.backend import Backend
from scheduler.engines.base import WorkerState
from scheduler.engines.files import log_file, output_file
from scheduler.engines.local.ports import Ports
from scheduler.files.blobs import Blobs
from scheduler.model import JobId, LargeFile
from tests.chaos.campaign import LONG, seed, tell
from tests.chaos.network import Network
from tests.engines.backends import RemoteBackendSetup, Scheduler
from tests.engines.remote import ADDRESS, remote
from tests.engines.workplace import ended, eventually, launch, shell

ROUNDS, JOBS, WORKERS, LINES = (5, 4, 2, 200) if LONG else (1, 2, 2, 60)

COUNTS = f"""
cat words.txt > "$RUNAI_OUTPUT_DIR/words.$RUNAI_RANK"
cat large > "$RUNAI_OUTPUT_DIR/large.$RUNAI_RANK"
n=0
while [ $n -lt {LINES} ]; do
  n=$((n + 1)); echo $n; echo $RUNAI_RANK.$n >> "$RUNAI_OUTPUT_DIR/metrics.jsonl"; sleep 0.02
done
exit 3
"""
NUMBERS = range(1, LINES + 1)


class RemoteNetworkSetup(RemoteBackendSetup):
    """Agents reach the scheduler at another port than its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (self.far,) = Ports(ADDRESS).take("network", 1)

    def backend(self) -> Backend:
        return remote(self.folder, self.containers, f"http://{ADDRESS}:{self.far}")


@pytest.fixture
def setup(tmp_path: Path) -> RemoteNetworkSetup:
    (tmp_path / "state").mkdir(mode=0o700)
    return RemoteNetworkSetup(tmp_path / "state")


@pytest.fixture
async def here(setup: RemoteNetworkSetup) -> AsyncIterator[Scheduler]:
    scheduler = Scheduler(setup)
    await scheduler.open()
    await scheduler.backend.engine.recover([])
    await scheduler.serve()
    try:
        yield scheduler
    finally:
        await scheduler.close()
        setup.containers.clear()


async def test_a_network_that_breaks_loses_nothing_and_repeats_nothing(
    here: Scheduler, setup: RemoteNetworkSetup
) -> None:
    chance = random.Random(seed())
    large = chance.randbytes(2_000_000)
    bundle, blob = await keep(setup, packed(b"words")), await keep(setup, large)
    breaks, long_stalls = (0.4, 0.05) if LONG else (0.3, 0.0)
    network = Network(chance, setup.port, breaks, long_stalls=long_stalls)
    async with network.between(setup.far):
        for number in range(ROUNDS):
            jobs = [f"j{number}-{each}" for each in range(JOBS)]
            for job in jobs:
                order = launch(job, shell(COUNTS), workers=WORKERS, bundle=bundle)
                program = replace(order.program, files=(LargeFile("large", (blob,), executable=False),))
                await here.backend.engine.launch(replace(order, program=program))
            for job in jobs:
                await complete(here, job, large)
        await eventually(lambda: not any(map(setup.containers.alive, setup.containers.workers())))
    assert network.seen["cuts"] + network.seen["resets"]
    tell("jobs", ROUNDS * JOBS)
    for figure, count in network.seen.items():
        tell(figure, count)


async def complete(here: Scheduler, job: str, large: bytes) -> None:
    """A job ends, and all its files are there, once."""
    files = here.backend.files
    for rank in range(WORKERS):
        end = await here.end(job, rank)
        assert (end.state, end.exit_code) == (WorkerState.EXITED, 3), (job, rank, end.reason)
        assert list(map(ended, here.of(job, rank))).count(True) == 1
        log = await files.read(log_file(JobId(job), 1, rank), 0, 2**20)
        assert [int(line) for line in log.split()] == [*NUMBERS]
        assert await files.read(output_file(JobId(job), f"words.{rank}"), 0, 99) == b"words"
        assert await files.read(output_file(JobId(job), f"large.{rank}"), 0, 2**22) == large
    reports = (await files.read(output_file(JobId(job), "metrics.jsonl"), 0, 2**20)).decode().split()
    assert sorted(reports) == sorted(f"{rank}.{number}" for rank in range(WORKERS) for number in NUMBERS)


def packed(words: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        member = tarfile.TarInfo("words.txt")
        member.size = len(words)
        archive.addfile(member, io.BytesIO(words))
    return file.getvalue()


async def keep(setup: RemoteNetworkSetup, content: bytes) -> str:
    """Upload a blob; returns its digest."""
    digest = hashlib.sha256(content).hexdigest()
    with Blobs(setup.folder).receive(digest) as incoming:
        incoming.write(content)
        await incoming.commit()
    return digest
