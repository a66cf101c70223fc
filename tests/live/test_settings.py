"""Each key of `settings` in the pool file takes effect through the running service."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from scheduler.model import BUILD_POOL, Node, NodeName
from tests.engines import scripted
from tests.live.conftest import Live, Open

TRAIN = [{"name": "train", "environment": "train"}]
TWO_PROJECTS = [{"name": "a", "members": ["*"]}, {"name": "b", "members": ["*"]}]


async def with_settings(
    open_pool: Open,
    gpus: int,
    *,
    guaranteed: float = 0,
    clock: Callable[[], float] = time.time,
    **settings: Any,
) -> Live:
    """One node, and projects a and b; `guaranteed` is b's."""
    a, b = TWO_PROJECTS
    projects = [a, {**b, "guaranteed": guaranteed}]
    return await open_pool(
        Node(NodeName("n1"), gpus=gpus), clock=clock, node_pools=TRAIN, projects=projects, settings=settings
    )


@pytest.mark.parametrize(
    ("settings", "next_one"),
    [
        ({"time_aware": 0, "usage_half_life": 1e6}, "a"),
        ({"time_aware": 1, "usage_half_life": 1e6}, "b"),
        ({"time_aware": 1, "usage_half_life": 10}, "a"),
    ],
)
async def test_with_time_aware_recent_users_come_later(
    open_pool: Open, settings: dict[str, Any], next_one: str
) -> None:
    """Project a had the only GPU for 100 s, then b for 50 s. If recent use counts, the one that used more comes later;
    with a short half-life, only the last use counts."""
    later = [0.0]

    def now() -> float:
        return time.time() + later[0]

    live = await with_settings(open_pool, 1, clock=now, preemption_delay=3600, **settings)
    for project, seconds in (("a", 100), ("b", 50)):
        job = await live.submit(project=project)
        assert await live.runs(job) == [job]
        later[0] += seconds
        if project == "b":
            waiting = {name: await live.submit(project=name) for name in ("a", "b")}
        live.end(job, at=now())
        await live.bench.settled()
    assert await live.runs(*waiting.values()) == [waiting[next_one]]


@pytest.mark.parametrize(("reclaim", "runs"), [("fair_share", [2, 2]), ("guarantee", [4, 0])])
async def test_reclaim_up_to_the_fair_share_or_the_guarantee(open_pool: Open, reclaim: str, runs: list[int]) -> None:
    live = await with_settings(open_pool, 4, reclaim=reclaim)
    over = await live.submit_all(*[{"project": "a"}] * 4)
    assert await live.runs(*over) == over
    due = await live.submit_all(*[{"project": "b"}] * 2)
    await live.bench.settled()
    assert [len(await live.runs(*jobs)) for jobs in (over, due)] == runs


@pytest.mark.parametrize(("preemption_delay", "runs"), [(0, ["b"]), (3600, ["a"])])
async def test_a_preemption_delay_gives_others_time(open_pool: Open, preemption_delay: float, runs: list[str]) -> None:
    live = await with_settings(open_pool, 1, guaranteed=1, preemption_delay=preemption_delay)
    jobs = {name: await live.submit(project=name) for name in ("a",)}
    assert await live.runs(*jobs.values()) == [jobs["a"]]
    jobs["b"] = await live.submit(project="b")
    assert await live.runs(*jobs.values()) == [jobs[name] for name in runs]


@pytest.mark.parametrize(("reservations", "starts"), [(1, False), (0, True)])
async def test_reservations_keep_small_jobs_from_starving_a_gang(
    open_pool: Open, reservations: int, starts: bool
) -> None:
    """A gang waits for the whole node. A small job that would run longer starts before it only without reservations."""
    live = await with_settings(open_pool, 4, guaranteed=8, reservations=reservations)
    running = await live.submit(project="b", gpus=3, expected_runtime=60, preemptible=False)
    assert await live.runs(running) == [running]
    gang = await live.submit(project="b", gpus=4, preemptible=False)
    small = await live.submit(project="b", gpus=1, expected_runtime=6000, preemptible=False)
    assert await live.runs(gang, small) == ([small] if starts else [])


