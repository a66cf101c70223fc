"""What if: recorded jobs on the pool as it is, and on a changed one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.cli.whatif import what_if
from scheduler.errors import Invalid
from scheduler.model import (
    TRAIN_POOL,
    Attempt,
    Environment,
    Job,
    JobId,
    JobKind,
    JobState,
    Node,
    NodeName,
    NodePool,
    Pool,
    Program,
    Project,
    ProjectName,
    Request,
    Shape,
    UserName,
    WorkerPlacement,
)
from scheduler.policy import Snapshot
from scheduler.scenario.record import Record, record_of
from scheduler.schema.reading import validate

START = 1_772_323_200.0
HOUR = 3600.0
NODE = Node(NodeName("n1"), gpus=4)
POOL = Pool(
    node_pools=(NodePool(TRAIN_POOL, Environment.TRAIN),),
    projects=(Project(ProjectName("a")), Project(ProjectName("b"))),
)


def job(id: str, submitted: float, *spans: tuple[float, float | None], gpus: int = 4, project: str = "a") -> Job:
    """A job that held its GPUs in these spans; times are hours after the start."""
    request = Request(project=ProjectName(project), user=UserName("ann"), shape=Shape(gpus=gpus * 1000))
    placement = (WorkerPlacement(NODE.name, tuple(range(gpus)), 1000),)
    attempts = tuple(
        Attempt(n, placement, START + begin * HOUR, ended=None if end is None else START + end * HOUR)
        for n, (begin, end) in enumerate(spans)
    )
    ended = attempts[-1].ended if attempts else START + submitted * HOUR
    state = JobState.RUNNING if ended is None else JobState.SUCCEEDED
    return Job(
        JobId(id),
        id,
        request,
        Program(JobKind.COMMAND, ("train",)),
        START + submitted * HOUR,
        state,
        attempts=attempts,
        ended=ended,
    )


def record(*jobs: Job, pool: Pool = POOL, since: float = 0, until: float = 24) -> Record:
    snapshot = Snapshot(START + 24 * HOUR, pool, (NODE,), ())
    found = record_of(snapshot, pool, jobs, START + since * HOUR, START + until * HOUR)
    return validate(Record, found)


def waits(side: dict[str, Any]) -> list[float]:
    return [round(side["total"][name] / HOUR, 2) for name in ("mean_wait", "median_wait", "p95_wait")]


def test_more_gpus_end_the_wait() -> None:
    """Two jobs of the whole pool: one waits for the other, and with twice the GPUs neither does."""
    found = what_if(record(job("x", 0, (0, 2)), job("y", 1, (2, 3))), gpus=4)
    assert waits(found["recorded"]) == waits(found["unchanged"]) == [0.5, 0, 1]
    assert waits(found["changed"]) == [0, 0, 0]
    assert [found[side]["gpus"] for side in ("recorded", "unchanged", "changed")] == [4, 4, 8]
    assert found["changed"]["use"] == pytest.approx(found["unchanged"]["use"] / 2)
    assert found["unchanged"]["use"] == pytest.approx(3 / 24)


def test_added_gpus_are_those_of_whole_nodes_and_a_smaller_one() -> None:
    """A job of two workers with four GPUs each needs a whole node more."""
    wide = replace(job("x", 0, (0, 1)), request=replace(job("x", 0).request, workers=2, min_workers=2))
    assert what_if(record(wide), gpus=3)["changed"]["never_started"] == 1
    assert what_if(record(wide), gpus=6)["changed"]["gpus"] == 10
    assert what_if(record(wide), gpus=6)["changed"]["never_started"] == 0
    assert what_if(record(wide), gpus=6)["unchanged"]["total"] is None


def test_a_guarantee_is_reclaimed() -> None:
    """A job over quota is stopped for the project that would be guaranteed the GPUs."""
    found = what_if(
        record(job("x", 0, (0, 8)), job("y", 1, (8, 9), project="b")),
        guaranteed={"b": 4},
    )
    assert found["unchanged"]["by_project"]["b"]["mean_wait"] == pytest.approx(7 * HOUR, abs=5)
    assert found["changed"]["by_project"]["b"]["mean_wait"] < 60
    assert found["changed"]["by_project"]["a"]["stops"] == 1


def test_jobs_from_before_fill_the_pool_and_are_not_compared() -> None:
    found = what_if(record(job("x", 0, (0, 4)), job("y", 2, (4, 5)), since=1))
    assert found["unchanged"]["total"]["jobs"] == 1
    assert waits(found["unchanged"]) == [2, 2, 2]


def test_what_cannot_be_simulated_is_counted() -> None:
    found = what_if(
        record(job("x", 0, (0, None)), job("y", 1), job("z", 2, (2, 3), project="old")),
    )
    assert (found["unfinished"], found["never_ran"], found["gone"]) == (1, 1, 1)
    assert found["recorded"]["total"]["mean_completion"] == 24 * HOUR
    with pytest.raises(Invalid, match="give a longer one"):
        what_if(record(job("y", 1)))


def test_the_work_of_an_interrupted_job_is_all_that_it_held() -> None:
    found = what_if(record(job("x", 0, (0, 1), (3, 5))))
    assert waits(found["recorded"]) == [2, 2, 2]
    assert found["recorded"]["total"]["stops"] == 1
    assert found["unchanged"]["total"]["mean_completion"] == pytest.approx(3 * HOUR, abs=5)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"guaranteed": {"c": 1}}, "There is no project “c” in the pool."),
        ({"gpus": 20_000}, "the most are 10,000"),
    ],
)
def test_an_impossible_change_is_refused(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Invalid, match=sentence):
        what_if(record(job("x", 0, (0, 1))), **change)
