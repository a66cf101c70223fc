"""Random pools for property tests: small, odd and valid. Running workloads are placed validly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import strategies as st

from scheduler.model import (
    BUILD_POOL,
    TRAIN_POOL,
    Bounds,
    Environment,
    ForeignUse,
    GpuType,
    JobId,
    Node,
    NodeName,
    NodePool,
    PlacementStyle,
    Pool,
    Project,
    ProjectName,
    Quota,
    ReclaimUpTo,
    RelativeThroughputs,
    Request,
    Settings,
    Shape,
    SurplusOrder,
    User,
    UserName,
    WorkerGroup,
    WorkerPlacement,
    Workload,
    size_of,
)
from scheduler.policy import Snapshot

A100 = GpuType("A100")
H100 = GpuType("H100")

Draw = st.DrawFn

NOW = 10_000.0
LEVELS = ("block", "rack")
RACKS = {"block": "b0", "rack": "r0"}, {"block": "b0", "rack": "r1"}
MEASURED: list[tuple[RelativeThroughputs, RelativeThroughputs]] = [
    (((A100, 400), (H100, 1000)), ((A100, 200),)),
    (((A100, 1000), (GpuType("V100"), 300)), ()),
]
"""RelativeThroughputs by GPU type, on one node and across nodes."""


@st.composite
def nodes(draw: Draw, most: int = 5) -> tuple[Node, ...]:
    found = []
    for n in range(draw(st.integers(1, most))):
        gpus = draw(st.sampled_from([0, 1, 2, 4, 4, 8]))
        build = draw(st.integers(0, 4)) == 0
        linked = gpus >= 4 and draw(st.booleans())
        found.append(
            Node(
                name=NodeName(f"n{n}"),
                gpus=gpus,
                gpu_type=draw(st.sampled_from([None, A100, H100])),
                gpu_memory=draw(st.sampled_from([None, 40_960, 81_920])),
                cpus=draw(st.sampled_from([None, None, 4000, 16_000])),
                memory=draw(st.sampled_from([None, None, 65_536])),
                node_pool=BUILD_POOL if build else TRAIN_POOL,
                labels=draw(st.sampled_from([{}, *RACKS])),
                gpu_links=(tuple(range(gpus // 2)), tuple(range(gpus // 2, gpus))) if linked else (),
                schedulable=draw(st.integers(0, 6)) > 0,
                foreign=draw(foreign(gpus)) if draw(st.integers(0, 3)) == 0 else ForeignUse(),
            )
        )
    return tuple(found)


@st.composite
def foreign(draw: Draw, gpus: int) -> ForeignUse:
    """Foreign use on a node with this number of GPUs."""
    shares = draw(st.dictionaries(st.integers(0, gpus - 1), st.sampled_from([250, 1000]))) if gpus else {}
    return ForeignUse(
        gpus=tuple(sorted(shares.items())),
        unnumbered=min(draw(st.sampled_from([0, 0, 1000, 2000])), 1000 * (gpus - len(shares))),
        cpus=draw(st.sampled_from([0, 1000, 3000])),
        memory=draw(st.sampled_from([0, 32_768])),
    )


LIMITS = st.sampled_from(
    [
        (),
        (),
        (),
        (Quota(limit=1000, gpu_type=A100),),
        (Quota(limit=2000, gpu_type=H100), Quota(limit=3000, node_pool=TRAIN_POOL)),
        (Quota(limit=500, node_pool=TRAIN_POOL, gpu_type=A100),),
    ]
)


BOUNDS = st.sampled_from([Bounds(), Bounds(), Bounds(), Bounds(2000, 4000), Bounds(0), Bounds(limit=16_384)])
"""CPUs, or memory."""


@st.composite
def projects(draw: Draw, most: int = 5) -> tuple[Project, ...]:
    """A tree of two levels at most; guarantees need not add up."""
    found: list[Project] = []
    for n in range(draw(st.integers(1, most))):
        tops = [project.name for project in found if project.parent is None]
        parent = draw(st.sampled_from([None, None, *tops]))
        guaranteed = draw(st.sampled_from([0, 0, 1000, 2000, 4000, 500, None]))
        limit = draw(st.sampled_from([None, None, None, 2000, 5000]))
        if limit is not None and guaranteed is not None:
            limit = max(limit, guaranteed)
        found.append(
            Project(
                name=ProjectName(f"p{n}"),
                parent=parent,
                guaranteed=guaranteed,
                limit=limit,
                weight=draw(st.sampled_from([None, None, 0, 1000, 3000])),
                priority=draw(st.sampled_from([0, 0, 0, 1])),
                created=float(draw(st.integers(0, 3))),
                quotas=draw(LIMITS),
                cpus=draw(BOUNDS),
                memory=draw(BOUNDS),
            )
        )
    return tuple(found)


@st.composite
def requests(draw: Draw, leaves: list[ProjectName]) -> Request:
    workers = draw(st.sampled_from([1, 1, 1, 2, 3, 4]))
    gpus = draw(st.sampled_from([1000, 1000, 1000, 2000, 4000, 8000, 250, 500, 0]))
    by_memory = draw(st.integers(0, 8)) == 0
    throughputs, spread = draw(st.sampled_from([((), ()), ((), ()), *MEASURED]))
    return Request(
        project=ProjectName(draw(st.sampled_from(leaves))),
        user=UserName(draw(st.sampled_from(["ada", "bob"]))),
        shape=Shape(
            gpus=0 if by_memory else gpus,
            gpu_memory=draw(st.sampled_from([10_240, 40_960])) if by_memory else None,
            cpus=draw(st.sampled_from([None, None, 1000, 2000])),
            memory=draw(st.sampled_from([None, None, 16_384])),
        ),
        workers=workers,
        min_workers=draw(st.integers(1, workers)) if draw(st.integers(0, 3)) == 0 else workers,
        priority=draw(st.sampled_from([50, 50, 50, 10, 90])),
        preemptible=draw(st.integers(0, 4)) > 0,
        gpu_types=draw(st.sampled_from([None, None, None, (A100,), (A100, H100)])),
        require=draw(st.sampled_from([None, None, None, None, "node", "rack"])),
        prefer=draw(st.sampled_from([None, None, "rack"])),
        min_runtime=draw(st.sampled_from([0.0, 0.0, 0.0, 600.0])),
        expected_runtime=draw(st.sampled_from([None, None, 900.0, 7200.0])),
        throughputs=throughputs,
        spread_throughputs=spread,
    )


@st.composite
def gangs(draw: Draw, request: Request) -> Request:
    """The same request with several groups of workers."""
    groups = tuple(
        WorkerGroup(
            f"g{n}",
            draw(st.integers(1, 2)),
            Shape(
                gpus=draw(st.sampled_from([0, 250, 1000, 1000, 2000, 4000])),
                cpus=draw(st.sampled_from([None, None, 1000, 2000])),
            ),
        )
        for n in range(draw(st.integers(1, 3)))
    )
    workers = sum(group.workers for group in groups)
    largest = max((group.shape for group in groups), key=size_of)
    return replace(request, groups=groups, shape=largest, workers=workers, min_workers=workers)


@st.composite
def snapshots(draw: Draw, most_jobs: int = 14, plain: bool = False) -> Snapshot:
    """A pool with running, stopping and waiting jobs and sessions. `plain`: whole GPUs, one worker, one level."""
    tree = draw(projects())
    if plain:
        tree = tuple(Project(p.name, guaranteed=p.guaranteed or 0, created=p.created) for p in tree)
    leaves = [p.name for p in tree if all(other.parent != p.name for other in tree)]
    found = draw(nodes())
    if plain:
        found = tuple(replace(node, foreign=ForeignUse()) for node in found)
    pool = Pool(
        node_pools=(
            NodePool(BUILD_POOL, Environment.BUILD),
            NodePool(TRAIN_POOL, Environment.TRAIN, draw(st.sampled_from(PlacementStyle))),
        ),
        projects=tree,
        users=(User(UserName("ada"), 2000),),
        topology=LEVELS,
        settings=Settings(
            reclaim=draw(st.sampled_from([ReclaimUpTo.FAIR_SHARE, ReclaimUpTo.FAIR_SHARE, ReclaimUpTo.GUARANTEE])),
            reservations=draw(st.integers(0, 1)),
            preemption_delay=draw(st.sampled_from([0.0, 0.0, 100.0])),
            time_aware=draw(st.sampled_from([0.0, 0.0, 1.0])),
            lending=draw(st.booleans()),
            resize_interval=draw(st.sampled_from([0.0, 0.0, 300.0])),
            surplus=draw(st.sampled_from([SurplusOrder.WEIGHT, SurplusOrder.WEIGHT, SurplusOrder.SERVED])),
            service_levels=(0.2, 1.0),
        ),
    )
    floor = Floor(found)
    work = []
    for n in range(draw(st.integers(0, most_jobs))):
        request = draw(requests(leaves))
        if plain:
            request = Request(request.project, shape=Shape(1000))
        elif draw(st.integers(0, 6)) == 0:
            request = Request(ProjectName(""), user=request.user, environment=Environment.BUILD, shape=request.shape)
        elif draw(st.integers(0, 4)) == 0:
            request = draw(gangs(request))
        workload = Workload(JobId(f"w{n:02}"), request, submitted=NOW - draw(st.integers(0, 2000)))
        if not plain and request.environment is Environment.TRAIN:
            workload = replace(workload, served=draw(st.sampled_from([0.0, 0.0, 0.0, 800.0])))
        if draw(st.booleans()):
            workload = _run(draw, floor, workload)
        if not plain and (workload.stopping or not workload.running) and draw(st.integers(0, 3)) == 0:
            workload = replace(workload, nomination=draw(nominations(found, request)))
        if not plain and not workload.running and draw(st.integers(0, 6)) == 0:
            workload = replace(workload, request=replace(request, avoids=(draw(st.sampled_from(found)).name,)))
        work.append(workload)
    usage = {project.name: draw(st.sampled_from([0.0, 0.0, 0.5])) for project in tree}
    return Snapshot(NOW, pool, found, tuple(work), usage)


@st.composite
def busy(draw: Draw) -> Snapshot:
    """A full pool of jobs that would fit anywhere in it, and a few waiting jobs of each project."""
    snapshot = draw(snapshots(most_jobs=0))
    sizes = draw(st.lists(st.sampled_from([2, 4, 4]), min_size=1, max_size=3))
    found = tuple(Node(NodeName(f"n{n}"), gpus=gpus, labels=RACKS[n % 2]) for n, gpus in enumerate(sizes))
    parents = {project.parent for project in snapshot.pool.projects}
    leaves = [project.name for project in snapshot.pool.projects if project.name not in parents]
    floor, work = Floor(found), list[Workload]()
    for n in range(draw(st.integers(4, 16))):
        workers = draw(st.sampled_from([1, 1, 1, 2, 3]))
        request = Request(
            draw(st.sampled_from(leaves)),
            shape=Shape(draw(st.sampled_from([1000, 1000, 2000, 500]))),
            workers=workers,
            min_workers=draw(st.sampled_from([1, workers, workers])),
            priority=draw(st.sampled_from([50, 50, 90])),
            preemptible=draw(st.integers(0, 7)) > 0,
            require=draw(st.sampled_from([None, None, None, "rack"])),
        )
        workload = Workload(JobId(f"w{n:02}"), request, submitted=NOW - draw(st.integers(0, 2000)))
        if draw(st.integers(0, 3)):
            workload = _run(draw, floor, workload)
        work.append(workload)
    return replace(snapshot, nodes=found, workloads=tuple(work))


@st.composite
def nominations(draw: Draw, nodes: tuple[Node, ...], request: Request) -> tuple[WorkerPlacement, ...]:
    """Places that once were free for it: they may be taken now, or on a node that has left.

    No plan ever nominated places that break a required level, which a `Floor` does not check.
    """
    if request.require is not None:
        return ()
    first = draw(st.integers(0, len(nodes) - 1))
    floor = Floor((*nodes[first:], *nodes[:first], Node(NodeName("n9"), gpus=8, gpu_memory=81_920)))
    return floor.stand(request, draw(st.integers(request.min_workers, request.workers))) or ()


def _run(draw: Draw, floor: Floor, workload: Workload) -> Workload:
    """The same workload running, if there is room for it."""
    workers = draw(st.integers(workload.request.min_workers, workload.request.workers))
    placement = floor.stand(workload.request, workers)
    if placement is None:
        return workload
    age = draw(st.integers(0, 2000))
    return Workload(
        workload.id,
        workload.request,
        workload.submitted - age,
        running=True,
        stopping=draw(st.integers(0, 6)) == 0 and workload.request.environment is Environment.TRAIN,
        started=NOW - age,
        checkpointed=draw(st.sampled_from([None, NOW - age / 2])),
        placement=placement,
        served=workload.served,
    )


class Floor:
    """The free capacity of some nodes, in the simplest form: one number for each GPU, CPUs and memory."""

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.gpus = {node.name: [1000] * node.gpus for node in nodes}
        self.cpus = {node.name: node.cpus for node in nodes}
        self.memory = {node.name: node.memory for node in nodes}

        for node in nodes:
            self._take_foreign(node)

    def _take_foreign(self, node: Node) -> None:
        used = node.foreign
        for gpu, share in used.gpus:
            self.take(WorkerPlacement(node.name, (gpu,), share), Shape(0))
        left = used.unnumbered
        for gpu in reversed(range(node.gpus)):
            if left and self.gpus[node.name][gpu] == 1000:
                self.take(WorkerPlacement(node.name, (gpu,), min(1000, left)), Shape(0))
                left -= min(1000, left)
        self.take(WorkerPlacement(node.name), Shape(0, None, used.cpus, used.memory))

    def take(self, worker: WorkerPlacement, shape: Shape) -> None:
        for gpu in worker.gpus:
            self.gpus[worker.node][gpu] -= worker.share
        for left, asked in ((self.cpus, shape.cpus), (self.memory, shape.memory)):
            if left[worker.node] is not None:
                left[worker.node] -= asked or 0  # type: ignore[operator]

    def give_back(self, worker: WorkerPlacement, shape: Shape) -> None:
        self.take(replace(worker, share=-worker.share), Shape(0, None, -(shape.cpus or 0), -(shape.memory or 0)))

    def fits(self, node: Node, shape: Shape) -> int:
        """How many workers of a shape fit on the node."""
        counts = [1 << 30]
        for left, asked in ((self.cpus[node.name], shape.cpus), (self.memory[node.name], shape.memory)):
            if left is not None and asked:
                counts.append(left // asked)
        free = self.gpus[node.name]
        if shape.gpu_memory:
            memory = node.gpu_memory or 0
            share = -(-shape.gpu_memory * 1000 // memory) if shape.gpu_memory <= memory else 0
            counts.append(sum(left // share for left in free) if share else 0)
        elif shape.gpus >= 1000:
            counts.append(free.count(1000) // (shape.gpus // 1000))
        elif shape.gpus:
            counts.append(sum(left // shape.gpus for left in free))
        return min(counts)

    def has_capacity(self, request: Request, nodes: list[Node]) -> bool:
        """Whether a gang fits on these nodes (with several groups: if its workers are placed one by one)."""
        if not request.groups:
            return sum(self.fits(node, request.shape) for node in nodes) >= request.min_workers
        workers = self.stand(request, request.min_workers, nodes)
        for worker, shape in zip(workers or (), request.shapes, strict=False):
            self.give_back(worker, shape)
        return workers is not None

    def overfull(self) -> list[str]:
        """The GPUs (and nodes) that are oversubscribed."""
        found = [f"{node}:{gpu}" for node, gpus in self.gpus.items() for gpu, left in enumerate(gpus) if left < 0]
        for left in (self.cpus, self.memory):
            found += [node for node, amount in left.items() if amount is not None and amount < 0]
        return found

    def stand(
        self, request: Request, workers: int, nodes: Iterable[Node] | None = None
    ) -> tuple[WorkerPlacement, ...] | None:
        """Place workers one by one, first fit; None (and nothing taken) if they do not fit."""
        before = {name: list(gpus) for name, gpus in self.gpus.items()}, dict(self.cpus), dict(self.memory)
        placement, among = [], list(self.nodes.values() if nodes is None else nodes)
        for shape in request.shapes[:workers]:
            seats = (self._seat(request, shape, node) for node in among)
            worker = next(filter(None, seats), None)
            if worker is None:
                self.gpus, self.cpus, self.memory = before
                return None
            self.take(worker, shape)
            placement.append(worker)
        return tuple(placement)

    def _seat(self, request: Request, shape: Shape, node: Node) -> WorkerPlacement | None:
        environment = Environment.BUILD if node.node_pool == "build" else Environment.TRAIN
        if environment is not request.environment or not node.schedulable:
            return None
        if request.gpu_types is not None and node.gpu_type not in request.gpu_types:
            return None
        for left, asked in ((self.cpus, shape.cpus), (self.memory, shape.memory)):
            amount = left[node.name]
            if amount is not None and amount < (asked or 0):
                return None
        share, count = shape.gpus, 1
        if shape.gpu_memory:
            if not node.gpu_memory or shape.gpu_memory > node.gpu_memory:
                return None
            share = -(-shape.gpu_memory * 1000 // node.gpu_memory)
        elif shape.gpus >= 1000:
            share, count = 1000, shape.gpus // 1000
        elif shape.gpus == 0:
            return WorkerPlacement(node.name)
        fitting = [gpu for gpu, left in enumerate(self.gpus[node.name]) if left >= share]
        if len(fitting) < count:
            return None
        fitting.sort(key=lambda gpu: (self.gpus[node.name][gpu], gpu))
        return WorkerPlacement(node.name, tuple(sorted(fitting[:count])), share)
