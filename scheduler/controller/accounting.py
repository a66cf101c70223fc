"""The record of what was used, kept by the starts and ends of attempts and sessions.

What must hold: an attempt or a session is charged exactly from when it was given its GPUs until its end, once, also
after a crash or a change of the clock. Each start and end is charged in the transaction that makes it durable. What is
still running is charged every minute up to an instant that is stored with it (`until`). A restart needs to know only
that: whoever holds GPUs has been charged until then, or started later.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scheduler.model import (
    NOTHING,
    ONE,
    UNKNOWN_TYPE,
    Attempt,
    Consumer,
    Consumption,
    Ending,
    Environment,
    GpuType,
    Job,
    Node,
    NodeName,
    PoolUse,
    ProjectName,
    Session,
    SessionState,
    WorkerPlacement,
    held_by,
)
from scheduler.store import ChangeSet, PoolRecord, UsageRecord

if TYPE_CHECKING:
    from scheduler.controller.book import Book

MINUTE = 60
HOUR = 3600
LONGEST = 400 * 86_400.0
"""The most seconds that are charged at once: a clock may be set forward by years."""

_UNFINISHED = frozenset({Ending.PREEMPTED, Ending.RESIZED, Ending.MOVED, Ending.LOST})
"""The endings after which another attempt continues the work."""

Account = dict[tuple[int, Consumer], Consumption]


@dataclass(frozen=True, slots=True)
class Charge:
    """What the workers of a job or session held between two instants; negative where the end is the earlier one.

    `once` is charged once, at `at`, for the start or the end.
    """

    environment: Environment
    project: ProjectName
    holder: Job | Session
    placement: tuple[WorkerPlacement, ...]
    gpu_type: GpuType | None
    begin: float
    end: float
    at: float = 0.0
    once: Consumption = NOTHING


def after(book: Book, change: ChangeSet) -> list[Charge]:
    """The charges for the starts and ends in a change of this book."""
    charges = [charge for job in change.jobs for charge in _of_job(book.jobs.get(job.id), job, book.accounted_until)]
    for session in change.sessions:
        charges += _of_session(book.sessions.get(session.id), session, book.accounted_until)
    return charges


def going_on(book: Book, now: float) -> Iterator[Charge]:
    """What running workloads have held since they were last charged."""
    until = book.accounted_until
    for job in book.holding.values():
        attempt = job.attempts[-1]
        yield _charge(job, attempt, max(attempt.created, until), max(attempt.created, now))
    for session in book.sessions.values():
        if (since := session.placed_since) is not None:
            yield _seat(session, max(since, until), max(since, now))


def waited(job: Job) -> float:
    """How long a job waited for its latest attempt, from the end of the one before where there was one, in seconds."""
    *before, latest = job.attempts
    queued = [job.queued or job.submitted, *[attempt.ended or 0.0 for attempt in before[-1:]]]
    return max(0.0, latest.created - max(queued))


def _of_job(before: Job | None, job: Job, until: float) -> Iterator[Charge]:
    if before is not None and before.state.holds_gpus and not _runs(job, len(before.attempts)):
        attempt = job.attempts[len(before.attempts) - 1]
        begin, end = max(attempt.created, until), max(attempt.created, attempt.ended or 0.0)
        once = Consumption(reclaims=int(attempt.ending is Ending.PREEMPTED), lost=_lost(job, attempt))
        yield replace(_charge(job, attempt, begin, end), at=end, once=once)
    if job.state.holds_gpus and not (before is not None and _runs(before, len(job.attempts))):
        attempt, wait = job.attempts[-1], waited(job)
        once = Consumption(starts=1, wait=wait, longest_wait=wait)
        charge = _charge(job, attempt, attempt.created, max(attempt.created, until))
        yield replace(charge, at=attempt.created, once=once)


def _runs(job: Job, attempt: int) -> bool:
    return job.state.holds_gpus and len(job.attempts) == attempt


def _of_session(before: Session | None, session: Session, until: float) -> Iterator[Charge]:
    since = session.placed_since
    if since is None:
        return
    begun = None if before is None or before.state is not SessionState.LEASED else before.placed_since
    if before is None or begun is None:
        if session.state is SessionState.LEASED:
            wait = max(0.0, since - session.requested)
            once = Consumption(starts=1, wait=wait, longest_wait=wait)
            yield replace(_seat(session, since, max(since, until)), at=since, once=once)
    elif session.state is SessionState.ENDED:
        yield _seat(before, max(begun, until), max(begun, session.ended or 0.0))
    elif session.placement != before.placement:  # it lends its GPUs, or has them back
        yield _seat(before, max(begun, until), max(begun, since))
        yield _seat(session, since, max(since, until))


def _charge(job: Job, attempt: Attempt, begin: float, end: float) -> Charge:
    request = job.request
    return Charge(request.environment, request.project, job, attempt.placement, attempt.gpu_type, begin, end)


def _seat(session: Session, begin: float, end: float) -> Charge:
    return Charge(Environment.BUILD, ProjectName(""), session, session.placement, None, begin, end)


def _lost(job: Job, attempt: Attempt) -> float:
    """GPU-seconds of work lost: from the last known checkpoint until the attempt was stopped."""
    stopped = attempt.ended if attempt.stopping is None else attempt.stopping
    if attempt.ending not in _UNFINISHED or attempt.started is None or stopped is None:
        return 0.0
    saved = max(attempt.started, job.checkpointed or 0.0)
    return max(0.0, stopped - saved) * held_by(attempt.placement) / ONE


def records(charges: Iterable[Charge], nodes: Iterable[Node]) -> tuple[UsageRecord, ...]:
    """The charges by hour and by consumer."""
    account: Account = defaultdict(Consumption)
    types: Mapping[NodeName, GpuType | None] | None = None
    for charge in charges:
        if types is None:
            types = {node.name: node.gpu_type for node in nodes}
        shares = _by_type(charge.placement, charge.gpu_type, types)
        for gpu_type, share in shares.items():
            for hour, seconds in _hours(charge.begin, charge.end):
                add(account, hour, charge, gpu_type, Consumption(held=seconds * share / ONE))
        if charge.once != NOTHING:
            most = max(shares, key=shares.__getitem__, default=UNKNOWN_TYPE)
            add(
                account,
                hour_of(charge.at),
                charge,
                most,
                charge.once,
            )
    return tuple([UsageRecord(hour, consumer, used) for (hour, consumer), used in account.items()])


def starts(charges: Iterable[Charge]) -> tuple[PoolRecord, ...]:
    """The starts of jobs among the charges, and how long these had waited, by minute."""
    return tuple(
        [
            PoolRecord(minute_of(charge.at), PoolUse(starts=1, wait=once.wait, longest_wait=once.longest_wait))
            for charge in charges
            if (once := charge.once).starts and isinstance(charge.holder, Job)
        ]
    )


def add(account: Account, hour: int, charge: Charge, gpu_type: GpuType, used: Consumption) -> None:
    key = hour, Consumer(charge.environment, charge.project, charge.holder.user, gpu_type)
    account[key] += used


def _by_type(
    placement: Iterable[WorkerPlacement], gpu_type: GpuType | None, types: Mapping[NodeName, GpuType | None]
) -> Mapping[GpuType, int]:
    """Thousandths of GPUs by their type; `gpu_type` is that of all of them, where it is known."""
    shares: Counter[GpuType] = Counter()
    for worker in placement:
        if worker.gpus:
            shares[gpu_type or types.get(worker.node) or UNKNOWN_TYPE] += worker.share * len(worker.gpus)
    return shares


def hour_of(at: float) -> int:
    return int(at // HOUR) * HOUR


def minute_of(at: float) -> int:
    return int(at // MINUTE) * MINUTE


def _hours(begin: float, end: float) -> Iterator[tuple[int, float]]:
    """The seconds of each hour between two instants, negative where the end is the earlier one."""
    sign, begin, end = (1, begin, end) if begin <= end else (-1, end, begin)
    begin = max(begin, end - LONGEST)
    while begin < end:
        hour = hour_of(begin)
        then = min(end, hour + HOUR)
        yield hour, sign * (then - begin)
        begin = then
