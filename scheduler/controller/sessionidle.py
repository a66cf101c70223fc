"""Since when sessions have been idle, by all that is known of them: their GPUs, their kernels, and the person.

What must hold:
- A session is idle only where something is known of it, and nothing that is known of it is active.
- It has been idle no longer than since the last activity that is known.
- What a notebook server has told counts for `FRESH` seconds; from then on only its GPUs do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.controller.idleness import BUSY
from scheduler.model import GpuKey, Session, SessionId

if TYPE_CHECKING:
    from scheduler.telemetry import GpuUsage

FRESH = 200.0
"""Seconds for which a report counts: a notebook server sends one a minute."""


@dataclass(frozen=True, slots=True)
class GpuActivity:
    """What is seen of a session's GPUs: whether one is in use, or since when none has been. GPUs that nobody can
    measure have neither."""

    in_use: bool = False
    idle_since: float | None = None


@dataclass(frozen=True, slots=True)
class ServerActivity:
    """What a notebook server told at an instant: whether a kernel is busy, and when a kernel or a person was active
    last (`None`: not since it started)."""

    told: float
    busy: bool
    last: float | None


def idle_since(started: float, gpus: GpuActivity, server: ServerActivity | None, now: float) -> float | None:
    """Since when a session that started then has been idle; `None`: it is not, or nobody can tell."""
    if server is not None and now - server.told > FRESH:
        server = None
    if gpus.in_use or (server is not None and server.busy):
        return None
    known = [] if gpus.idle_since is None else [gpus.idle_since]
    if server is not None:
        known.append(started if server.last is None else server.last)
    return min(max(started, *known), now) if known else None


class SessionIdleness:
    """What is known of each session. It ends with the session, and with the scheduler."""

    def __init__(self) -> None:
        self._gpus: dict[SessionId, GpuActivity] = {}
        self._servers: dict[SessionId, ServerActivity] = {}

    def look(self, sessions: Iterable[Session], usage: Mapping[GpuKey, GpuUsage], now: float) -> None:
        """See what their GPUs do now."""
        before, self._gpus = self._gpus, {}
        for session in sessions:
            known = before.get(session.id, GpuActivity())
            self._gpus[session.id] = _looked(session, usage, known, now)
        self._servers = {id: told for id, told in self._servers.items() if id in self._gpus}

    def tell(self, session: SessionId, activity: ServerActivity) -> None:
        """Take down what a session's server tells."""
        self._servers[session] = activity

    def since(self, session: Session, now: float) -> float | None:
        """Since when a session has been idle; `None`: it is not, or nobody can tell."""
        if session.started is None:
            return None
        gpus = self._gpus.get(session.id, GpuActivity())
        return idle_since(session.started, gpus, self._servers.get(session.id), now)


def _looked(session: Session, usage: Mapping[GpuKey, GpuUsage], before: GpuActivity, now: float) -> GpuActivity:
    gpus = [usage.get(GpuKey((worker.node, gpu))) for worker in session.placement for gpu in worker.gpus]
    uses = [None if gpu is None else gpu.utilisation for gpu in gpus]
    known = [use for use in uses if use is not None]
    if any(use >= BUSY for use in known):
        return GpuActivity(in_use=True)
    if not gpus or len(known) < len(gpus):
        return GpuActivity()
    return GpuActivity(idle_since=now if before.idle_since is None else before.idle_since)
