"""The baselines of the policy: simple policies over the same trace, event by event.

All of them are non-preemptive and place alike: a gang of at most one node's GPUs on one node, the fullest that it fits
on (best fit); a larger one has whole nodes to itself. They differ only in the choice of the next job, which is a
function of the queue: `fifo`, `skip_ahead`, `shortest_first` (durations known), `backfill` (EASY, durations known),
`dominant_share`. A static partition is `skip_ahead` in each project's own nodes.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from scheduler.errors import Invalid
from scheduler.model import ONE, Milli, gpu_count
from scheduler.simulation.trace import Trace, TraceJob


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which a job held `gpus`."""

    start: float
    end: float
    gpus: Milli


@dataclass(frozen=True, slots=True)
class Run:
    """One job of a finished simulation: the times in which it held GPUs, how often it was stopped, and what that cost.

    `lost` is GPU-seconds held without progress: restarting, and work done a second time. `idle` is the part of its time
    in which a session's GPU did nothing.
    """

    job: TraceJob
    spans: tuple[Span, ...]
    stops: int = 0
    lost: float = 0.0
    idle: float = 0.0

    @property
    def started(self) -> float:
        return self.spans[0].start

    @property
    def ended(self) -> float:
        return self.spans[-1].end

    @property
    def completion(self) -> float:
        """Seconds from submission to the end."""
        return self.ended - self.job.submitted

    @property
    def wait(self) -> float:
        """Seconds of its completion in which it did not do its work."""
        return self.completion - self.job.duration

    @property
    def held(self) -> float:
        """GPU-seconds held."""
        return self.held_within(self.started, self.ended)

    @property
    def productive(self) -> float:
        """The part of what it held in which its GPUs did work that counts."""
        return (1 - self.lost / self.held) * (1 - self.idle) if self.held else 0.0

    def held_within(self, start: float, end: float) -> float:
        """GPU-seconds held in the window."""
        return sum(max(0.0, min(s.end, end) - max(s.start, start)) * s.gpus for s in self.spans) / ONE


