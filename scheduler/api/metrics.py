"""What Prometheus scrapes. Gauges are read from the book when they are asked for; counts and times are kept as they
come."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from scheduler.api.views import environment_totals
from scheduler.controller.accounting import waited
from scheduler.model import JobId, JobState

if TYPE_CHECKING:
    from scheduler.controller import Controller
    from scheduler.controller.book import Book
    from scheduler.policy import Plan, Snapshot, SnapshotPlanner

_WAIT_SECONDS = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 72 * 3600)
_PLAN_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class Metrics:
    """The figures of one scheduler, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "runai_http_requests",
            "Requests answered",
            ["method", "handler", "status"],
            registry=self.registry,
        )
        self._wait = Histogram(
            "runai_queue_wait_seconds",
            "From when a job was last queued to the start of its attempt",
            buckets=_WAIT_SECONDS,
            registry=self.registry,
        )
        self._plan = Histogram(
            "runai_plan_seconds", "What one plan took", buckets=_PLAN_SECONDS, registry=self.registry
        )
        self._read = Counter(
            "runai_plan_workloads_read",
            "Jobs and sessions that plans had to read because they were added, changed or removed",
            registry=self.registry,
        )

    def watch(self, book: Callable[[], Book]) -> None:
        """Read the gauges from this book from now on."""
        self.registry.register(_Gauges(book))

    def answered(self, method: str, handler: str, status: int) -> None:
        self._requests.labels(method, handler, str(status)).inc()

    async def follow(self, controller: Controller) -> None:
        """Take the queue waits from what happens, until the controller stops."""
        async for event in controller.events():
            if event.kind == "job.state" and (event.data or {}).get("state") == JobState.STARTING:
                job = await controller.job(JobId(event.subject))
                if job is not None and job.attempt is not None:
                    self._wait.observe(waited(job))

    def timed(self, planner: SnapshotPlanner) -> Callable[[Snapshot], Plan]:
        """The same planner, with its time taken."""

        def decided(snapshot: Snapshot) -> Plan:
            with self._plan.time():
                plan = planner(snapshot)
            self._read.inc(planner.read)
            return plan

        return decided

    def text(self) -> bytes:
        return generate_latest(self.registry)


class _Gauges(Collector):
    def __init__(self, book: Callable[[], Book]) -> None:
        self._book = book

    def describe(self) -> Iterable[Metric]:
        """Nothing: to describe would be to collect, before there is anything to read."""
        return ()

    def collect(self) -> Iterable[Metric]:
        book = self._book()
        jobs = GaugeMetricFamily("runai_jobs", "Unfinished jobs", labels=["state"])
        tally = Tally(job.state for job in book.jobs.values())
        for state in JobState:
            if not state.final:
                jobs.add_metric([state.value], tally[state])
        yield jobs
        sessions = GaugeMetricFamily("runai_sessions", "Sessions that have not ended", labels=["state"])
        for name, count in Tally(session.state.value for session in book.sessions.values()).items():
            sessions.add_metric([name], count)
        yield sessions
        gpus = GaugeMetricFamily(
            "runai_gpus", "GPUs, by environment and by what they do", labels=["environment", "state"]
        )
        for environment, totals in environment_totals(book).items():
            gpus.add_metric([environment.value, "allocated"], totals.allocated)
            gpus.add_metric([environment.value, "free"], totals.free)
            gpus.add_metric([environment.value, "foreign"], totals.foreign)
            gpus.add_metric([environment.value, "over_quota"], totals.over_quota)
        yield gpus
