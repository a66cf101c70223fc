"""The jobs of a scenario, checked against its nodes and projects. No GPU is given twice."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.errors import Invalid
from scheduler.model import (
    ONE,
    Environment,
    GpuKey,
    GpuType,
    JobId,
    Milli,
    Node,
    NodeName,
    NodePoolName,
    Pool,
    ProjectName,
    Request,
    SessionId,
    Shape,
    UserName,
    WorkerGroup,
    WorkerPlacement,
    Workload,
    WorkloadId,
    relative_throughputs,
    size_of,
)
from scheduler.scenario.checks import amount, at, mib, no_such
from scheduler.scenario.entries import GroupEntry, JobEntry, WorkerEntry
from scheduler.schema.reading import milli


class Jobs:
    """Converts jobs to workloads, and tracks allocated GPUs so that none is given twice."""

    def __init__(self, nodes: tuple[Node, ...], pool: Pool) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.pools = {node_pool.name for node_pool in pool.node_pools}
        self.levels = {"node", *pool.topology}
        self.projects = {project.name for project in pool.projects}
        self.parents = {project.parent for project in pool.projects}
        self.used: dict[GpuKey, Milli] = {}

    def read(self, entries: list[JobEntry]) -> tuple[Workload, ...]:
        named: dict[int, list[WorkerPlacement | None]] = {}
        requests = [self._request(entry, f"jobs[{n}]") for n, entry in enumerate(entries)]
        shapes = [request.shapes for request in requests]
        nominations: dict[int, tuple[WorkerPlacement, ...]] = {}
        lent: dict[int, tuple[WorkerPlacement, ...]] = {}
        for n, entry in enumerate(entries):
            self._check_state(entry, f"jobs[{n}]")
            holds = entry.state != "queued"
            named[n] = [
                self._named(worker, _held(entry, worker, shapes[n][m]), f"jobs[{n}].placement[{m}]")
                for m, worker in enumerate(entry.placement if holds else [])
            ]
            nominations[n] = tuple(
                self._nominated(worker, shapes[n][m], f"jobs[{n}].nomination[{m}]")
                for m, worker in enumerate(entry.nomination or ([] if holds else entry.placement))
            )
            lent[n] = tuple(
                self._nominated(worker, shapes[n][m], f"jobs[{n}].lent[{m}]") for m, worker in enumerate(entry.lent)
            )
        return tuple(
            Workload(
                id=_id(entry),
                request=requests[n],
                submitted=entry.submitted,
                running=entry.state != "queued",
                stopping=entry.state == "stopping",
                started=entry.started,
                checkpointed=entry.checkpointed,
                preempted=entry.preempted,
                preemptions=entry.preemptions,
                served=entry.served,
                placement=tuple(
                    worker or self._any_free(entry.placement[m], shapes[n][m], f"jobs[{n}].placement[{m}]")
                    for m, worker in enumerate(named[n])
                ),
                nomination=nominations[n],
                claim=lent[n],
                recalled=entry.recalled,
            )
            for n, entry in enumerate(entries)
        )

    def _request(self, entry: JobEntry, place: str) -> Request:
        build = entry.environment is Environment.BUILD
        if entry.project is None and not build:
            raise Invalid(f"{place}.project is missing.", field=f"{place}.project")
        if entry.project is not None and entry.project not in self.projects:
            raise no_such(f"{place}.project", "project", entry.project)
        if entry.project in self.parents and not build:
            raise at(f"{place}.project", f"{entry.project!r} has projects below it; jobs go to one of those.")
        groups = _groups(entry, place)
        workers = sum(group.workers for group in groups) or entry.workers
        least = entry.min_workers or workers
        if least > workers:
            raise at(f"{place}.min_workers", f"{least} is more than the {workers} workers it wants.")
        for key in ("require", "prefer"):
            level = getattr(entry, key)
            if level is not None and level not in self.levels:
                raise at(f"{place}.{key}", f"{level!r} is not a level of the topology.")
        for name in entry.spread_throughputs:
            if name not in entry.throughputs:
                raise at(f"{place}.spread_throughputs", f"{name!r} has no throughput on one node in throughputs.")
        for m, name in enumerate(entry.node_pools or ()):
            if name not in self.pools:
                raise no_such(f"{place}.node_pools[{m}]", "node pool", name)
        return Request(
            project=ProjectName(entry.project or ""),
            user=None if entry.user is None else UserName(entry.user),
            environment=entry.environment,
            shape=max((group.shape for group in groups), key=size_of, default=None) or _shape(entry, place),
            workers=workers,
            min_workers=least,
            priority=entry.priority,
            preemptible=entry.preemptible,
            gpu_types=None if entry.gpu_types is None else tuple(map(GpuType, entry.gpu_types)),
            node_pools=None if entry.node_pools is None else tuple(map(NodePoolName, entry.node_pools)),
            require=entry.require,
            prefer=entry.prefer,
            min_runtime=entry.min_runtime,
            expected_runtime=entry.expected_runtime,
            groups=groups,
            avoids=self._avoided(entry, place),
            throughputs=relative_throughputs(_by_type(entry.throughputs)),
            spread_throughputs=relative_throughputs(
                _by_type(entry.spread_throughputs), max(entry.throughputs.values(), default=0)
            ),
        )

    def _avoided(self, entry: JobEntry, place: str) -> tuple[NodeName, ...]:
        for m, name in enumerate(entry.avoids):
            if name not in self.nodes:
                raise no_such(f"{place}.avoids[{m}]", "node", name)
        return tuple(map(NodeName, entry.avoids))

    def _check_state(self, entry: JobEntry, place: str) -> None:
        if entry.state == "queued":
            for key in ("started", "checkpointed"):
                if getattr(entry, key):
                    raise at(f"{place}.{key}", "only a running job can have this.")
        elif not entry.placement:
            raise at(f"{place}.placement", "a running job needs one entry a worker.")
        if entry.state == "running" and entry.nomination:
            raise at(f"{place}.nomination", "only a job that waits or is stopping can have this.")
        if entry.lent and (entry.state != "running" or entry.environment is not Environment.BUILD):
            raise at(f"{place}.lent", "only a running session can have this.")
        if entry.lent and any(worker.gpus != [] for worker in entry.placement):
            raise at(f"{place}.placement", "a session that lends its GPUs holds none: name its nodes with gpus: [].")
        if entry.recalled and not entry.lent:
            raise at(f"{place}.recalled", "only a session that lends its GPUs can have this.")
        workers = sum(group.workers for group in entry.groups) or entry.workers
        for key in ("placement", "nomination", "lent"):
            if len(getattr(entry, key)) > workers:
                raise at(f"{place}.{key}", f"{len(getattr(entry, key))} entries, but {workers} workers.")

    def _named(self, worker: WorkerEntry, shape: Shape, place: str) -> WorkerPlacement | None:
        """A worker that names its GPUs, which become allocated; None where it takes any free ones."""
        if worker.gpus is None and worker.node in self.nodes and shape.gpus + (shape.gpu_memory or 0):
            return None
        named = self._nominated(worker, shape, place)
        for m, gpu in enumerate(worker.gpus or ()):
            self._use(self.nodes[named.node], gpu, named.share, f"{place}.gpus[{m}]")
        return named

    def _nominated(self, worker: WorkerEntry, shape: Shape, place: str) -> WorkerPlacement:
        """A worker with its GPUs, which may be allocated to others now."""
        node = self.nodes.get(NodeName(worker.node))
        if node is None:
            raise no_such(f"{place}.node", "node", worker.node)
        share, count = _share_on(node, shape, place)
        gpus = worker.gpus or []
        if len(gpus) != count:
            raise at(f"{place}.gpus", f"names {len(gpus)} GPUs, but a worker has {count}.")
        for m, gpu in enumerate(gpus):
            if gpu >= node.gpus:
                raise at(f"{place}.gpus[{m}]", f"{node.name} has no GPU {gpu}; it has {node.gpus}.")
        return WorkerPlacement(node.name, tuple(sorted(gpus)), share)

    def _any_free(self, worker: WorkerEntry, shape: Shape, place: str) -> WorkerPlacement:
        node = self.nodes[NodeName(worker.node)]
        share, count = _share_on(node, shape, place)
        used = [(-self.used.get(GpuKey((node.name, gpu)), 0), gpu) for gpu in range(node.gpus)]
        fitting = [gpu for minus, gpu in sorted(used) if ONE + minus >= share]
        if len(fitting) < count:
            raise at(place, f"{node.name} does not have {count} GPUs free for it.")
        for gpu in fitting[:count]:
            self._use(node, gpu, share, place)
        return WorkerPlacement(node.name, tuple(sorted(fitting[:count])), share)

    def _use(self, node: Node, gpu: int, share: Milli, place: str) -> None:
        key = GpuKey((node.name, gpu))
        used = self.used[key] = self.used.get(key, 0) + share
        if used > ONE:
            raise at(place, f"GPU {gpu} of {node.name} is given twice.")


def _id(entry: JobEntry) -> WorkloadId:
    return SessionId(entry.name) if entry.environment is Environment.BUILD else JobId(entry.name)


def _held(entry: JobEntry, worker: WorkerEntry, shape: Shape) -> Shape:
    """What a worker holds: `gpus: []` is a session whose GPUs are lent or were taken back."""
    return Shape(gpus=0) if worker.gpus == [] and entry.environment is Environment.BUILD else shape


def _groups(entry: JobEntry, place: str) -> tuple[WorkerGroup, ...]:
    if not entry.groups:
        return ()
    for key in ("workers", "min_workers", "gpus", "gpu_memory_gib", "cpus", "memory_gib"):
        if key in entry.model_fields_set:
            raise at(f"{place}.{key}", "belongs in each group of a job with groups.")
    found = [group.name for group in entry.groups]
    for n, name in enumerate(found):
        if name in found[:n]:
            raise at(f"{place}.groups[{n}].name", f"{name!r} is given twice.")
    return tuple(
        WorkerGroup(group.name, group.workers, _shape(group, f"{place}.groups[{n}]"))
        for n, group in enumerate(entry.groups)
    )


def _shape(entry: JobEntry | GroupEntry, place: str) -> Shape:
    if entry.gpus is not None and entry.gpu_memory_gib is not None:
        raise at(f"{place}.gpu_memory_gib", "cannot be combined with gpus; give one of them.")
    gpus = milli(1 if entry.gpus is None else entry.gpus, f"{place}.gpus")
    if gpus > ONE and gpus % ONE:
        raise at(f"{place}.gpus", f"{entry.gpus:g} is not possible: whole GPUs, or a part of one.")
    return Shape(
        gpus=0 if entry.gpu_memory_gib is not None else gpus,
        gpu_memory=mib(entry.gpu_memory_gib),
        cpus=amount(entry.cpus, f"{place}.cpus"),
        memory=mib(entry.memory_gib),
    )


def _share_on(node: Node, shape: Shape, place: str) -> tuple[Milli, int]:
    """The share of each GPU, and how many GPUs a worker of that shape has on a node."""
    if shape.gpu_memory is not None:
        if not node.gpu_memory or node.gpu_memory < shape.gpu_memory:
            raise at(f"{place}.node", f"the GPUs of {node.name} do not have that much memory.")
        return _part(node, -(-shape.gpu_memory * ONE // node.gpu_memory), place), 1
    if shape.gpus < ONE:
        return (_part(node, shape.gpus, place), 1) if shape.gpus else (ONE, 0)
    if node.gpu_parts > 1:
        raise at(f"{place}.node", f"the GPUs of {node.name} are only available in parts.")
    return ONE, shape.gpus // ONE


def _part(node: Node, share: Milli, place: str) -> Milli:
    part = node.share_for(share)
    if part is None:
        raise at(f"{place}.node", f"the GPUs of {node.name} are not given in parts of that size.")
    return part


def _by_type(throughputs: Mapping[str, float]) -> dict[GpuType, float]:
    return {GpuType(name): throughput for name, throughput in throughputs.items()}
