"""The states of pods that have not started."""

from __future__ import annotations

import asyncio

from scheduler.engines.agents.tokens import Worker
from scheduler.engines.base import WorkerState
from scheduler.engines.kubernetes.settling import Settling
from scheduler.model import JobId

WORKER = Worker(JobId("job00001"), 1, 0)
UNBOUND, PULLED = "its pod is being bound to its node.", "its image is being pulled."


async def test_a_state_is_reported_once_it_lasts() -> None:
    told: list[tuple[Worker, WorkerState, str]] = []
    reported = asyncio.Event()

    def tell(worker: Worker, state: WorkerState, reason: str) -> None:
        told.append((worker, state, reason))
        reported.set()

    settling = Settling(tell, lasting=0.01)
    settling.put(WORKER, WorkerState.PENDING, UNBOUND)
    settling.put(WORKER, WorkerState.PULLING, PULLED)
    await asyncio.wait_for(reported.wait(), 30)
    assert told == [(WORKER, WorkerState.PULLING, PULLED)]
    reported.clear()
    settling.put(WORKER, WorkerState.PENDING, UNBOUND)
    await asyncio.wait_for(reported.wait(), 30)
    assert told[1:] == [(WORKER, WorkerState.PENDING, UNBOUND)]


async def test_nothing_is_reported_after_the_end() -> None:
    told: list[str] = []
    settling = Settling(lambda worker, state, reason: told.append(reason), lasting=0)
    settling.put(WORKER, WorkerState.PENDING, UNBOUND)
    settling.close()
    for _ in range(3):
        await asyncio.sleep(0)
    assert not told