@pytest.mark.parametrize(("lending", "where"), [(True, ["desk"]), (False, [])])
async def test_lending_gives_idle_build_gpus_to_preemptible_jobs(
    open_pool: Open, lending: bool, where: list[str]
) -> None:
    live = await open_pool(
        Node(NodeName("desk"), gpus=1, node_pool=BUILD_POOL),
        Node(NodeName("n1"), gpus=1),
        settings={"lending": lending},
    )
    first, second = await live.submit_all({}, {})
    assert await live.nodes_of(first) == ["n1"]
    assert await live.nodes_of(second) == where
    pool = await live.get("pool")
    assert [pool[environment]["free"] for environment in ("build", "train")] == [0 if lending else 1, 0]
    if lending:
        lease = await live.service.http["owner"].post("sessions", json={"user": "ann"})
        assert lease.json()["workers"][0]["node"] == "desk"
        assert await live.runs(first, second) == [first]


@pytest.mark.parametrize(("resize_interval", "workers"), [(0, 2), (300, 1)])
async def test_an_elastic_job_grows_after_its_resize_interval(
    open_pool: Open, resize_interval: float, workers: int
) -> None:
    live = await with_settings(open_pool, 2, resize_interval=resize_interval)
    other = await live.submit(project="a", priority=90)
    elastic = await live.submit(project="a", workers=2, min_workers=1)
    assert len(await live.nodes_of(elastic)) == 1
    live.bench.files.world.saved[elastic] = time.time()
    live.end(other)
    assert len(await live.nodes_of(elastic)) == workers


@pytest.mark.parametrize(
    ("settings", "own", "next_one"),
    [
        ({"order": "arrival"}, None, "owner"),
        ({"order": "served"}, None, "mate"),
        ({"order": "arrival"}, "served", "mate"),
        ({"order": "served"}, "arrival", "owner"),
    ],
)
async def test_in_the_order_served_the_lightest_user_is_next(
    open_pool: Open, settings: dict[str, Any], own: str | None, next_one: str
) -> None:
    """Ann has both GPUs, and she and then Ben wait for the next one. The project's order overrides the settings."""
    projects = [{"name": "a", "members": ["*"], "order": own}]
    live = await open_pool(Node(NodeName("n1"), gpus=2), node_pools=TRAIN, projects=projects, settings=settings)
    first, second = await live.submit_all({"project": "a"}, {"project": "a"})
    assert await live.runs(first, second) == [first, second]
    waiting = {caller: await live.submit(caller, project="a") for caller in ("owner", "mate")}
    live.end(second)
    assert await live.runs(*waiting.values()) == [waiting[next_one]]
    assert (await live.get("projects/a"))["order"] == own


@pytest.mark.parametrize(
    ("settings", "next_one"),
    [
        ({"service_levels": [0.02]}, "new"),
        ({"service_levels": [1]}, "old"),
        ({"service_levels": [0.02], "patience": 0}, "old"),
    ],
)
async def test_in_the_order_served_the_least_served_job_is_next(
    open_pool: Open, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], next_one: str
) -> None:
    """The old job ran for 100 s on one GPU before it was stopped for one of higher priority."""
    later = [0.0]

    def now() -> float:
        return time.time() + later[0]

    monkeypatch.setattr(scripted, "time", SimpleNamespace(time=now))  # the nodes' clocks, too
    live = await with_settings(open_pool, 1, clock=now, order="served", **settings)
    jobs = {"old": await live.submit(project="a")}
    assert await live.runs(jobs["old"]) == [jobs["old"]]
    later[0] += 100
    urgent = await live.submit(project="a", priority=90)
    assert await live.runs(urgent) == [urgent]
    later[0] += 1
    jobs["new"] = await live.submit(project="a")
    live.end(urgent, at=now())
    assert await live.runs(*jobs.values()) == [jobs[next_one]]
