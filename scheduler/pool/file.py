"""The pool file: what an administrator declares about the pool, as YAML for people and as `Pool` for the scheduler.

What must hold:
- Whatever is wrong is refused with one sentence and the place of it (`projects[2].guaranteed`); nothing is guessed, and
  an unknown or repeated key never passes unseen.
- A `Pool` and its `PoolFile` are equivalent: a round trip changes nothing.
- Amounts turn into whole thousandths here and only here; an amount that is finer is refused, not rounded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from difflib import get_close_matches
from typing import Protocol

import yaml
from pydantic import TypeAdapter

from scheduler.errors import Invalid
from scheduler.model import (
    ONE,
    Bounds,
    Environment,
    GpuType,
    GroupName,
    Milli,
    NodeName,
    NodePool,
    NodePoolName,
    Pool,
    Project,
    ProjectName,
    ProjectRules,
    Quota,
    User,
    UserGroup,
    UserName,
)
from scheduler.pool.nodes import refuse_lost
from scheduler.pool.rules import check_pool
from scheduler.pool.settings import settings_entry, settings_of
from scheduler.pool.windows import window_entries, windows_of
from scheduler.schema import (
    NodePoolEntry,
    PolicyEntry,
    PoolFile,
    ProjectEntry,
    QuotaEntry,
    UserEntry,
    UserGroupEntry,
)
from scheduler.schema.reading import mib, milli, parse_mapping, validate

# -- reading ------------------------------------------------------------------------------------------------


_POLICY = TypeAdapter(ProjectRules)
_GPUS = (("defaults", "gpus"), ("maxima", "gpus"), ("maxima", "total_gpus"))
"""The rules that are amounts of GPUs."""


def parse(text: str, *, source: str = "The pool file") -> PoolFile:
    """Read a pool file from YAML (or JSON). Raises `Invalid`, with the place as its `field`."""
    return validate(PoolFile, parse_mapping(text, source=source, example="projects: …"))


def dump(file: PoolFile) -> str:
    """The pool file as YAML, without default values in entries and policies."""
    content = file.model_dump(mode="json")
    content["node_pools"] = [entry.model_dump(mode="json", exclude_defaults=True) for entry in file.node_pools]
    content["projects"] = [entry.model_dump(mode="json", exclude_defaults=True) for entry in file.projects]
    content["policy"] = file.policy.model_dump(mode="json", exclude_defaults=True)
    content["settings"] = file.settings.model_dump(mode="json", exclude_none=True)
    text: str = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    return text


# -- to and from the model ----------------------------------------------------------------------


def pool_of(file: PoolFile, before: Pool, now: float) -> Pool:
    """The pool that `file` declares.

    Projects that are in `before` keep their age and recent use; new ones are created `now`. Raises `Invalid` for
    contradictions: duplicate names, unknown or circular parents, limits below guarantees.
    """
    known = {project.name: project for project in before.projects}
    _refuse_twice("node_pools", [entry.name for entry in file.node_pools])
    _refuse_twice("projects", [entry.name for entry in file.projects])
    _refuse_twice("users", [entry.name for entry in file.users])
    _refuse_twice("groups", [entry.name for entry in file.groups])
    _refuse_circles(file.projects)
    training = [entry.name for entry in file.node_pools if entry.environment is Environment.TRAIN]
    pool = Pool(
        node_pools=tuple(NodePool(NodePoolName(e.name), e.environment, e.placement, e.gpus) for e in file.node_pools),
        projects=tuple(
            _project(entry, f"projects[{n}]", known.get(ProjectName(entry.name)), now, training)
            for n, entry in enumerate(file.projects)
        ),
        users=tuple(
            User(UserName(entry.name), milli(entry.build_quota, f"users[{n}].build_quota"))
            for n, entry in enumerate(file.users)
        ),
        default_build_quota=milli(file.default_build_quota, "default_build_quota"),
        build_overcommit=file.build_overcommit,
        keep_days=file.keep_days,
        max_jobs_per_user=file.max_jobs_per_user,
        max_upload_gib_per_user=file.max_upload_gib_per_user,
        policy=_policy(file.policy, "policy"),
        topology=tuple(file.topology),
        drained=before.drained
        if file.drained is None
        else tuple((NodeName(name), reason) for name, reason in sorted(file.drained.items())),
        moved=before.moved
        if file.moved is None
        else tuple((NodeName(name), NodePoolName(to)) for name, to in sorted(file.moved.items())),
        settings=settings_of(file.settings),
        groups=tuple(
            UserGroup(GroupName(entry.name), milli(entry.build_quota, f"groups[{n}].build_quota"))
            for n, entry in enumerate(file.groups)
        ),
    )
    refuse_lost(pool)
    check_pool(pool)
    return pool


def file_of(pool: Pool) -> PoolFile:
    """The pool file that declares `pool`."""
    return PoolFile(
        node_pools=[
            NodePoolEntry(name=p.name, environment=p.environment, placement=p.placement, gpus=p.gpus)
            for p in pool.node_pools
        ],
        projects=[project_entry(project) for project in pool.projects],
        users=[UserEntry(name=user.name, build_quota=user.build_quota / ONE) for user in pool.users],
        groups=[UserGroupEntry(name=group.name, build_quota=group.build_quota / ONE) for group in pool.groups],
        default_build_quota=pool.default_build_quota / ONE,
        build_overcommit=pool.build_overcommit,
        keep_days=pool.keep_days,
        max_jobs_per_user=pool.max_jobs_per_user,
        max_upload_gib_per_user=pool.max_upload_gib_per_user,
        policy=policy_entry(pool.policy),
        topology=list(pool.topology),
        drained=dict(pool.drained),
        moved=dict(pool.moved),
        settings=settings_entry(pool.settings),
    )


def with_project(pool: Pool, entry: ProjectEntry, now: float) -> Pool:
    """`pool` with one project replaced by name, or added. Raises `Invalid` with the place in the entry (`limit`), or
    with the name of another project that it conflicts with."""
    entries = [project_entry(project) for project in pool.projects]
    names = [project.name for project in entries]
    if entry.name in names:
        entries[names.index(entry.name)] = entry
    else:
        entries.append(entry)
        names.append(entry.name)
    try:
        return pool_of(file_of(pool).model_copy(update={"projects": entries}), pool, now)
    except Invalid as error:
        raise _by_name(error, names, entry.name) from None


def _by_name(error: Invalid, names: Sequence[str], own: str) -> Invalid:
    """An error of a generated pool file, with project names instead of places."""

    def named(place: re.Match[str]) -> str:
        name = names[int(place[1])]
        return "" if name == own else f"project {name!r}: "

    place = re.compile(r"projects\[(\d+)\]\.")
    return Invalid(place.sub(named, error.sentence), field=place.sub("", error.field or "") or None)


def without_project(pool: Pool, name: str, now: float) -> Pool:
    """`pool` without one project. Raises `Invalid` where others are below it or it is the last one."""
    below = sorted(project.name for project in pool.projects if project.parent == name)
    if below:
        raise Invalid(f"{name!r} has projects below it ({', '.join(below)}); remove or move them first.")
    entries = [project_entry(project) for project in pool.projects if project.name != name]
    if not entries:
        raise Invalid(f"{name!r} is the only project; add another one before you remove it.")
    return pool_of(file_of(pool).model_copy(update={"projects": entries}), pool, now)


def project_entry(project: Project) -> ProjectEntry:
    return ProjectEntry(
        name=project.name,
        parent=project.parent,
        guaranteed=None if project.guaranteed is None else project.guaranteed / ONE,
        limit=None if project.limit is None else project.limit / ONE,
        weight=None if project.weight is None else project.weight / ONE,
        priority=project.priority,
        members=sorted(project.members),
        groups=sorted(project.groups),
        policy=policy_entry(project.policy),
        quotas=quota_entries(project),
        order=project.order,
        **bounds_entry(project),
        windows=window_entries(project),
    )


def bounds_entry(project: Project) -> dict[str, float | None]:
    """A project's quota of CPUs and memory, as in a pool file."""

    def gib(amount: int | None) -> float | None:
        return None if amount is None else amount / 1024

    return {
        "guaranteed_cpus": None if project.cpus.guaranteed is None else project.cpus.guaranteed / ONE,
        "limit_cpus": None if project.cpus.limit is None else project.cpus.limit / ONE,
        "guaranteed_memory_gib": gib(project.memory.guaranteed),
        "limit_memory_gib": gib(project.memory.limit),
    }


