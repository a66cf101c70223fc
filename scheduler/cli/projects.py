"""`jupyter runai project`: projects and their quotas."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from scheduler.cli.apply import tell, tell_effects, tell_warnings
from scheduler.cli.connect import connect
from scheduler.cli.text import Screen, amount, bar, clean, clock
from scheduler.errors import NotFound
from scheduler.model import number
from scheduler.pool.windows import in_words

if TYPE_CHECKING:
    from scheduler.client import Client
    from scheduler.schema import PartView, ProjectView, QuotaEntry


def show_list(options: argparse.Namespace) -> int:
    with connect() as client:
        found = client.projects()
    if options.output:
        from scheduler.cli.formats import emit

        emit(found, options.output)
        return 0
    table(Screen(), found)
    return 0


def table(screen: Screen, projects: Sequence[ProjectView]) -> None:
    """Every project below its parent, with a bar of its use: `█` within its guarantee, `▒` over quota."""
    ordered = _tree(projects)
    scale = max((max(p.guaranteed_in_all or 0, p.allocated, p.fair_share) for p in projects), default=0)
    screen.table(
        ["PROJECT", "HOLDS", "", "GUARANTEED", "LIMIT", "FAIR SHARE", "RUNNING", "WAITING"],
        [
            (
                f"{'· ' * depth}{project.name}",
                amount(project.allocated),
                bar(project.allocated, project.over_quota, scale),
                amount(project.guaranteed_in_all, "no bound"),
                amount(project.limit, "none"),
                amount(project.fair_share),
                project.running or "",
                project.waiting or "",
            )
            for depth, project in ordered
        ],
        right=["HOLDS", "GUARANTEED", "LIMIT", "FAIR SHARE", "RUNNING", "WAITING"],
    )


def _tree(projects: Sequence[ProjectView]) -> list[tuple[int, ProjectView]]:
    """Parents before their children, with their depth; a project whose parent is not visible is at the top."""
    seen = {project.name for project in projects}

    def below(parent: str | None, depth: int) -> list[tuple[int, ProjectView]]:
        found = []
        for project in projects:
            at_top = project.parent is None or project.parent not in seen
            if project.parent == parent if parent is not None else at_top:
                found += [(depth, project), *below(project.name, depth + 1)]
        return found

    return below(None, 0)


def show(options: argparse.Namespace) -> int:
    with connect() as client:
        project = client.project(options.name)
    if options.output:
        from scheduler.cli.formats import emit

        emit(project, options.output)
        return 0
    _describe(project)
    return 0


def _describe(project: ProjectView) -> None:
    screen = Screen()
    screen.heading(clean(project.name))
    facts = [
        ("below", project.parent or ""),
        ("guaranteed", amount(project.guaranteed, "unlimited")),
        *(("windows" if not n else "", in_words(window)) for n, window in enumerate(project.windows)),
        ("now", _in_force(project) if project.windows else ""),
        ("limit", amount(project.limit, "none")),
        ("weight", amount(project.weight, "same as the guarantee")),
        ("priority", project.priority),
        ("order", project.order or ""),
        ("holds", amount(project.allocated)),
        ("over quota", amount(project.over_quota) if project.over_quota else ""),
        ("fair share", amount(project.fair_share)),
        ("recent use", f"{amount(round(project.recent_use, 2))} on average" if project.recent_use else ""),
        ("wants", amount(project.demand)),
        ("CPUs", _beside(project.allocated_cpus, project.guaranteed_cpus, project.limit_cpus)),
        (
            "memory",
            _beside(project.allocated_memory_gib, project.guaranteed_memory_gib, project.limit_memory_gib, " GiB"),
        ),
        ("more now", amount(project.could_start) if project.takes_jobs else ""),
        ("jobs", f"{project.running} running, {project.waiting} waiting" if project.takes_jobs else ""),
        ("members", "everybody" if "*" in project.members else ", ".join(project.members)),
        ("groups", ", ".join(project.groups)),
        *(("quotas" if not n else "", quota) for n, quota in enumerate(_quotas(project))),
        *(("parts" if not n else "", part) for n, part in enumerate(_parts(project))),
        *(("policy" if not n else "", rule) for n, rule in enumerate(_rules(project))),
    ]
    for label, value in facts:
        if value != "":
            screen.line(f"  {label:<10}  {clean(value)}")


def _in_force(project: ProjectView) -> str:
    """`guaranteed 2, 20 from 09:00`"""
    told = f"guaranteed {amount(project.guaranteed_now, 'unlimited')}"
    for change in project.changes[:1]:
        told += f", {amount(change.guaranteed, 'unlimited')} from {clock(change.at, time.time())}"
    return told


def _beside(allocated: float, guaranteed: float | None, limit: float | None, unit: str = "") -> str:
    """The use and quota of CPUs or memory; empty where there are none."""
    facts = [f"holds {number(allocated)}{unit}"] if allocated or guaranteed is not None or limit is not None else []
    facts += [f"guaranteed {number(guaranteed)}{unit}"] if guaranteed is not None else []
    facts += [f"limit {number(limit)}{unit}"] if limit is not None else []
    return ", ".join(facts)


def _quotas(project: ProjectView) -> list[str]:
    """Its quotas of parts of the pool, a line each."""
    return [
        f"{_part(quota)}: guaranteed {amount(quota.guaranteed, 'nothing')}, limit {amount(quota.limit, 'none')}"
        for quota in project.quotas
    ]


def _parts(project: ProjectView) -> list[str]:
    """Its state in the parts of the pool that are divided separately, a line each."""
    return [
        f"{_part(part)}: holds {amount(part.allocated)} of a fair share of {amount(part.fair_share)}, "
        f"guaranteed {amount(part.guaranteed, 'unlimited')}"
        for part in project.parts
    ]


def _part(part: QuotaEntry | PartView) -> str:
    if part.gpu_type is None and part.node_pool is None:
        return "the rest of the pool"
    where = f"node pool {part.node_pool}" if part.node_pool else ""
    return " in ".join(filter(None, [part.gpu_type, where]))


def _rules(project: ProjectView) -> list[str]:
    """The rules for its jobs, a line each."""
    policy = project.policy.model_dump(exclude_none=True)
    return [f"{part}.{rule} = {value}" for part, content in policy.items() for rule, value in content.items()]


def change(options: argparse.Namespace) -> int:
    """Add a project, or change the given fields of one; other fields do not change."""
    from scheduler.schema import ProjectEntry
    from scheduler.schema.reading import validate

    with connect() as client:
        entry = _as_it_is(client, options.name)
        new = "name" not in entry
        entry |= {"name": options.name, **_given(options)}
        entry["quotas"] = _with_quotas(entry.get("quotas", []), options.quota)
        entry["policy"] = _with_rules(entry.get("policy", {}), options.policy)
        wanted = validate(ProjectEntry, entry)
        found = client.project_preview(wanted)
        if not options.preview:
            client.project_put(wanted)
    if options.preview:
        tell(found, found.effects)
    else:
        screen = Screen()
        screen.line(f"Project {wanted.name} is {'added' if new else 'changed'}.")
        tell_effects(screen, found.effects, preview=False)
        tell_warnings(found.warnings)
    return 0


def _as_it_is(client: Client, name: str) -> dict[str, Any]:
    from scheduler.schema import ProjectEntry

    try:
        found = client.project(name).model_dump(mode="json")
    except NotFound:
        return {}
    return {key: found[key] for key in ProjectEntry.model_fields}


_AMOUNTS = (
    "guaranteed", "limit", "weight", "guaranteed_cpus", "limit_cpus", "guaranteed_memory_gib", "limit_memory_gib",
)  # fmt: skip
"""The options whose value is an amount or `none`."""


def _given(options: argparse.Namespace) -> dict[str, Any]:
    given: dict[str, Any] = {key: getattr(options, key) for key in _AMOUNTS if hasattr(options, key)}
    if options.parent is not None:
        given["parent"] = None if options.parent == "none" else options.parent
    if options.priority is not None:
        given["priority"] = options.priority
    if options.order is not None:
        given["order"] = None if options.order == "none" else options.order
    if options.member is not None:
        given["members"] = options.member
    if options.group is not None:
        given["groups"] = options.group
    if options.window is not None:
        given["windows"] = [window for window in options.window if window is not None]
    return given


def _with_quotas(quotas: Sequence[dict[str, Any]], given: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Quotas updated by those given, for each part of the pool; one without amounts removes the quota."""
    parts = {(quota.get("node_pool"), quota.get("gpu_type")): quota for quota in quotas}
    for quota in given:
        parts[quota.get("node_pool"), quota.get("gpu_type")] = quota
    return [quota for quota in parts.values() if quota.keys() & {"guaranteed", "limit"}]


def _with_rules(policy: dict[str, Any], rules: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """A policy with `part.rule` set to each value; `None` removes a rule."""
    changed = {part: dict(content) for part, content in policy.items()}
    for name, value in rules:
        part, _, rule = name.partition(".")
        changed.setdefault(part, {})[rule] = value
    return changed


def remove(options: argparse.Namespace) -> int:
    with connect() as client:
        client.project_delete(options.name)
    print(f"Project {options.name} is removed.")
    return 0
