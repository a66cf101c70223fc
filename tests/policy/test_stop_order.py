"""The displayed stop order equals the order of the search for victims."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.model import (
    JobId,
    Node,
    NodeName,
    Pool,
    Project,
    ProjectName,
    Request,
    Settings,
    Shape,
    SurplusOrder,
    WorkerPlacement,
    Workload,
)
from scheduler.policy import Action, Snapshot, SnapshotPlanner, decide
from scheduler.policy.play import carry_out
from tests.policy.pools import NOW


def running(id: str, gpu: int, gpus: int = 1, project: str = "greedy", age: float = 600.0, **more: object) -> Workload:
    request = {key: value for key, value in more.items() if key != "saved"}
    saved = more.get("saved")
    return Workload(
        JobId(id),
        Request(project, shape=Shape(1000 * gpus), **request),  # type: ignore[arg-type]
        NOW - age,
        running=True,
        started=NOW - age,
        checkpointed=None if saved is None else NOW - float(str(saved)),
        placement=(WorkerPlacement(NodeName("n0"), tuple(range(gpu, gpu + gpus))),),
    )


def pool(*workloads: Workload, guaranteed: int = 1, gpus: int = 8) -> Snapshot:
    projects = (
        Project(ProjectName("greedy"), guaranteed=1000 * guaranteed),
        Project(ProjectName("owner"), guaranteed=8000),
    )
    return Snapshot(NOW, Pool(projects=projects), (Node(NodeName("n0"), gpus),), workloads)


def test_the_job_that_loses_least_work_is_over_quota_and_not_the_youngest() -> None:
    snapshot = pool(running("old", 0, age=900, saved=10), running("young", 1, age=60))
    assert decide(snapshot).stop_order.over_quota == {"old"}
    assert decide(snapshot).stop_order.positions == {"old": 1, "young": 2}


def test_lower_priority_comes_before_less_work() -> None:
    snapshot = pool(running("low", 0, age=900, priority=10), running("high", 1, age=60, priority=90))
    assert decide(snapshot).stop_order.over_quota == {"low"}


def test_non_preemptible_and_protected_jobs_come_last() -> None:
    snapshot = pool(
        running("firm", 0, age=10, preemptible=False),
        running("protected", 1, age=20, min_runtime=3600.0),
        running("old", 2, age=900),
        guaranteed=2,
    )
    assert decide(snapshot).stop_order.over_quota == {"old"}
    assert decide(snapshot).stop_order.positions == {"old": 1, "protected": 2, "firm": 3}


def test_a_job_that_would_take_its_project_below_its_guarantee_is_spared_while_another_is_left() -> None:
    large, small = running("large", 0, gpus=2, age=10), running("small", 2, age=900)
    assert decide(pool(large, small, guaranteed=2)).stop_order.over_quota == {"small"}
    assert decide(pool(large, guaranteed=1)).stop_order.over_quota == {"large"}


def test_an_elastic_job_that_would_shrink_is_over_quota() -> None:
    elastic = running("elastic", 0, age=900, workers=2, min_workers=1)
    elastic = replace(elastic, placement=(*elastic.placement, WorkerPlacement(NodeName("n0"), (1,))))
    snapshot = pool(elastic, running("whole", 2, age=10), guaranteed=2)
    assert decide(snapshot).stop_order.over_quota == {"elastic"}


def test_jobs_that_a_plan_starts_count_and_those_that_it_stops_do_not() -> None:
    first, waiting = (
        running("first", 0),
        Workload(JobId("second"), Request(ProjectName("greedy"), shape=Shape(1000)), NOW),
    )
    assert decide(pool(first, waiting)).stop_order.over_quota == {"second"}
    owner = Workload(JobId("owner"), Request(ProjectName("owner"), shape=Shape(1000)), NOW)
    assert decide(pool(first, running("other", 1, age=10), owner, gpus=2)).stop_order.over_quota == frozenset()


def test_a_later_plan_does_not_change_the_stop_order_of_an_earlier_one() -> None:
    follow = SnapshotPlanner()
    snapshot = pool(running("one", 0, age=10), running("two", 1, age=900))
    plan = follow(snapshot)
    follow(replace(snapshot, workloads=snapshot.workloads[1:]))
    assert plan.stop_order.over_quota == {"one"}


@pytest.mark.parametrize("count", [1, 2, 3])
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_search_for_victims_takes_them_in_this_order(count: int, data: st.DataObject) -> None:
    """Of single-GPU jobs; whether the owner of the guarantee asks for one GPU or for some."""
    jobs = tuple(
        running(
            f"j{n}",
            n,
            age=data.draw(st.integers(1, 900)),
            priority=data.draw(st.sampled_from([10, 50])),
            preemptible=data.draw(st.integers(0, 4)) > 0,
            min_runtime=data.draw(st.sampled_from([0.0, 0.0, 600.0])),
            saved=data.draw(st.sampled_from([None, 0, 5, 300])),
        )
        for n in range(8)
    )
    snapshot = pool(*jobs)
    surplus = Settings(surplus=data.draw(st.sampled_from(SurplusOrder)), service_levels=(0.02, 0.1))
    snapshot = replace(snapshot, pool=replace(snapshot.pool, settings=surplus))
    order = decide(snapshot).stop_order
    newcomers = tuple(
        Workload(JobId(f"w{n}"), Request(ProjectName("owner"), shape=Shape(1000)), NOW) for n in range(count)
    )
    crowded = replace(snapshot, workloads=(*jobs, *newcomers))
    plan = decide(crowded)
    stopped = {id for id, decision in plan.changes.items() if decision.action is Action.STOP}
    assert {order.positions[id] for id in stopped} == set(range(1, len(stopped) + 1))
    assert stopped <= order.over_quota
    assert held(carry_out(crowded, plan)) == 8 - len(stopped)


def held(snapshot: Snapshot) -> int:
    return sum(w.running and w.request.project == "greedy" for w in snapshot.workloads)
