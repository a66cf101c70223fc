"""Compares two pools: the changes, warnings for the administrator, and forbidden changes.

Pure functions of two `Pool` values and the current workloads. The API's preview, `apply` and changes of one project all
use them, so that they refuse the same changes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel

from scheduler.errors import Conflict
from scheduler.model import (
    ONE,
    Environment,
    Milli,
    Node,
    NodeName,
    Pool,
    Project,
    ProjectName,
    Workload,
    WorkloadId,
    gpu_count,
    guaranteed_at,
    pool_at,
)
from scheduler.policy import quotas
from scheduler.pool.file import file_of
from scheduler.schema import Change, PoolFile

CHECKED = 20
"""The number of future changes of guarantees for which it is checked that they can be met."""

Kind = Literal["node_pool", "project", "user", "group", "settings", "pool"]


def changes(before: Pool, after: Pool) -> list[Change]:
    """The differences in the order of the pool file; of a changed entry only the keys that differ. Empty where there
    are none."""
    old, new = file_of(before), file_of(after)
    found: list[Change] = []
    found += _entries("node_pool", old.node_pools, new.node_pools)
    found += _entries("project", old.projects, new.projects)
    found += _entries("user", old.users, new.users)
    found += _entries("group", old.groups, new.groups)
    found += _changed("settings", "settings", old.settings.model_dump(), new.settings.model_dump())
    found += _changed("pool", "pool", _rest(old), _rest(new))
    return found


def _rest(file: PoolFile) -> dict[str, Any]:
    return {
        "default_build_quota": file.default_build_quota,
        "build_overcommit": file.build_overcommit,
        "keep_days": file.keep_days,
        "max_jobs_per_user": file.max_jobs_per_user,
        "max_upload_gib_per_user": file.max_upload_gib_per_user,
        "topology": file.topology,
        **{f"drained.{node}": reason for node, reason in (file.drained or {}).items()},
        **{f"moved.{node}": node_pool for node, node_pool in (file.moved or {}).items()},
        **_rules(file.policy.model_dump()),
    }


def _entries(kind: Kind, old: Sequence[Any], new: Sequence[Any]) -> Iterable[Change]:
    was = {entry.name: _content(entry) for entry in old}
    will = {entry.name: _content(entry) for entry in new}
    for name, entry in will.items():
        if name not in was:
            yield Change(action="add", kind=kind, name=name, after=entry)
        else:
            yield from _changed(kind, name, was[name], entry)
    for name, entry in was.items():
        if name not in will:
            yield Change(action="remove", kind=kind, name=name, before=entry)


def _content(entry: BaseModel) -> dict[str, Any]:
    """What an entry says, by its keys; of a policy each rule that there is (`policy.maxima.gpus`)."""
    content = entry.model_dump(mode="json")
    policy = content.pop("policy", {})
    return {**content, **_rules(policy)}


def _rules(policy: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    said = ((part, rule, value) for part, rules in policy.items() for rule, value in rules.items())
    return {f"policy.{part}.{rule}": value for part, rule, value in said if value is not None}


def _changed(kind: Kind, name: str, was: Mapping[str, Any], will: Mapping[str, Any]) -> Iterable[Change]:
    keys = [key for key in {**was, **will} if will.get(key) != was.get(key)]
    if keys:
        yield Change(
            action="change",
            kind=kind,
            name=name,
            before={key: was.get(key) for key in keys},
            after={key: will.get(key) for key in keys},
        )


# -- forbidden changes ----------------------------------------------------------------------------------


def refuse_harm(before: Pool, after: Pool, workloads: Iterable[Workload], nodes: Iterable[Node]) -> None:
    """Raise `Conflict` where a change would leave workloads without their project or give GPUs two owners, and where it
    would overcommit build GPUs without `build_overcommit`.

    `workloads` are the sessions and jobs that hold GPUs or wait for them, which most changes need not look at; `nodes`
    are as `after` divides them.
    """
    promised, there = _promised(after), _there(after, nodes)[Environment.BUILD]
    if promised > max(there, _promised(before)) and not after.build_overcommit:
        raise Conflict(
            f"Build quotas would add up to {gpu_count(promised)} for {_count_users(after)}, and there are "
            f"{gpu_count(there)} "
            "for building: lower them, enlarge the build node pool, or set `build_overcommit: true`.",
            field="users",
        )
    names = {project.name for project in after.projects}
    parents = {project.parent: project.name for project in after.projects}
    closed = {name for name in _leaves(before) if name not in names or name in parents}
    divided = _division(before) != _division(after)
    if not closed and not divided:
        return
    present = list(workloads)
    jobs: dict[ProjectName, list[WorkloadId]] = defaultdict(list)
    for workload in present:
        if workload.request.environment is Environment.TRAIN and workload.request.project in closed:
            jobs[workload.request.project].append(workload.id)
    for name, ids in jobs.items():
        if name not in names:
            raise Conflict(
                f"Project {name!r} cannot be removed while it has {_count(ids)}; cancel them or wait until they have "
                f"ended."
            )
        if name in parents:
            raise Conflict(
                f"Project {name!r} has {_count(ids)} and cannot become the parent of "
                f"{parents[name]!r}, because only a project "
                "without others below it takes jobs; cancel them or wait until they have ended."
            )
    holding = [workload.id for workload in present if workload.running]
    if holding and divided:
        raise Conflict(
            f"The node pools cannot change while sessions or jobs hold GPUs ({_some(holding)}); stop them first."
        )


def _leaves(pool: Pool) -> set[ProjectName]:
    """The projects that take jobs."""
    return {project.name for project in pool.projects} - {project.parent for project in pool.projects}


def _division(pool: Pool) -> list[tuple[str, str, int | None]]:
    """What determines the node pool of each GPU (placement styles do not)."""
    return [(p.name, p.environment.value, p.gpus) for p in pool.node_pools]


def _count(ids: Sequence[str]) -> str:
    return f"{len(ids)} unfinished job{'s' if len(ids) > 1 else ''} ({_some(ids)})"


def _some(ids: Sequence[str]) -> str:
    return ", ".join(ids[:3]) + (", …" if len(ids) > 3 else "")


# -- moved nodes ---------------------------------------------------------------------------------------


def stays(pool: Pool, before: Iterable[Node], after: Iterable[Node], workloads: Iterable[Workload]) -> Iterable[str]:
    """What happens to the running workloads on nodes that a change of the pool to `pool` moves to the other
    environment."""
    environment = {node_pool.name: node_pool.environment for node_pool in pool.node_pools}
    was = {node.name: environment.get(node.node_pool) for node in before}
    moved = {node.name: environment.get(node.node_pool) for node in after}
    moved = {name: to for name, to in moved.items() if was.get(name) not in (None, to)}
    if not moved:
        return
    running: dict[tuple[NodeName, Environment], int] = defaultdict(int)
    for workload in workloads:
        for name in {worker.node for worker in workload.placement} if workload.running else ():
            if name in moved:
                running[name, workload.request.environment] += 1
    for (name, kind), count in sorted(running.items()):
        what = "job" if kind is Environment.TRAIN else "notebook server"
        who = f"{count} {what} holds" if count == 1 else f"{count} {what}s hold"
        if pool.settings.lending and kind is Environment.TRAIN:
            yield f"{who} GPUs of {name}, from now on as a loan: notebook servers may take them back."
        else:
            until = "keeps them until it ends" if count == 1 else "keep them until they end"
            yield f"{who} GPUs of {name} and {until}."


# -- warnings ----------------------------------------------------------------------


def warnings(pool: Pool, nodes: Iterable[Node], now: float) -> list[str]:
    """Sentences about guarantees and quotas that the existing GPUs (`nodes`, as divided by `pool`) cannot meet, now or
    in a window."""
    nodes = list(nodes)
    guarantees = [*_train_promises(pool, nodes), *_family_promises(pool.projects)]
    return [
        *_build_promises(pool, _there(pool, nodes)[Environment.BUILD]),
        *guarantees,
        *_promises_in_windows(pool, nodes, guarantees, now),
        *_closed_projects(pool.projects),
    ]


def _promises_in_windows(pool: Pool, nodes: Sequence[Node], known: Sequence[str], now: float) -> Iterable[str]:
    """Guarantees that cannot be met once the next windows begin, each sentence once with its first time."""
    told = set(known)
    changes = {change.at: project for project in pool_at(pool, now).pool.projects for change in project.changes}
    for at in sorted(changes)[:CHECKED]:
        then = replace(pool, projects=tuple(replace(p, guaranteed=guaranteed_at(p, at)) for p in pool.projects))
        zone = changes[at].windows[0].timezone
        for sentence in (*_train_promises(then, nodes), *_family_promises(then.projects)):
            if sentence not in told:
                told.add(sentence)
                yield f"From {datetime.fromtimestamp(at, ZoneInfo(zone)):%Y-%m-%d %H:%M} ({zone}): {sentence}"


def _there(pool: Pool, nodes: Iterable[Node]) -> dict[Environment, Milli]:
    """The existing GPUs of each environment."""
    kind = {node_pool.name: node_pool.environment for node_pool in pool.node_pools}
    there = dict.fromkeys(Environment, 0)
    for node in nodes:
        if node.node_pool in kind:
            there[kind[node.node_pool]] += node.gpus * ONE
    return there


def _promised(pool: Pool) -> Milli:
    """The build quotas of named users."""
    return sum(user.build_quota for user in pool.users)


def _count_users(pool: Pool) -> str:
    return f"{len(pool.users)} user{'s' if len(pool.users) > 1 else ''}"


def _build_promises(pool: Pool, there: Milli) -> Iterable[str]:
    promised = _promised(pool)
    if promised > there:
        yield (
            f"Build quotas add up to {gpu_count(promised)} for {_count_users(pool)}, and there are {gpu_count(there)} "
            "for building; not everybody can use their quota at the same time."
        )
    elif pool.default_build_quota > there:
        yield (
            f"Every user may hold {gpu_count(pool.default_build_quota)} for building (default_build_quota), and there "
            f"are {gpu_count(there)} for building."
        )
    for group in pool.groups:
        if group.build_quota > there:
            yield (
                f"Every user of the group {group.name!r} may hold {gpu_count(group.build_quota)} for building, and "
                f"there are {gpu_count(there)} for building."
            )


def _train_promises(pool: Pool, nodes: Iterable[Node]) -> Iterable[str]:
    """The warnings for each part of the pool that is divided separately."""
    kind = {node_pool.name: node_pool.environment for node_pool in pool.node_pools}
    there = dict.fromkeys(quotas.partition_keys(pool.projects), 0)
    for node in nodes:
        if kind.get(node.node_pool) is Environment.TRAIN:
            there[quotas.partition_of(node, there)] += node.gpus * ONE
    for part, gpus in there.items():
        guaranteed = quotas.guarantees(part, pool.projects)
        promised = sum(guaranteed[project.name] or 0 for project in pool.projects if project.parent is None)
        if promised > gpus:
            yield (
                f"Projects are guaranteed {gpu_count(promised)}{quotas.in_words(part)} together, and there "
                f"are {gpu_count(gpus)}"
                f"{' for training' if len(there) == 1 else ''}; the guarantees cannot all be met at the same time."
            )
    for project in pool.projects:
        if project.limit == 0:
            yield f"Project {project.name!r} has a limit of 0 GPUs; its jobs never get any."


def _family_promises(projects: Sequence[Project]) -> Iterable[str]:
    below: dict[str, Milli] = defaultdict(int)
    unbound: set[str] = set()
    for project in projects:
        if project.parent is not None:
            below[project.parent] += project.guaranteed or 0
            if project.guaranteed is None:
                unbound.add(project.parent)
    for project in projects:
        if project.guaranteed is None or project.name not in below:
            continue
        if project.name in unbound:
            yield (
                f"Project {project.name!r} is guaranteed {gpu_count(project.guaranteed)}, and a project below it is "
                "guaranteed an unlimited number of GPUs."
            )
        elif below[project.name] > project.guaranteed:
            yield (
                f"The projects below {project.name!r} are guaranteed {gpu_count(below[project.name])} together, more "
                f"than the {gpu_count(project.guaranteed)} of its own guarantee."
            )


def _closed_projects(projects: Sequence[Project]) -> Iterable[str]:
    parents = {project.parent for project in projects}
    for project in projects:
        if project.name not in parents and not project.members and not project.groups:
            yield (
                f"Nobody may submit to project {project.name!r}; name `members` or `groups` "
                '("*" in `members` is everybody).'
            )
