"""Fair share compared with a slow reference that follows the documentation literally, and by example."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model import ONE, Milli, Project, ProjectName
from scheduler.policy.fairshare import FairShares, share_out
from scheduler.policy.projects import ChangedProjects, ProjectState, build_tree

INFINITE = 10**15


Usage = dict[str, float]
"""The recent use of each project."""


def reference(
    projects: list[Project],
    demands: dict[str, Milli],
    total: Milli,
    k: Fraction,
    usage: Usage,
    on_levels: dict[str, list[Milli]] | None = None,
) -> dict[str, Milli]:
    """Level by level of the tree, with exact fractions, without optimisation; with `on_levels` as many rounds of the
    surplus as there are service levels."""
    on_levels = on_levels or {name: [demand] for name, demand in demands.items()}
    shares: dict[str, Milli] = {}
    below: dict[str | None, list[Project]] = {}
    for project in projects:
        below.setdefault(project.parent, []).append(project)

    def wanted(project: Project, served: int | None = None) -> Milli:
        children = below.get(project.name, [])
        own = on_levels.get(project.name, [])
        demand = sum(wanted(child, served) for child in children) if children else sum(own[:served])
        return demand if project.limit is None else min(project.limit, demand)

    def level(parent: str | None, amount: Milli) -> None:
        members = below.get(parent, [])
        if not members:
            return
        for p in members:
            shares[p.name] = wanted(p) if p.guaranteed is None else min(p.guaranteed, wanted(p))
        rest = Fraction(max(0, amount - sum(shares[p.name] for p in members)))
        for priority in sorted({p.priority for p in members}, reverse=True):
            for served in range(1, 1 + len(next(iter(on_levels.values())))):
                rest = surplus([p for p in members if p.priority == priority], rest, served)
        for p in members:
            level(p.name, min(shares[p.name], amount))

    def surplus(members: list[Project], rest: Fraction, served: int) -> Fraction:
        weights = {p.name: Fraction(p.weight if p.weight is not None else p.guaranteed or ONE) for p in members}
        if k:
            whole = sum(weights.values()) or Fraction(1)
            part = {name: weight / whole for name, weight in weights.items()}
            weights = {
                p.name: max(Fraction(0), part[p.name] + k * (part[p.name] - Fraction(usage[p.name]))) for p in members
            }
        while True:
            wanting = [p for p in members if wanted(p, served) > shares[p.name] and weights[p.name] > 0]
            if not wanting:
                return rest
            whole = sum((weights[p.name] for p in wanting), Fraction(0))
            parts = {p.name: rest * weights[p.name] / whole for p in wanting}
            content = [p for p in wanting if wanted(p, served) - shares[p.name] <= parts[p.name]]
            if not content:
                break
            for p in content:
                rest -= wanted(p, served) - shares[p.name]
                shares[p.name] = wanted(p, served)
        cut_off = {}
        for p in wanting:
            whole_gpus = int(parts[p.name] // ONE) * ONE
            cut_off[p.name] = parts[p.name] - whole_gpus
            shares[p.name] += whole_gpus
            rest -= whole_gpus
        while rest >= ONE and any(wanted(p, served) > shares[p.name] for p in wanting):
            for p in sorted(wanting, key=lambda p: (-cut_off[p.name], p.created, p.name)):
                more = min(ONE, wanted(p, served) - shares[p.name]) if rest >= ONE else 0
                shares[p.name] += more
                rest -= more
        return rest

    level(None, total)
    return shares


@st.composite
def trees(draw: Callable[[Any], Any]) -> tuple[list[Project], dict[str, Milli], Milli, float, Usage]:
    projects: list[Project] = []
    for n in range(draw(st.integers(1, 8))):
        guaranteed = draw(st.sampled_from([0, 0, 500, 1000, 2000, 3000, 7000, None]))
        limit = draw(st.sampled_from([None, None, 0, 1500, 4000]))
        projects.append(
            Project(
                ProjectName(f"p{n}"),
                parent=draw(st.sampled_from([None, None, *[p.name for p in projects]])),
                guaranteed=guaranteed,
                limit=limit,
                weight=draw(st.sampled_from([None, None, 0, 1, 1000, 2000, 3000])),
                priority=draw(st.sampled_from([0, 0, 1])),
                created=float(draw(st.integers(0, 2))),
            )
        )
    parents = {p.parent for p in projects}
    demands: dict[str, Milli] = {
        p.name: draw(st.integers(0, 40)) * draw(st.sampled_from([250, 1000])) for p in projects
    }
    demands = {name: demand for name, demand in demands.items() if name not in parents}
    usage: Usage = {p.name: draw(st.sampled_from([0.0, 0.25, 0.5, 1.0])) for p in projects}
    k = draw(st.sampled_from([0.0, 0.0, 0.5, 1.0]))
    return projects, demands, draw(st.integers(0, 64)) * ONE, k, usage


def shares_of(
    projects: list[Project],
    demands: dict[str, Milli],
    total: Milli,
    time_aware: float = 0.0,
    usage: Usage | None = None,
    on_levels: dict[str, list[Milli]] | None = None,
) -> dict[str, Milli]:
    tree = build_tree(projects)
    for project in tree.values():
        project.on_levels = (on_levels or {}).get(project.name, [])
    for name, part in (usage or {}).items():
        tree[ProjectName(name)].usage = part
    for name, demand in demands.items():
        for step in tree[ProjectName(name)].path:
            step.demand += demand
    share_out([a for a in tree.values() if a.parent is None], total, time_aware)
    return {name: project.share for name, project in tree.items()}


@settings(max_examples=600, deadline=None)
@given(trees())
def test_fair_shares_equal_those_of_the_reference(
    tree: tuple[list[Project], dict[str, Milli], Milli, float, Usage],
) -> None:
    projects, demands, total, k, usage = tree
    expected = reference(projects, demands, total, Fraction(k), usage)
    assert shares_of(projects, demands, total, k, usage) == expected


@settings(max_examples=300, deadline=None)
@given(trees(), st.integers(1, 3), st.data())
def test_fair_shares_by_service_level_equal_those_of_the_reference(
    tree: tuple[list[Project], dict[str, Milli], Milli, float, Usage], levels: int, data: st.DataObject
) -> None:
    projects, demands, total, k, usage = tree
    on_levels: dict[str, list[Milli]] = {}
    for name, demand in demands.items():
        cuts = sorted(data.draw(st.lists(st.integers(0, demand), min_size=levels - 1, max_size=levels - 1)))
        on_levels[name] = [upper - lower for lower, upper in pairwise([0, *cuts, demand])]
    expected = reference(projects, demands, total, Fraction(k), usage, on_levels)
    assert shares_of(projects, demands, total, k, usage, on_levels) == expected


@settings(max_examples=300, deadline=None)
@given(trees(), st.lists(st.tuples(st.integers(0, 7), st.integers(0, 20_000), st.integers(0, 64)), max_size=12))
def test_incremental_shares_equal_recomputed_shares(
    drawn: tuple[list[Project], dict[str, Milli], Milli, float, Usage], steps: list[tuple[int, Milli, int]]
) -> None:
    projects, demands, total, *_ = drawn
    tree, leaves = build_tree(projects), sorted(demands)
    changed = ChangedProjects(tree.values())
    for project in tree.values():
        project.changed = changed
    kept = FairShares([a for a in tree.values() if a.parent is None], changed)
    for name, demand in demands.items():
        tree[ProjectName(name)].ask(demand)
    for number, demand, gpus in [(0, demands[leaves[0]], total // ONE), *steps]:
        leaf, before = leaves[number % len(leaves)], {name: project.share for name, project in tree.items()}
        tree[ProjectName(leaf)].ask(demand - demands[leaf])
        demands[leaf] = demand
        changed.sums.clear()
        kept.share_out(gpus * ONE)
        assert {name: project.share for name, project in tree.items()} == shares_of(projects, demands, gpus * ONE)
        assert changed.sums == {project for name, project in tree.items() if project.share != before[name]}


@settings(max_examples=300, deadline=None)
@given(trees())
def test_guarantees_are_met_and_all_capacity_is_shared_out(
    drawn: tuple[list[Project], dict[str, Milli], Milli, float, Usage],
) -> None:
    projects, demands, total, k, usage = drawn
    tree = build_tree(projects)
    for name, part in usage.items():
        tree[ProjectName(name)].usage = part
    for name, demand in demands.items():
        for step in tree[ProjectName(name)].path:
            step.demand += demand
    tops = [a for a in tree.values() if a.parent is None]
    share_out(tops, total, k)
    for project in tree.values():
        assert min(project.guarantee, project.wanted) <= project.share <= project.wanted
    given_out = sum(a.share for a in tops)
    able = [a for a in tops if a.share < a.wanted and (a.weight or k)]
    assert given_out <= max(total, sum(min(a.guarantee, a.wanted) for a in tops))
    if able and not k:
        assert total - given_out < ONE


PROJECTS = {
    "by weight": (
        [Project(ProjectName("a"), weight=3000), Project(ProjectName("b"), weight=1000)],
        {"a": 20_000, "b": 20_000},
        {"a": 6000, "b": 2000},
    ),
    "what one does not want goes to the others": (
        [Project(ProjectName("a"), weight=3000), Project(ProjectName("b"), weight=1000)],
        {"a": 2000, "b": 20_000},
        {"a": 2000, "b": 6000},
    ),
    "guarantees first, and never scaled down": (
        [Project(ProjectName("a"), guaranteed=6000), Project(ProjectName("b"), guaranteed=6000)],
        {"a": 9000, "b": 9000},
        {"a": 6000, "b": 6000},
    ),
    "a guarantee that is not wanted is surplus": (
        [Project(ProjectName("a"), guaranteed=6000), Project(ProjectName("b"), guaranteed=2000)],
        {"a": 1000, "b": 9000},
        {"a": 1000, "b": 7000},
    ),
    "the higher priority has the surplus first": (
        [Project(ProjectName("a"), priority=1), Project(ProjectName("b"), weight=9000)],
        {"a": 5000, "b": 9000},
        {"a": 5000, "b": 3000},
    ),
    "weight 0 has no surplus": (
        [Project(ProjectName("a"), guaranteed=1000, weight=0), Project(ProjectName("b"))],
        {"a": 9000, "b": 3000},
        {"a": 1000, "b": 3000},
    ),
    "the older has the GPU that is left over": (
        [
            Project(ProjectName("a"), created=2.0),
            Project(ProjectName("b"), created=1.0),
            Project(ProjectName("c"), created=3.0),
        ],
        {"a": 9000, "b": 9000, "c": 9000},
        {"a": 3000, "b": 3000, "c": 2000},
    ),
    "a limit bounds a whole branch": (
        [
            Project(ProjectName("r"), limit=3000),
            Project(ProjectName("a"), parent=ProjectName("r")),
            Project(ProjectName("b"), parent=ProjectName("r")),
            Project(ProjectName("c")),
        ],
        {"a": 9000, "b": 9000, "c": 9000},
        {"r": 3000, "a": 2000, "b": 1000, "c": 5000},
    ),
    "without bound means all that is wanted": (
        [Project(ProjectName("a"), guaranteed=None), Project(ProjectName("b"))],
        {"a": 7000, "b": 9000},
        {"a": 7000, "b": 1000},
    ),
}


@pytest.mark.parametrize("case", PROJECTS)
def test_fair_share_examples(case: str) -> None:
    projects, demands, expected = PROJECTS[case]
    assert shares_of(projects, demands, 8000) == expected


def test_recent_use_lowers_the_surplus_but_never_the_guarantee() -> None:
    projects = [Project(ProjectName("a")), Project(ProjectName("b"), guaranteed=1000, weight=1000)]
    demands = {"a": 20_000, "b": 20_000}
    assert shares_of(projects, demands, 9000) == {"a": 4000, "b": 5000}
    assert shares_of(projects, demands, 9000, time_aware=1.0, usage={"a": 0.9, "b": 0.1}) == {
        "a": 1000,
        "b": 8000,
    }


def test_the_due_of_a_project_without_a_guarantee_is_its_limit() -> None:
    project = ProjectState(Project(ProjectName("a"), guaranteed=None, limit=4000), None)
    assert project.due == 4000
