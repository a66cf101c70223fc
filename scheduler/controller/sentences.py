"""What jobs and their owners are told: where workers stand, how one ended."""

from __future__ import annotations

import signal
from collections.abc import Mapping

from scheduler.engines.base import WorkerState, WorkerStatus
from scheduler.model import WorkerPlacement


def clause(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def where(placement: tuple[WorkerPlacement, ...]) -> str:
    """`n1`, `n1 and n2`, `n1, n2 and 6 more nodes`."""
    nodes = list(dict.fromkeys(worker.node for worker in placement))
    if len(nodes) <= 2:
        return " and ".join(nodes) or "no node"
    return f"{nodes[0]}, {nodes[1]} and {len(nodes) - 2} more node{'s' if len(nodes) > 3 else ''}"


def starting(placement: tuple[WorkerPlacement, ...], workers: Mapping[int, WorkerStatus]) -> str:
    """What an attempt waits for that is being started: what its slowest worker does, as far as the engine tells."""
    waiting = [worker for worker in workers.values() if not worker.state.begun]
    pulling = [worker for worker in waiting if worker.state is WorkerState.PULLING]
    first = min(pulling or waiting, key=lambda worker: worker.rank, default=None)
    if first is None:
        return f"Starts on {where(placement)}."
    plain = "its image is being pulled" if pulling else "its node has not started it yet"
    return f"Starts on {where(placement)}: {first.reason.rstrip('.') or plain}."


def blame(worker: WorkerStatus, world: int) -> str:
    """`It was killed by SIGSEGV.` or `Worker 4 of 8 (rank 3) was killed by SIGSEGV.`: what the engine says, or the
    plain facts."""
    said = worker.reason.rstrip(".") or _how(worker)
    if world == 1:
        return f"{said[:1].upper()}{said[1:]}."
    who = f"Worker {worker.rank + 1} of {world} (rank {worker.rank})"
    return f"{who}{said[2:]}." if said.startswith("it ") else f"{who}: {said}."


def _how(worker: WorkerStatus) -> str:
    if worker.state is WorkerState.LOST:
        return "it was lost"
    if worker.exit_code is None:
        return "it never started"
    if worker.exit_code < 0:
        return f"it was killed by {signal_name(-worker.exit_code)}"
    return f"it ended with exit code {worker.exit_code}"
