"""Keeps the workers and sessions of this machine to their parts of GPUs, as far as the isolation in force does.

All functions here may wait for the driver: call them outside the event loop.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping

from scheduler.engines.base import Launch, Seat
from scheduler.engines.contract import devices
from scheduler.model import ONE, JobId, Node, NodeName, SessionId, WorkerPlacement
from scheduler.telemetry import GpuIsolation, Part


class GpuParts:
    """What it returns are the variables of a worker or server; `CGROUP` names the control group that it is to join."""

    def __init__(self, isolation: GpuIsolation) -> None:
        self._isolation = isolation
        self._sessions: dict[SessionId, str] = {}

    def of_worker(self, launch: Launch, rank: int) -> Mapping[str, str]:
        name = _worker(launch.job, launch.attempt, rank)
        return self._enforce(name, launch.workers[rank : rank + 1], launch.nodes)

    def release_worker(self, job: JobId, attempt: int, rank: int) -> None:
        self._isolation.release(_worker(job, attempt, rank))

    def of_session(self, seat: Seat) -> Mapping[str, str]:
        """The same for a server that runs on without its session, and gets another one."""
        server = hashlib.sha256(json.dumps([seat.user, seat.server]).encode()).hexdigest()[:16]
        self._sessions[seat.session] = f"server.{server}"
        return self._enforce(self._sessions[seat.session], seat.workers, seat.nodes)

    def release_session(self, session: SessionId) -> None:
        if (name := self._sessions.pop(session, None)) is not None:
            self._isolation.release(name)

    def sweep(self) -> None:
        """Forget the workers and sessions that ended while no scheduler ran."""
        self._isolation.sweep()

    def _enforce(
        self, name: str, workers: Iterable[WorkerPlacement], nodes: Mapping[NodeName, Node]
    ) -> Mapping[str, str]:
        for worker in workers:
            node = nodes.get(worker.node)
            if node is not None and worker.share < ONE and (memory := node.part_memory(worker.share)):
                return self._isolation.enforce(Part(name, devices(worker, node)[0], memory))
        return {}


def _worker(job: JobId, attempt: int, rank: int) -> str:
    return f"{job}.{attempt}.{rank}"
