"""What Prometheus scrapes. Gauges are read from the book on a scrape; counters and times are updated continuously."""

from __future__ import annotations

from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from scheduler.api.projects import ProjectViews
from scheduler.api.views import environment_totals
from scheduler.controller.accounting import waited
from scheduler.model import ONE, Ending, GpuKey, Job, JobId, JobState, Node
from scheduler.telemetry import SLOWING

if TYPE_CHECKING:
    from scheduler.controller import Controller
    from scheduler.controller.book import Book
    from scheduler.policy import Plan, Snapshot, SnapshotPlanner
    from scheduler.telemetry import GpuSample, GpuUsage, Inventory

_WAIT_SECONDS = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 72 * 3600)
MEBIBYTE = 1024 * 1024

_STOPPING = 10_000
"""The number of recently stopped jobs to remember, so that each attempt is counted once."""

_PLAN_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class Metrics:
    """The metrics of one scheduler, in their own registry."""

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

        self._error = Histogram(
            "runai_forecast_error_seconds",
            "By how much the first estimate of a start was too early or too late",
            buckets=_WAIT_SECONDS,
            registry=self.registry,
        )
        self._reclaims = Counter(
            "runai_reclaims",
            "Attempts that were stopped for other jobs, by the project that lost its GPUs",
            ["project"],
            registry=self.registry,
        )
        self._counted: dict[JobId, int] = {}

    def watch(self, book: Callable[[], Book], inventory: Inventory) -> None:
        """Read the gauges from this book and these nodes from now on."""
        self.registry.register(_Gauges(book, inventory))

    def erred(self, seconds: float) -> None:
        """Record the error of an estimate, in seconds."""
        self._error.observe(seconds)

    def answered(self, method: str, handler: str, status: int) -> None:
        self._requests.labels(method, handler, str(status)).inc()

    async def follow(self, controller: Controller) -> None:
        """Count queue waits and reclaims from the events, until the controller stops."""
        async for event in controller.events():
            state = (event.data or {}).get("state") if event.kind == "job.state" else None
            if state not in (JobState.STARTING, JobState.STOPPING):
                continue
            job = await controller.job(JobId(event.subject))
            if job is None or job.attempt is None:
                continue
            if state == JobState.STARTING:
                self._wait.observe(waited(job))
            elif job.attempt.ending is Ending.PREEMPTED:
                self._reclaimed(job, job.attempt.number)

    def _reclaimed(self, job: Job, attempt: int) -> None:
        """Several events may report an attempt while it stops."""
        if self._counted.pop(job.id, 0) < attempt:
            self._reclaims.labels(job.request.project).inc()
        self._counted[job.id] = attempt
        if len(self._counted) > _STOPPING:
            del self._counted[next(iter(self._counted))]

    def timed(self, planner: SnapshotPlanner) -> Callable[[Snapshot], Plan]:
        """The same planner, which also records its time."""

        def decided(snapshot: Snapshot) -> Plan:
            with self._plan.time():
                plan = planner(snapshot)
            self._read.inc(planner.read)
            return plan

        return decided

    def text(self) -> bytes:
        return generate_latest(self.registry)


class _Gauges(Collector):
    def __init__(self, book: Callable[[], Book], inventory: Inventory) -> None:
        self._book = book
        self._inventory = inventory

    def describe(self) -> Iterable[Metric]:
        """Nothing: describing would have to collect, before there is anything to read."""
        return ()

    def collect(self) -> Iterable[Metric]:
        book = self._book()
        jobs = GaugeMetricFamily("runai_jobs", "Unfinished jobs", labels=["state"])
        for state in JobState:
            if not state.final:
                jobs.add_metric([state.value], book.states.get(state, 0))
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
        yield from _of_projects(book)
        yield from _of_gpus(book, self._inventory.usage(book.nodes))
        yield from _of_samples(book.nodes, self._inventory.samples(book.nodes))


