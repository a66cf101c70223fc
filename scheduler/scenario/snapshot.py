"""From a scenario to the snapshot that it describes. Raises `Invalid`, naming the place, for what does not fit
together."""

from __future__ import annotations

from collections.abc import Sequence
from zoneinfo import available_timezones

from scheduler.errors import Invalid
from scheduler.model import (
    Environment,
    ForeignUse,
    GpuType,
    GuaranteeChange,
    Milli,
    Node,
    NodeName,
    NodePool,
    NodePoolName,
    Pool,
    Project,
    ProjectName,
    User,
    UserName,
)
from scheduler.policy import Snapshot
from scheduler.pool.file import bounds_of, quotas_of
from scheduler.pool.settings import settings_of
from scheduler.scenario.checks import amount, at, mib, no_gpu, no_such, refuse_twice
from scheduler.scenario.entries import NodeEntry, ProjectEntry, Scenario
from scheduler.scenario.jobs import Jobs
from scheduler.schema.reading import milli


def snapshot_of(scenario: Scenario) -> Snapshot:
    """The snapshot that a scenario describes. Raises `Invalid` for what does not fit together."""
    nodes = tuple(_node(entry, f"nodes[{n}]") for n, entry in enumerate(scenario.nodes))
    refuse_twice("nodes", [node.name for node in nodes])
    refuse_twice("node_pools", [entry.name for entry in scenario.node_pools])
    refuse_twice("projects", [entry.name for entry in scenario.projects])
    refuse_twice("users", [entry.name for entry in scenario.users])
    refuse_twice("jobs", [entry.name for entry in scenario.jobs])
    node_pools = _node_pools(scenario)
    for n, node in enumerate(nodes):
        if node.node_pool not in {pool.name for pool in node_pools}:
            raise no_such(f"nodes[{n}].node_pool", "node pool", node.node_pool)
    pool = Pool(
        node_pools=node_pools,
        projects=_projects(scenario.projects, [p.name for p in node_pools if p.environment is Environment.TRAIN]),
        users=tuple(
            User(UserName(entry.name), milli(entry.build_quota, f"users[{n}].build_quota"))
            for n, entry in enumerate(scenario.users)
        ),
        default_build_quota=milli(scenario.default_build_quota, "default_build_quota"),
        topology=tuple(scenario.topology),
        settings=settings_of(scenario.settings),
    )
    jobs = Jobs(nodes, pool)
    usage = {ProjectName(entry.name): entry.usage for entry in scenario.projects if entry.usage}
    return Snapshot(0.0, pool, nodes, jobs.read(scenario.jobs), usage)


def _node(entry: NodeEntry, place: str) -> Node:
    seen: set[int] = set()
    for n, group in enumerate(entry.links):
        for m, gpu in enumerate(group):
            where = f"{place}.links[{n}][{m}]"
            if gpu >= entry.gpus:
                raise no_gpu(where, entry.name, gpu, entry.gpus)
            if gpu in seen:
                raise Invalid(f"{where}: GPU {gpu} is in two link groups.", field=where)
            seen.add(gpu)
    return Node(
        name=NodeName(entry.name),
        gpus=entry.gpus,
        gpu_type=None if entry.gpu_type is None else GpuType(entry.gpu_type),
        gpu_memory=mib(entry.gpu_memory_gib),
        cpus=amount(entry.cpus, f"{place}.cpus"),
        memory=mib(entry.memory_gib),
        node_pool=NodePoolName(entry.node_pool),
        labels=entry.labels,
        gpu_links=tuple(tuple(sorted(group)) for group in entry.links),
        schedulable=entry.schedulable,
        gpu_parts=entry.gpu_parts,
        isolation=entry.isolation,
        foreign=_foreign(entry, f"{place}.foreign"),
    )


