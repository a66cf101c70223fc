"""Preemptive baselines over the same trace: one queue for all projects, and GPUs without placement constraints.

Whoever comes first by a key holds GPUs, asked again at each event; who does not fit is skipped. `feedback` is
multi-level feedback (discretized Tiresias): least served first, in levels, then the older. `oracle` knows all
durations: the shortest remaining time first. Neither considers projects or placement: they are bounds, not achievable
results.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from scheduler.errors import Invalid
from scheduler.model import ONE, Settings, gpu_count
from scheduler.policy.levels import ServiceLevels
from scheduler.simulation.baselines import Run, Span
from scheduler.simulation.trace import Trace, TraceJob


@dataclass(slots=True, eq=False)
class _Job:
    """A job on its way, in seconds: what `remains`, what a restart still takes (`overhead`), since when it holds."""

    job: TraceJob
    remains: float
    overhead: float = 0.0
    since: float | None = None
    at: float = 0.0
    ran: float = 0.0
    stops: int = 0
    lost: float = 0.0
    spans: list[Span] = field(default_factory=list)

    @property
    def gpus(self) -> float:
        return self.job.gpus / ONE

    @property
    def end(self) -> float:
        return self.at + self.overhead + self.remains

    def run_until(self, now: float) -> None:
        spent = now - self.at
        paid = min(spent, self.overhead)
        self.overhead -= paid
        self.lost += paid * self.gpus
        self.remains = max(0.0, self.remains - (spent - paid))
        self.ran += spent
        self.at = now

    def leave(self, now: float) -> None:
        assert self.since is not None
        self.spans.append(Span(self.since, now, self.job.gpus))
        self.since = None


LEVELS = ServiceLevels(Settings())


def _least_served(job: _Job) -> tuple[float, float]:
    return LEVELS.of(job.ran * job.gpus), job.job.submitted


def _shortest(job: _Job) -> tuple[float, float]:
    return job.remains, job.job.submitted


PREEMPTIVE: Mapping[str, Callable[[_Job], tuple[float, float]]] = {"feedback": _least_served, "oracle": _shortest}


def play_preemptive(trace: Trace, policy: str, *, gpus: int, cost: float) -> tuple[Run, ...]:
    """Play `trace` on so many GPUs until the last job ends. Each stop costs its job `cost` seconds when it goes on."""
    key = PREEMPTIVE[policy]
    arrivals, unfinished, done = deque(trace.jobs), list[_Job](), list[Run]()
    while arrivals or unfinished:
        now = _next(arrivals, unfinished, policy == "feedback")
        for job in unfinished:
            if job.since is not None:
                job.run_until(now)
        for job in [job for job in unfinished if job.since is not None and job.overhead + job.remains <= 1e-9]:
            job.leave(now)
            unfinished.remove(job)
            done.append(Run(job.job, tuple(job.spans), job.stops, job.lost))
        while arrivals and arrivals[0].submitted <= now:
            new = arrivals.popleft()
            if new.gpus > gpus * ONE:
                raise Invalid(f"Job {new.id} wants {gpu_count(new.gpus)}, and the pool has only {gpus}.", field="nodes")
            unfinished.append(_Job(new, new.duration))
        _share_out(unfinished, key, gpus * ONE, now, cost)
    return tuple(done)


def _next(arrivals: deque[TraceJob], unfinished: list[_Job], levels: bool) -> float:
    """When something happens next: an arrival, an end or, if anybody waits for that, a job on a higher level."""
    times = [arrivals[0].submitted] if arrivals else []
    running = [job for job in unfinished if job.since is not None]
    times += [job.end for job in running]
    if levels and len(running) < len(unfinished):
        for job in running:
            served = job.ran * job.gpus
            level = LEVELS.of(served)
            if level < len(LEVELS.thresholds) and job.gpus:
                times.append(job.at + max(1e-3, (LEVELS.thresholds[level] - served) / job.gpus))
    return min(times)


def _share_out(
    unfinished: list[_Job], key: Callable[[_Job], tuple[float, float]], capacity: int, now: float, cost: float
) -> None:
    if sum(job.job.gpus for job in unfinished) > capacity:
        unfinished.sort(key=key)
    left = capacity
    for job in unfinished:
        fits = job.job.gpus <= left
        left -= job.job.gpus if fits else 0
        if fits and job.since is None:
            job.since = job.at = now
            job.overhead = cost if job.stops else 0.0
        elif not fits and job.since is not None:
            job.leave(now)
            job.stops += 1