class HasBounds(Protocol):
    """An entry that may declare CPUs and memory: of a pool file or of a scenario."""

    @property
    def guaranteed_cpus(self) -> float | None: ...
    @property
    def limit_cpus(self) -> float | None: ...
    @property
    def guaranteed_memory_gib(self) -> float | None: ...
    @property
    def limit_memory_gib(self) -> float | None: ...


def bounds_of(entry: HasBounds, place: str) -> tuple[Bounds, Bounds]:
    """The CPUs and the memory that an entry declares. Raises `Invalid`, with the place."""

    def cpus(given: float | None, name: str) -> int | None:
        return None if given is None else milli(given, f"{place}.{name}")

    def memory(given: float | None, name: str) -> int | None:
        return None if given is None else mib(given, f"{place}.{name}")

    for name, guaranteed, limit in (
        ("limit_cpus", entry.guaranteed_cpus, entry.limit_cpus),
        ("limit_memory_gib", entry.guaranteed_memory_gib, entry.limit_memory_gib),
    ):
        if guaranteed is not None and limit is not None and limit < guaranteed:
            raise Invalid(
                f"{place}.{name} ({limit:g}) is below the guarantee ({guaranteed:g}); raise one or lower the other.",
                field=f"{place}.{name}",
            )
    return (
        Bounds(cpus(entry.guaranteed_cpus, "guaranteed_cpus"), cpus(entry.limit_cpus, "limit_cpus")),
        Bounds(
            memory(entry.guaranteed_memory_gib, "guaranteed_memory_gib"),
            memory(entry.limit_memory_gib, "limit_memory_gib"),
        ),
    )