def _foreign(entry: NodeEntry, place: str) -> ForeignUse:
    used = entry.foreign
    for n, each in enumerate(used.gpus):
        if each.index >= entry.gpus:
            raise no_gpu(f"{place}.gpus[{n}].index", entry.name, each.index, entry.gpus)
        if any(other.index == each.index for other in used.gpus[:n]):
            raise at(f"{place}.gpus[{n}].index", f"GPU {each.index} is given twice.")
    if used.unnumbered + len(used.gpus) > entry.gpus:
        raise at(f"{place}.unnumbered", f"{entry.name} has only {entry.gpus} GPUs.")
    return ForeignUse(
        gpus=tuple((each.index, milli(each.share, f"{place}.gpus[{n}].share")) for n, each in enumerate(used.gpus)),
        unnumbered=milli(used.unnumbered, f"{place}.unnumbered"),
        cpus=milli(used.cpus, f"{place}.cpus"),
        memory=mib(used.memory_gib) or 0,
    )


def _node_pools(scenario: Scenario) -> tuple[NodePool, ...]:
    """The declared node pools and the two default ones. A file that declares none may use any name, for training."""
    named = [NodePool(NodePoolName(e.name), e.environment, e.placement, e.gpus) for e in scenario.node_pools]
    known = {pool.name for pool in named}
    usual = [pool for pool in Pool().node_pools if pool.name not in known]
    implied = {NodePoolName(node.node_pool) for node in scenario.nodes} - {pool.name for pool in usual}
    other = [] if named else [NodePool(name, Environment.TRAIN) for name in sorted(implied)]
    return (*named, *usual, *other)


def _projects(entries: list[ProjectEntry], pools: Sequence[str]) -> tuple[Project, ...]:
    parents = {entry.name: entry.parent for entry in entries}
    for n, entry in enumerate(entries):
        place = f"projects[{n}].parent"
        above, path = entry.parent, [entry.name]
        while above is not None:
            if above not in parents:
                raise no_such(place, "project", above)
            if above in path:
                raise Invalid(f"{place}: {entry.name} would be its own ancestor.", field=place)
            path.append(above)
            above = parents[above]
    guarantees = _guarantees(entries)
    bounds = [bounds_of(entry, f"projects[{n}]") for n, entry in enumerate(entries)]
    return tuple(
        Project(
            name=ProjectName(entry.name),
            parent=None if entry.parent is None else ProjectName(entry.parent),
            guaranteed=guarantees[entry.name],
            limit=amount(entry.limit, f"projects[{n}].limit"),
            weight=amount(entry.weight, f"projects[{n}].weight"),
            priority=entry.priority,
            created=entry.created,
            order=entry.order,
            quotas=quotas_of(entry.quotas, f"projects[{n}].quotas", pools),
            cpus=bounds[n][0],
            memory=bounds[n][1],
            changes=_changes(entry, f"projects[{n}].changes"),
        )
        for n, entry in enumerate(entries)
    )


def _changes(entry: ProjectEntry, place: str) -> tuple[GuaranteeChange, ...]:
    found = list[GuaranteeChange]()
    for n, change in enumerate(entry.changes):
        here = f"{place}[{n}]"
        if found and change.at <= found[-1].at:
            raise at(f"{here}.at", "Changes must be in the order of their times.")
        if change.timezone not in available_timezones():
            raise no_such(f"{here}.timezone", "time zone", change.timezone)
        found.append(GuaranteeChange(change.at, amount(change.guaranteed, f"{here}.guaranteed"), change.timezone))
    return tuple(found)


def _guarantees(entries: list[ProjectEntry]) -> dict[str, Milli | None]:
    """The guarantee of each project; a parent without one has the sum of its children."""
    places = {entry.name: f"projects[{n}].guaranteed" for n, entry in enumerate(entries)}
    below: dict[str | None, list[ProjectEntry]] = {}
    for entry in entries:
        below.setdefault(entry.parent, []).append(entry)
    found: dict[str, Milli | None] = {}

    def add(entry: ProjectEntry) -> Milli | None:
        sums = [add(child) for child in below.get(entry.name, [])]
        if sums and "guaranteed" not in entry.model_fields_set:
            amounts = [amount for amount in sums if amount is not None]
            found[entry.name] = sum(amounts) if len(amounts) == len(sums) else None
        else:
            found[entry.name] = amount(entry.guaranteed, places[entry.name])
        return found[entry.name]

    for entry in below.get(None, []):
        add(entry)
    return found