def _of_projects(book: Book) -> Iterable[Metric]:
    gpus = GaugeMetricFamily("runai_project_gpus", "GPUs of a project", labels=["project", "kind"])
    jobs = GaugeMetricFamily("runai_project_jobs", "Jobs of a project", labels=["project", "state"])
    standing = ProjectViews(book, 0.0)
    for project in standing.projects.values():
        view = standing.view(project, named=False)
        for kind in ("fair_share", "allocated", "over_quota", "demand"):
            gpus.add_metric([view.name, kind], getattr(view, kind))
        if view.guaranteed_in_all is not None:
            gpus.add_metric([view.name, "guaranteed"], view.guaranteed_in_all)
        jobs.add_metric([view.name, "running"], view.running)
        jobs.add_metric([view.name, "queued"], view.waiting)
    yield gpus
    yield jobs


def _of_gpus(book: Book, usage: Mapping[GpuKey, GpuUsage]) -> Iterable[Metric]:
    place = ["node", "gpu"]
    held = GaugeMetricFamily("runai_gpu_allocated", "The part of a GPU that sessions and jobs hold", labels=place)
    busy = GaugeMetricFamily("runai_gpu_utilisation", "How busy a GPU is, where it is measured", labels=place)
    memory = GaugeMetricFamily("runai_gpu_memory_used_bytes", "Memory of a GPU in use, if measured", labels=place)
    shares: dict[GpuKey, float] = defaultdict(float)
    for workload in book.standing:
        for worker in workload.placement:
            for gpu in worker.gpus:
                shares[GpuKey((worker.node, gpu))] += worker.share / ONE
    for node in book.nodes:
        for gpu in range(node.gpus):
            key, names = GpuKey((node.name, gpu)), [node.name, str(gpu)]
            held.add_metric(names, shares[key])
            if (measured := usage.get(key)) is not None:
                memory.add_metric(names, measured.used * MEBIBYTE)
                if measured.utilisation is not None:
                    busy.add_metric(names, measured.utilisation)
    yield from (held, busy, memory)


def _of_samples(nodes: Iterable[Node], samples: Mapping[GpuKey, GpuSample]) -> Iterable[Metric]:
    """What sampled GPUs report: a GPU has no value where it does not report one."""
    place = ["node", "gpu"]
    size = GaugeMetricFamily("runai_gpu_memory_bytes", "Memory of a GPU", labels=place)
    power = GaugeMetricFamily("runai_gpu_power_watts", "Power that a GPU draws", labels=place)
    warm = GaugeMetricFamily("runai_gpu_temperature_celsius", "Temperature of a GPU", labels=place)
    slowed = GaugeMetricFamily(
        "runai_gpu_throttled", "1 if a GPU is slowed down for this reason", labels=[*place, "reason"]
    )
    errors = GaugeMetricFamily(
        "runai_gpu_memory_errors", "Memory errors (ECC) of a GPU since its last reset", labels=[*place, "kind"]
    )
    processes = GaugeMetricFamily("runai_gpu_processes", "Processes that use a GPU", labels=place)
    failing = GaugeMetricFamily("runai_gpu_failing", "1 if a GPU fails and gets no work", labels=place)
    for node in nodes:
        failures = dict(node.failing)
        for gpu in range(node.gpus):
            names, sample = [node.name, str(gpu)], samples.get(GpuKey((node.name, gpu)))
            if sample is not None or gpu in failures:
                failing.add_metric(names, gpu in failures)
            if sample is None:
                continue
            if sample.memory is not None:
                size.add_metric(names, sample.memory * MEBIBYTE)
            if sample.power is not None:
                power.add_metric(names, sample.power)
            if sample.temperature is not None:
                warm.add_metric(names, sample.temperature)
            if sample.throttle is not None:
                for reason in SLOWING:
                    slowed.add_metric([*names, str(reason.name).lower()], bool(sample.throttle & reason))
            for kind, count in (("corrected", sample.corrected), ("uncorrected", sample.uncorrected)):
                if count is not None:
                    errors.add_metric([*names, kind], count)
            processes.add_metric(names, len(sample.processes))
    yield from (size, power, warm, slowed, errors, processes, failing)
