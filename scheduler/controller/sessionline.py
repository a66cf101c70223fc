"""The line of servers that wait for GPUs to build on.

Pure. What must hold: GPUs are offered in the order of the requests, and to nobody behind a server that could not be
placed; a server leaves the line when it is placed, refused, or not asked for any more. Who is over quota never enters
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from scheduler.model import Milli, Session
from scheduler.policy.blocking import Blocker, NoBuildGpu, NoCapacity, NoDomain, OverBuildQuota, Reserved

HOLD = 10.0
"""Seconds until a waiting caller is told its place; it asks again at once."""

RENEWAL = 45.0
"""Seconds without such a request after which a server has left the line."""


def passes(blocked_by: Blocker | None) -> bool:
    """Whether what blocks a session passes when others release GPUs."""
    return isinstance(blocked_by, NoBuildGpu | NoCapacity | Reserved) or (
        isinstance(blocked_by, NoDomain) and blocked_by.ever
    )


def over_quota(session: Session, others: Iterable[Session]) -> OverBuildQuota | None:
    """What refuses a session whose user's other servers, those in line included, leave too little of the quota."""
    quota, asked = session.request.build_quota, session.request.shape.gpus
    held = sum(other.counted for other in others if other.user == session.user and other.server != session.server)
    if quota is None or held + asked <= quota:
        return None
    return OverBuildQuota(session.user, quota, held, asked)


def offered(requests: Iterable[tuple[Session, bool]]) -> Iterator[Session]:
    """The requests that the next plan may place; each with whether an earlier plan could not place it."""
    for session, passed in sorted(requests, key=lambda each: (each[0].requested, each[0].id)):
        yield session
        if passed:
            return


def likely_start(ahead: Sequence[Milli], free: Milli, ends: Iterable[tuple[float, Milli]]) -> float | None:
    """When enough GPUs are free for the last of these amounts, if each of those before it gets its own first.

    `ends` are the known ends of sessions (seconds since the epoch) with what they hold. None: it depends on a session
    whose end is not known. GPUs are counted, not placed, so this can be too early for servers with several.
    """
    missing = sum(ahead) - free
    for at, held in sorted(ends):
        missing -= held
        if missing <= 0:
            return at
    return None