def quota_entries(project: Project) -> list[QuotaEntry]:
    """A project's quotas of parts of the pool, as in a pool file."""
    return [
        QuotaEntry(
            node_pool=quota.node_pool,
            gpu_type=quota.gpu_type,
            guaranteed=None if quota.guaranteed is None else quota.guaranteed / ONE,
            limit=None if quota.limit is None else quota.limit / ONE,
        )
        for quota in project.quotas
    ]


def quotas_of(entries: Sequence[QuotaEntry], place: str, node_pools: Sequence[str]) -> tuple[Quota, ...]:
    """The quotas that `entries` declare; `node_pools` are those for training. Raises `Invalid`, with the place."""
    found = list[Quota]()
    for n, entry in enumerate(entries):
        here = f"{place}[{n}]"
        if entry.node_pool is None and entry.gpu_type is None:
            raise Invalid(
                f"{here} needs a node_pool, a gpu_type or both; for the whole pool, set `guaranteed` and `limit` of "
                "the project.",
                field=here,
            )
        if entry.node_pool is not None and entry.node_pool not in node_pools:
            raise Invalid(
                f"{here}.node_pool: there is no node pool {entry.node_pool!r} for training; available: "
                f"{', '.join(node_pools)}.",
                field=f"{here}.node_pool",
            )
        if entry.guaranteed is None and entry.limit is None:
            raise Invalid(f"{here} is empty; add `guaranteed`, `limit` or both.", field=here)
        if entry.guaranteed is not None and entry.limit is not None and entry.limit < entry.guaranteed:
            raise Invalid(
                f"{here}.limit ({entry.limit:g}) is below the guarantee ({entry.guaranteed:g}); "
                "raise one or lower the other.",
                field=f"{here}.limit",
            )
        if any((entry.node_pool, entry.gpu_type) == (quota.node_pool, quota.gpu_type) for quota in found):
            raise Invalid(f"{here} is given twice; give each part once.", field=here)
        amounts = [
            None if given is None else milli(given, f"{here}.{name}")
            for name, given in (("guaranteed", entry.guaranteed), ("limit", entry.limit))
        ]
        node_pool = None if entry.node_pool is None else NodePoolName(entry.node_pool)
        gpu_type = None if entry.gpu_type is None else GpuType(entry.gpu_type)
        found.append(Quota(amounts[0], amounts[1], node_pool, gpu_type))
    return tuple(found)


