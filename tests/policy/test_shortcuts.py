"""What a search remembers or puts off saves time and changes nothing: plans are those of a search that does neither."""

from __future__ import annotations

from collections.abc import Iterator
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
from scheduler.policy.candidates import Candidates, Ranked
from scheduler.policy.consolidation import Consolidation, Moving, Way
from scheduler.policy.demands import Demand
from scheduler.policy.eligibility import Eviction, Floor
from scheduler.policy.nodes import NodeState
from scheduler.policy.nodetrial import NodeTrial
from scheduler.policy.victims import SearchState
from tests.benchmarks.policy import nodes
from tests.policy.pools import NOW, busy, snapshots

many = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


@many
@given(st.one_of(busy(), snapshots()))
def test_in_any_pool(snapshot: Snapshot) -> None:
    assert fast(snapshot) == slow(snapshot)


@settings(many, max_examples=30)
@given(st.integers(0, 2**32))
def test_in_a_full_pool(seed: int) -> None:
    """One-GPU jobs run anywhere, and gangs that need whole nodes wait."""
    snapshot = crowded(Random(seed))
    assert fast(snapshot) == slow(snapshot)


def fast(snapshot: Snapshot) -> object:
    plan = decide(snapshot)
    return dict(plan.decisions), plan.projects, plan.again_at


def slow(snapshot: Snapshot) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SearchState, "begin", begin_at_once)
        patch.setattr(Consolidation, "ways_of", find_anew)
        patch.setattr(Candidates, "by_loss", rank_anew)
        return fast(snapshot)


def begin_at_once(search: SearchState, node: NodeState, eviction: Eviction, floor: Floor) -> NodeTrial:
    trial = search.trials[node.index] = NodeTrial(node)
    return trial


def find_anew(moves: Consolidation, rules: Moving, node: NodeState, demand: Demand, together: int) -> list[Way]:
    moves.ways.clear()
    return find_ways(moves, rules, node, demand, together)


def rank_anew(candidates: Candidates, priority: int, now: float) -> Iterator[Ranked]:
    candidates.ranked.clear()
    return by_loss(candidates, priority, now)


find_ways, by_loss = Consolidation.ways_of, Candidates.by_loss


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
