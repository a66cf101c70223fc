"""Build sessions with a synthetic profile: people who open a notebook and mostly think in front of it.

Traces of jobs have none, so this is made up, and says how: whoever has no notebook open opens one on a weekday at a
time between 9 and 19 h, for a time that is log-normal (median 3 h, 95th percentile 24 h), on one GPU of their own,
which is busy for 5 to 35 % of it. Time 0 of a trace counts as a Monday, 0 h. The same seed gives the same sessions.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from scheduler.errors import Invalid
from scheduler.model import (
    BUILD_POOL,
    ONE,
    Node,
    NodeName,
    ProjectName,
    Request,
    SessionId,
    Shape,
    UserName,
    session_request,
)
from scheduler.simulation.baselines import Run, Span
from scheduler.simulation.trace import TraceJob

HOUR, DAY = 3600.0, 86400.0
OPENS = 9 * HOUR, 19 * HOUR
MEDIAN = 3 * HOUR
SIGMA = math.log(24 / 3) / 1.6449
"""So that one session in twenty is open for more than 24 h."""
BUSY = 0.05, 0.35

MOST_USERS, MOST_SESSIONS = 100_000, 1_000_000

PROFILE = "weekdays 9–19 h, one GPU each, open log-normal (median 3 h, 95th percentile 24 h), busy 5–35 %"


@dataclass(frozen=True, slots=True)
class Session:
    """One notebook server of `user`: open from `job.submitted` for `job.duration`, its GPU at work for a part `busy` of
    it."""

    job: TraceJob
    busy: float

    @property
    def request(self) -> Request:
        return session_request(self.job.user or UserName(""), Shape(self.job.gpus))

    def run(self) -> Run:
        """How it stands where its GPU is kept for it alone: it opens at once."""
        job = self.job
        span = Span(job.submitted, job.submitted + job.duration, job.gpus)
        return Run(job, (span,), idle=1 - self.busy)


def sessions_of(users: int, start: float, end: float, seed: int) -> tuple[Session, ...]:
    """The sessions that `users` people open in `[start, end)`, in the order in which they do. Raises `Invalid`: too
    many, of which each person may open one a day."""
    if users > MOST_USERS:
        raise Invalid(f"--sessions takes {MOST_USERS:,} people at the most, not {users:,}.", field="sessions")
    days = range(int(start // DAY), int(end // DAY) + 1)
    if users * len(days) > MOST_SESSIONS:
        raise Invalid(
            f"{users:,} people open up to {users * len(days):,} sessions in the {len(days):,} days of this trace; "
            f"--sessions times the days is {MOST_SESSIONS:,} at most.",
            field="sessions",
        )
    draw = random.Random(seed)
    found: list[Session] = []
    for number in range(users):
        user, free = UserName(f"person-{number:04}"), start
        for day in days:
            opened = day * DAY + draw.uniform(*OPENS)
            length = draw.lognormvariate(math.log(MEDIAN), SIGMA)
            busy = draw.uniform(*BUSY)
            if day % 7 < 5 and max(free, start) <= opened < end:
                free = opened + length
                session = SessionId(f"session-{number:04}-{day}")
                job = TraceJob(session, opened, length, ONE, ProjectName(""), user=user)
                found.append(Session(job, busy))
    return tuple(sorted(found, key=lambda session: (session.job.submitted, session.job.id)))


def build_nodes(users: int, gpus_per_node: int) -> tuple[Node, ...]:
    """Nodes with one build GPU for each user, so that nobody is promised more than there is."""
    count = -(-users // gpus_per_node)
    return tuple(Node(NodeName(f"build-{n:04}"), gpus_per_node, node_pool=BUILD_POOL) for n in range(count))
