"""Recent use: a project's average decays exactly, whenever it is updated, and across restarts."""

from __future__ import annotations

import math
import random
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.controller import usage
from scheduler.model import (
    BUILD_POOL,
    TRAIN_POOL,
    Environment,
    JobState,
    Node,
    NodeName,
    NodePool,
    Pool,
    Project,
    ProjectName,
    ProjectUsage,
    Settings,
)
from tests.controller.stage import POOL, World, begin, make_job

HALF_LIFE = 100.0

Attempts = list[tuple[int, float, float]]
"""Thousandths of a GPU, start, duration in seconds."""

attempts = st.lists(st.tuples(st.sampled_from([250, 1000, 8000]), st.floats(0, 1000), st.floats(0, 1000)), max_size=8)


def integral(found: Attempts, now: float) -> float:
    """The average at an instant after all attempts, as a sum over them."""
    return math.fsum(
        gpus * (2 ** (-(now - begun - lasted) / HALF_LIFE) - 2 ** (-(now - begun) / HALF_LIFE))
        for gpus, begun, lasted in found
    )


@given(attempts, st.randoms(use_true_random=False), st.lists(st.floats(0, 2000), max_size=5))
def test_it_fades_exactly_in_whatever_order_starts_and_ends_are_heard_of(
    found: Attempts, order: random.Random, looks: list[float]
) -> None:
    steps = [(gpus, begun) for gpus, begun, _ in found]
    steps += [(-gpus, begun + lasted) for gpus, begun, lasted in found]
    steps += [(0, at) for at in looks]
    order.shuffle(steps)
    used = ProjectUsage(ProjectName("vision"))
    for more, since in steps:
        used = used.hold(more, since, HALF_LIFE)
    assert used.held == 0
    assert used.average_at(2000, HALF_LIFE) == pytest.approx(integral(found, 2000), abs=1e-6)


@given(st.floats(0, 1e9), st.sampled_from([1.0, 3600.0, 604_800.0]))
def test_after_one_half_life_half_of_it_is_left(begun: float, half_life: float) -> None:
    held = ProjectUsage(ProjectName("vision")).hold(4000, begun, half_life)
    later = begun + half_life
    assert held.average_at(later, half_life) == pytest.approx(2000)
    ended = held.hold(-4000, later, half_life)
    assert ended.average_at(later + 3 * half_life, half_life) == pytest.approx(250)


def test_a_departments_usage_is_the_sum_of_its_projects() -> None:
    pool = Pool(
        projects=(
            Project(ProjectName("research")),
            Project(ProjectName("nlp"), ProjectName("research")),
            Project(ProjectName("vision"), ProjectName("research")),
        ),
        settings=Settings(time_aware=1.0, usage_half_life=HALF_LIFE),
    )
    used = {
        name: ProjectUsage(name, average=gpus)
        for name, gpus in {ProjectName("nlp"): 1000.0, ProjectName("vision"): 3000.0}.items()
    }
    nodes = (
        Node(NodeName("a"), 8),
        Node(NodeName("b"), 8, schedulable=False),
        Node(NodeName("c"), 8, node_pool=BUILD_POOL),
    )
    assert usage.averages(used, pool, 0.0) == {"research": 4000, "nlp": 1000, "vision": 3000}
    assert usage.shares(used, pool, nodes, HALF_LIFE) == {"research": 0.25, "nlp": 0.0625, "vision": 0.1875}
    assert usage.shares(used, pool, (), 0.0) == {}
    assert usage.shares(used, replace(pool, settings=Settings()), nodes, 0.0) == {}
    only_build = replace(pool, node_pools=(NodePool(TRAIN_POOL, Environment.BUILD),))
    assert usage.shares(used, only_build, nodes, 0.0) == {}


async def test_another_half_life_counts_from_when_it_is_set(tmp_path: Path, world: World) -> None:
    now = [1000.0]
    bench = await begin(tmp_path, world, clock=lambda: now[0])
    await bench.controller.apply(replace(POOL, settings=Settings(usage_half_life=100)))
    job = await bench.controller.submit(replace(make_job(gpus=4), submitted=1000.0))
    await bench.reaches(job, JobState.RUNNING)
    now[0] = 1100.0
    await bench.controller.apply(replace(POOL, settings=Settings(usage_half_life=50)))
    book = bench.controller.book
    assert usage.averages(book.usage, book.pool, 1100.0)[ProjectName("default")] == pytest.approx(2000)
    assert usage.averages(book.usage, book.pool, 1150.0)[ProjectName("default")] == pytest.approx(3000)
    await bench.crash()


async def test_jobs_started_by_a_version_without_usage_count_from_their_start(tmp_path: Path, world: World) -> None:
    now = [1000.0]
    bench = await begin(tmp_path, world, clock=lambda: now[0])
    await bench.controller.apply(replace(POOL, settings=Settings(usage_half_life=100)))
    await bench.reaches(await bench.controller.submit(make_job(gpus=4)), JobState.RUNNING)
    before = bench.controller.book.usage
    await bench.crash()
    with sqlite3.connect(tmp_path / "runai.sqlite") as connection:
        connection.execute("DELETE FROM project_usage")
    connection.close()
    now[0] = 1100.0
    bench = await begin(tmp_path, world, clock=lambda: now[0])
    assert bench.controller.book.usage == before
    await bench.crash()
