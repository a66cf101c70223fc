"""When jobs will start: the policy played forward over declared run times."""

from __future__ import annotations

from scheduler.policy import forecast
from scheduler.scenario import read


def starts(text: str) -> dict[str, float]:
    (snapshot,) = read(text)
    return dict(forecast(snapshot))


def test_one_after_the_other() -> None:
    assert starts("""
        nodes: [{name: n0, gpus: 1}]
        projects: [{name: a}]
        jobs:
          - {name: r, project: a, state: running, started: -40, expected_runtime: 100, placement: [{node: n0}]}
          - {name: second, project: a, submitted: -5, expected_runtime: 100}
          - {name: first, project: a, submitted: -9, expected_runtime: 30}
          - {name: last, project: a}
    """) == {"first": 60.0, "second": 90.0, "last": 190.0}


def test_nobody_knows_when_a_job_without_a_run_time_ends() -> None:
    assert starts("""
        nodes: [{name: n0, gpus: 2}]
        projects: [{name: a}]
        jobs:
          - {name: r, project: a, state: running, started: -40, placement: [{node: n0, gpus: [0]}]}
          - {name: s, project: a, state: running, started: -40, expected_runtime: 50, placement: [{node: n0, gpus: [1]}]}
          - {name: one, project: a, submitted: -9, expected_runtime: 5}
          - {name: both, project: a, gpus: 2, priority: 10}
    """) == {"one": 10.0}


def test_a_reclaim_starts_at_once_and_its_victim_when_there_is_room_again() -> None:
    assert starts("""
        nodes: [{name: n0, gpus: 1}]
        projects: [{name: over}, {name: due, guaranteed: 1}]
        jobs:
          - {name: v, project: over, state: running, started: -40, expected_runtime: 100, placement: [{node: n0}]}
          - {name: j, project: due, expected_runtime: 20}
    """) == {"j": 0.0, "v": 20.0}