def policy_entry(policy: ProjectRules) -> PolicyEntry:
    """The rules as in a pool file."""
    content = asdict(policy)
    for part, key in _GPUS:
        if content[part][key] is not None:
            content[part][key] /= ONE
    return PolicyEntry.model_validate(content)


def _policy(entry: PolicyEntry, place: str) -> ProjectRules:
    content = entry.model_dump()
    for part, key in _GPUS:
        if content[part][key] is not None:
            content[part][key] = milli(content[part][key], f"{place}.{part}.{key}")
    return _POLICY.validate_python(content)


def _project(entry: ProjectEntry, place: str, known: Project | None, now: float, pools: Sequence[str]) -> Project:
    def amount(name: str) -> Milli | None:
        given: float | None = getattr(entry, name)
        return None if given is None else milli(given, f"{place}.{name}")

    cpus, memory = bounds_of(entry, place)
    project = Project(
        name=ProjectName(entry.name),
        parent=None if entry.parent is None else ProjectName(entry.parent),
        guaranteed=amount("guaranteed"),
        limit=amount("limit"),
        weight=amount("weight"),
        priority=entry.priority,
        created=now,
        members=frozenset(map(UserName, entry.members)),
        groups=frozenset(map(GroupName, entry.groups)),
        policy=_policy(entry.policy, f"{place}.policy"),
        quotas=quotas_of(entry.quotas, f"{place}.quotas", pools),
        order=entry.order,
        cpus=cpus,
        memory=memory,
        windows=windows_of(entry.windows, amount("limit"), f"{place}.windows"),
    )
    if project.limit is not None and project.guaranteed is not None and project.limit < project.guaranteed:
        raise Invalid(
            f"{place}.limit: project {entry.name!r} has a limit of {entry.limit:g}, below its guarantee of "
            f"{entry.guaranteed:g}; raise one or lower the other.",
            field=f"{place}.limit",
        )
    return replace(project, created=known.created) if known else project


def _refuse_twice(key: str, names: Sequence[str]) -> None:
    for n, name in enumerate(names):
        if name in names[:n]:
            place = f"{key}[{n}].name"
            raise Invalid(f"{place}: {name!r} is given twice; names must be unique.", field=place)


def _refuse_circles(projects: Sequence[ProjectEntry]) -> None:
    parents = {project.name: project.parent for project in projects}
    for n, project in enumerate(projects):
        place = f"projects[{n}].parent"
        path = [project.name]
        while (above := parents[path[-1]]) is not None:
            if above not in parents:
                break
            path.append(above)
            if above in path[:-1]:
                raise Invalid(
                    f"{place}: {' → '.join(path)} forms a circle; a project cannot be its own ancestor.",
                    field=place,
                )
        if project.parent is not None and project.parent not in parents:
            near = get_close_matches(project.parent, parents, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "add it or leave `parent` out."
            raise Invalid(f"{place}: there is no project {project.parent!r}; {hint}", field=place)