class Nodes:
    """Free GPUs of equal nodes, kept as one bucket of nodes for each free amount, so that best fit is a look-up."""

    def __init__(self, count: int, gpus: int) -> None:
        self.size = gpus * ONE
        self.free = [self.size] * count
        self.buckets: dict[Milli, set[int]] = {self.size: set(range(count))}
        self.total_free = count * self.size

    def fits(self, gpus: Milli) -> bool:
        if gpus > self.size:
            return len(self.buckets.get(self.size, ())) >= -(-gpus // self.size)
        return any(amount >= gpus for amount in self.buckets)

    def take(self, gpus: Milli) -> tuple[tuple[int, Milli], ...]:
        """Take `gpus` and say from which nodes; only after `fits`."""
        taken = []
        whole_nodes = -(-gpus // self.size)
        for part in [self.size] * whole_nodes if gpus > self.size else [gpus]:
            amount = min(amount for amount in self.buckets if amount >= part)
            node = min(self.buckets[amount])
            self._move(node, -part)
            taken.append((node, part))
        return tuple(taken)

    def give(self, taken: Iterable[tuple[int, Milli]]) -> None:
        for node, gpus in taken:
            self._move(node, gpus)

    def _move(self, node: int, by: Milli) -> None:
        before = self.free[node]
        bucket = self.buckets[before]
        bucket.discard(node)
        if not bucket:
            del self.buckets[before]
        self.free[node] = before + by
        self.buckets.setdefault(before + by, set()).add(node)
        self.total_free += by


class Queue:
    """Waiting jobs in one line for each (project, gang size), each line in its own order."""

    def __init__(self, key: Callable[[TraceJob], float]) -> None:
        self.key = key
        self.lines: dict[tuple[str, Milli], list[tuple[float, int, TraceJob]]] = {}
        self.length = 0
        self._arrivals = 0

    def add(self, job: TraceJob) -> None:
        self._arrivals += 1
        line = self.lines.setdefault((job.project, job.gpus), [])
        heapq.heappush(line, (self.key(job), self._arrivals, job))
        self.length += 1

    def heads(self) -> list[tuple[float, int, TraceJob]]:
        """The first of each line, the first of all first."""
        return sorted(line[0] for line in self.lines.values())

    def remove_head(self, job: TraceJob) -> None:
        line = self.lines[job.project, job.gpus]
        heapq.heappop(line)
        if not line:
            del self.lines[job.project, job.gpus]
        self.length -= 1


Choice = Callable[["Simulation"], TraceJob | None]
"""Who starts now, or nobody; asked again until nobody does."""


class Simulation:
    """The state of one run: the nodes, the queue and what runs."""

    def __init__(self, trace: Trace, nodes: int, gpus_per_node: int, key: Callable[[TraceJob], float]) -> None:
        self.trace = trace
        self.nodes = Nodes(nodes, gpus_per_node)
        self.capacity = nodes * gpus_per_node * ONE
        self.queue = Queue(key)
        self.running: list[tuple[float, int, TraceJob, float, tuple[tuple[int, Milli], ...]]] = []
        self.held: dict[str, Milli] = {}
        self.now = 0.0

    def play(self, choose: Choice) -> tuple[Run, ...]:
        """Run until the last job ends."""
        runs: list[Run] = []
        arrivals = deque(self.trace.jobs)
        started = 0
        while arrivals or self.running:
            self.now = min(
                arrivals[0].submitted if arrivals else float("inf"),
                self.running[0][0] if self.running else float("inf"),
            )
            while self.running and self.running[0][0] == self.now:
                _, _, job, start, taken = heapq.heappop(self.running)
                self.nodes.give(taken)
                self.held[job.project] -= job.gpus
                runs.append(Run(job, (Span(start, self.now, job.gpus),)))
            while arrivals and arrivals[0].submitted == self.now:
                self.queue.add(arrivals.popleft())
            while self.queue.length and (chosen := choose(self)) is not None:
                self.queue.remove_head(chosen)
                taken = self.nodes.take(chosen.gpus)
                self.held[chosen.project] = self.held.get(chosen.project, 0) + chosen.gpus
                started += 1
                heapq.heappush(self.running, (self.now + chosen.duration, started, chosen, self.now, taken))
        if self.queue.length:
            job = self.queue.heads()[0][2]
            raise Invalid(
                f"Job {job.id} wants {gpu_count(job.gpus)}, which this pool never has free together; take a larger "
                f"pool.",
                field="gpus",
            )
        return tuple(runs)


def _fifo(sim: Simulation) -> TraceJob | None:
    job = sim.queue.heads()[0][2]
    return job if sim.nodes.fits(job.gpus) else None


def _first_that_fits(sim: Simulation) -> TraceJob | None:
    tried: set[Milli] = set()
    for _, _, job in sim.queue.heads():
        if job.gpus not in tried:
            if sim.nodes.fits(job.gpus):
                return job
            tried.add(job.gpus)
    return None


def _backfill(sim: Simulation) -> TraceJob | None:
    """EASY: the head has a reservation at the earliest time its GPUs are free; others may start that don't delay it."""
    heads = sim.queue.heads()
    first = heads[0][2]
    if sim.nodes.fits(first.gpus):
        return first
    shadow, spare = _reservation(sim, first.gpus)
    for _, _, job in heads[1:]:
        harmless = sim.now + job.duration <= shadow or job.gpus <= spare
        if harmless and sim.nodes.fits(job.gpus):
            return job
    return None


def _reservation(sim: Simulation, gpus: Milli) -> tuple[float, Milli]:
    """When `gpus` will be free, counted over the whole pool, and how many beyond them are free then."""
    free, size = sim.nodes.total_free, sim.nodes.size
    if gpus > size:  # it has whole nodes to itself
        gpus = -(-gpus // size) * size
    if free >= gpus:  # enough in sum but not together: nothing may start that outlasts the next end
        return (sim.running[0][0], 0)
    for end, _, _, _, taken in sorted(sim.running):
        free += sum(amount for _, amount in taken)
        if free >= gpus:
            return (end, free - gpus)
    return (float("inf"), 0)


def _dominant_share(sim: Simulation) -> TraceJob | None:
    """Plain dominant-resource fairness: the project that holds least is next; GPUs are the one resource of a trace."""
    heads = sim.queue.heads()
    heads.sort(key=lambda head: (sim.held.get(head[2].project, 0), head[0], head[1]))
    return next((job for _, _, job in heads if sim.nodes.fits(job.gpus)), None)


def _by_age(job: TraceJob) -> float:
    return job.submitted


def _by_duration(job: TraceJob) -> float:
    return job.duration


POLICIES: Mapping[str, tuple[Choice, Callable[[TraceJob], float]]] = {
    "fifo": (_fifo, _by_age),
    "skip_ahead": (_first_that_fits, _by_age),
    "shortest_first": (_first_that_fits, _by_duration),
    "backfill": (_backfill, _by_age),
    "dominant_share": (_dominant_share, _by_age),
}


def play_baseline(trace: Trace, policy: str, *, nodes: int, gpus_per_node: int = 8) -> tuple[Run, ...]:
    """Play `trace` over one pool of `nodes` equal nodes by the baseline `policy`, until the last job ends."""
    choose, key = POLICIES[policy]
    return Simulation(trace, nodes, gpus_per_node, key).play(choose)


def play_static(trace: Trace, partition: Mapping[str, int], *, gpus_per_node: int = 8) -> tuple[Run, ...]:
    """Play each project's jobs in its own `partition[project]` nodes, the first that fits first."""
    runs: list[Run] = []
    for project, jobs in trace.by_project.items():
        own = Trace(tuple(jobs), trace.digest)
        runs.extend(play_baseline(own, "skip_ahead", nodes=partition[project], gpus_per_node=gpus_per_node))
    return tuple(runs)


def demand_quantile(trace: Trace, quantile: float, *, gpus_per_node: int = 8) -> dict[str, int]:
    """Whole nodes that hold each project's demand at `quantile` of the time of the trace, were there no waiting.

    Demand is what would run if every job started when it was submitted; time is counted from the first submission of
    the trace to the last. A project has at least the nodes that its largest gang needs.
    """
    start = min(job.submitted for job in trace.jobs)
    end = max(job.submitted for job in trace.jobs)
    sizes: dict[str, int] = {}
    for project, own in trace.by_project.items():
        at_least = max(job.gpus for job in own)
        demand = max(_quantile_over_time(own, quantile, start, end), at_least)
        sizes[project] = -(-demand // (gpus_per_node * ONE))
    return sizes


def _quantile_over_time(jobs: list[TraceJob], quantile: float, start: float, end: float) -> Milli:
    changes: dict[float, Milli] = {start: 0, end: 0}
    for job in jobs:
        changes[job.submitted] = changes.get(job.submitted, 0) + job.gpus
        changes[job.submitted + job.duration] = changes.get(job.submitted + job.duration, 0) - job.gpus
    times = sorted(changes)
    level, spent = 0, []
    for now, then in itertools.pairwise(times):
        level += changes[now]
        spent.append((level, max(0.0, min(then, end) - max(now, start))))
    spent.sort()
    target, passed = quantile * (end - start), 0.0
    for level, seconds in spent:
        passed += seconds
        if passed >= target:
            return level
    return spent[-1][0] if spent else 0
