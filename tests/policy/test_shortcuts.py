"""Caching and pruning do not change plans: they equal those of a search without either."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.model import (
    JobId,
    NodeName,
    Pool,
    Project,
    ProjectName,
    Request,
    Settings,
    Shape,
    WorkerPlacement,
    Workload,
)
from scheduler.policy import Snapshot, decide
from scheduler.policy.clearing import SearchState
from scheduler.policy.consolidation import Consolidation, Moving, Way
from scheduler.policy.demands import Demand
from scheduler.policy.evictions import VictimClass
from scheduler.policy.nodes import NodeState
from scheduler.policy.sets import NodeSet
from tests.benchmarks.policy import nodes
from tests.policy.pools import NOW, busy, snapshots

many = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


@many
@given(st.one_of(busy(), snapshots()))
def test_shortcuts_change_no_decision_in_any_pool(snapshot: Snapshot) -> None:
    assert fast(snapshot) == slow(snapshot)


@settings(many, max_examples=30)
@given(st.integers(0, 2**32))
def test_shortcuts_change_no_decision_in_a_full_pool(seed: int) -> None:
    """One-GPU jobs run anywhere, and gangs that need whole nodes wait."""
    snapshot = crowded(Random(seed))
    assert fast(snapshot) == slow(snapshot)


def fast(snapshot: Snapshot) -> object:
    plan = decide(snapshot)
    return dict(plan.decisions), plan.projects, plan.again_at


def slow(snapshot: Snapshot) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SearchState, "may_seat", lambda search, count, classes: True)
        patch.setattr(SearchState, "may_be_cleared", look_everywhere)
        patch.setattr(SearchState, "lacking", lambda search, index: 0)
        patch.setattr(SearchState, "take_alone", lambda search, eviction, floor, count: False)
        patch.setattr(Consolidation, "ways_of", find_anew)
        return fast(snapshot)


def look_everywhere(search: SearchState, members: VictimClass) -> NodeSet:
    return search.mask


def find_anew(moves: Consolidation, rules: Moving, found: list[NodeState], demand: Demand, together: int) -> list[Way]:
    moves.ways.clear()
    moves.latest.clear()
    return find_ways(moves, rules, found, demand, together)


find_ways = Consolidation.ways_of


def crowded(draw: Random) -> Snapshot:
    projects = [Project(ProjectName(f"p{n}"), guaranteed=draw.choice([0, 4000, 8000, 16_000])) for n in range(4)]
    places = draw.sample([(n, gpu) for n in range(6) for gpu in range(8)], draw.randrange(24, 48))
    work = []
    for number, (node, gpu) in enumerate(places):
        request = Request(ProjectName(f"p{draw.randrange(4)}"), priority=draw.choice([10, 50]))
        place = WorkerPlacement(NodeName(f"n{node:05}"), (gpu,))
        started = NOW - draw.randrange(60, 7200)
        work.append(
            Workload(JobId(f"r{number}"), request, NOW - 7200, running=True, started=started, placement=(place,))
        )
    for number in range(12):
        shape, workers = Shape(1000 * draw.choice([1, 2, 4, 8])), draw.choice([1, 1, 2, 4])
        asked = Request(
            ProjectName(f"p{draw.randrange(4)}"),
            shape=shape,
            workers=workers,
            min_workers=workers,
            priority=draw.choice([10, 50, 90]),
        )
        work.append(Workload(JobId(f"j{number}"), asked, NOW - 100 + number))
    return Snapshot(NOW, Pool(projects=tuple(projects), settings=Settings()), nodes(6), tuple(work))
