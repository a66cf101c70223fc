"""Rules that are easily broken: small pools by example, and random ones compared with brute force."""

from __future__ import annotations

import json
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model import JobId
from scheduler.policy import Action, Plan, decide
from scheduler.policy.play import carry_out
from scheduler.scenario import read
from tests.policy.rules import RULES

CASES = {
    case["name"]: case
    for case in map(json.loads, Path(__file__).with_name("promises.jsonl").read_text("utf-8").splitlines())
}

Scenario = dict[str, Any]


def played(scenario: Scenario, cycles: int = 8) -> dict[str, int]:
    """The number of running workers by job after some cycles."""
    (snapshot,) = read(json.dumps(scenario))
    for _ in range(cycles):
        snapshot = carry_out(snapshot, decide(snapshot))
    return {workload.id: len(workload.placement) for workload in snapshot.workloads}


def planned(scenario: Scenario) -> Plan:
    (snapshot,) = read(json.dumps(scenario))
    return decide(snapshot)


def stopped(plan: Plan) -> set[str]:
    return {job for job, decision in plan.changes.items() if decision.action is Action.STOP}


def runs(name: str, project: str, gpus: int, age: int, node: str = "n0", **more: Any) -> dict[str, Any]:
    """A running job of one worker, or of the given number on the node."""
    standing = more.pop("standing", 1)
    job = {"name": name, "project": project, "gpus": gpus, "workers": 1, "state": "running", "started": -age}
    return {**job, "placement": [{"node": node}] * standing, **more}


def waits(name: str, project: str, gpus: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "project": project, "gpus": gpus, "workers": 1, "submitted": -10, **more}


@pytest.mark.parametrize("name", CASES)
def test_the_rule_holds(name: str) -> None:
    case = CASES[name]
    workers = played(case["scenario"])
    assert {job: workers[job] for job in case["workers"]} == case["workers"], case["rule"]


# -- consolidation ----------------------------------------------------------------------------------------------------


def room_by_moving(free: dict[str, int], standing: list[tuple[str, int]], asked: int) -> bool:
    """Whether moving jobs off one node, to free GPUs elsewhere, frees `asked` GPUs there."""
    for node in free:
        here = [gpus for where, gpus in standing if where == node]
        for count in range(len(here) + 1):
            for movers in combinations(here, count):
                if free[node] + sum(movers) >= asked and any(
                    packs(order, {name: left for name, left in free.items() if name != node})
                    for order in permutations(movers)
                ):
                    return True
    return False


def packs(jobs: tuple[int, ...], free: dict[str, int]) -> bool:
    if not jobs:
        return True
    first, *others = jobs
    return any(packs(tuple(others), {**free, node: left - first}) for node, left in free.items() if left >= first)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_job_that_fits_after_consolidation_does_not_wait(data: st.DataObject) -> None:
    """The project is above its due: nobody loses a place by moving, so that does not matter."""
    free = {f"n{i}": data.draw(st.integers(2, 4)) for i in range(data.draw(st.integers(2, 3)))}
    nodes = [{"name": name, "gpus": gpus} for name, gpus in free.items()]
    standing: list[tuple[str, int]] = []
    jobs = []
    for number in range(data.draw(st.integers(1, 5))):
        node, gpus = data.draw(st.sampled_from(sorted(free))), data.draw(st.integers(1, 2))
        if free[node] >= gpus:
            free[node] -= gpus
            standing.append((node, gpus))
            jobs.append(runs(f"r{number}", "p", gpus, data.draw(st.integers(1, 500)), node))
    asked = data.draw(st.integers(2, 4))
    scenario = {
        "nodes": nodes,
        "projects": [{"name": "p", "weight": 0}],
        "jobs": [*jobs, waits("new", "p", asked)],
    }
    possible = room_by_moving(free, standing, asked)
    workers = played(scenario, 1)
    assert workers["new"] == int(possible)
    assert all(workers[job["name"]] == 1 for job in jobs)


# -- victims ----------------------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_several_jobs_are_not_stopped_if_one_that_loses_no_more_is_enough(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=6))
    ages = [data.draw(st.integers(1, 6)) * 100 for _ in sizes]
    asked = data.draw(st.integers(1, max(sizes)))
    jobs = [runs(f"r{i}", "p", size, age) for i, (size, age) in enumerate(zip(sizes, ages, strict=True))]
    scenario = {
        "nodes": [{"name": "n0", "gpus": sum(sizes)}],
        "projects": [{"name": "p", "guaranteed": sum(sizes)}],
        "jobs": [*jobs, waits("new", "p", asked, priority=100)],
    }
    losses = {f"r{i}": size * age for i, (size, age) in enumerate(zip(sizes, ages, strict=True))}
    victims = stopped(planned(scenario))
    assert sum(sizes[int(job[1:])] for job in victims) >= asked
    if len(victims) > 1:
        cost = sum(losses[job] for job in victims)
        assert not [i for i, size in enumerate(sizes) if size >= asked and losses[f"r{i}"] <= cost]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 1000), min_size=2, max_size=6, unique=True), st.randoms(use_true_random=False))
def test_among_projects_with_equal_excess_the_job_that_loses_least_work_is_stopped(
    ages: list[int], random: Any
) -> None:
    names = [f"p{i}" for i in range(len(ages))]
    created = list(range(len(ages)))
    random.shuffle(created)
    projects = [{"name": name, "weight": 0, "created": -at} for name, at in zip(names, created, strict=True)]
    jobs = [runs(f"of-{name}", name, 1, age) for name, age in zip(names, ages, strict=True)]
    scenario = {
        "nodes": [{"name": "n0", "gpus": len(ages)}],
        "projects": [*projects, {"name": "due", "guaranteed": 1}],
        "jobs": [*jobs, waits("new", "due", 1)],
    }
    assert stopped(planned(scenario)) == {f"of-p{ages.index(min(ages))}"}


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.lists(st.integers(1, 3), max_size=4), st.data())
def test_a_gang_reclaims_its_departments_guarantee_from_siblings_and_other_departments(
    siblings: list[int], strangers: list[int], data: st.DataObject
) -> None:
    gpus = sum(siblings) + sum(strangers)
    asked = data.draw(st.integers(1, gpus))
    projects = [
        {"name": "other"},
        {"name": "department", "guaranteed": asked, "weight": 0},
        {"name": "sibling", "parent": "department"},
        {"name": "due", "parent": "department", "guaranteed": asked},
    ]
    held = [("sibling", size) for size in siblings] + [("other", size) for size in strangers]
    jobs = [runs(f"r{i}", project, size, 100 + i) for i, (project, size) in enumerate(held)]
    scenario = {
        "nodes": [{"name": "n0", "gpus": gpus}],
        "projects": projects,
        "jobs": [*jobs, waits("new", "due", asked)],
    }
    plan = planned(scenario)
    assert plan.changes[JobId("new")].action is Action.START
    sibling = sum(
        size for i, (project, size) in enumerate(held) if project == "sibling" and f"r{i}" not in stopped(plan)
    )
    if any(held[int(job[1:])][0] == "other" for job in stopped(plan)):
        assert sibling == 0  # strangers give only what the department does not hold beyond its guarantee itself


# -- elastic jobs -----------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 6), st.integers(2, 6), st.lists(st.integers(1, 2), min_size=1, max_size=5))
def test_an_elastic_job_grows_into_its_guarantee(guaranteed: int, most: int, others: list[int]) -> None:
    """Everything else is over quota and may be preempted, so the job gets what its project is guaranteed."""
    gpus = 1 + sum(others)
    guaranteed = min(guaranteed, gpus)
    jobs = [runs(f"r{i}", "other", size, 100) for i, size in enumerate(others)]
    elastic = runs("elastic", "due", 1, 50, workers=most, min_workers=1)
    scenario = {
        "nodes": [{"name": "n0", "gpus": gpus}],
        "projects": [{"name": "other"}, {"name": "due", "guaranteed": guaranteed}],
        "settings": {"resize_interval": 0},
        "jobs": [*jobs, elastic],
    }
    assert played(scenario)["elastic"] >= min(guaranteed, most)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_the_rules_hold_while_elastic_jobs_reclaim_from_each_other(data: st.DataObject) -> None:
    """Who has grown in a plan is not stopped for another in the same plan, and who was stopped doesn't grow."""
    names = ["p", "q", "r"][: data.draw(st.integers(2, 3))]
    free = {f"n{i}": data.draw(st.integers(1, 4)) for i in range(data.draw(st.integers(1, 2)))}
    scenario: Scenario = {
        "nodes": [{"name": name, "gpus": gpus} for name, gpus in free.items()],
        "projects": [{"name": name, "guaranteed": data.draw(st.integers(0, 4))} for name in names],
        "settings": {"resize_interval": 0},
        "jobs": [],
    }
    for number in range(data.draw(st.integers(2, 5))):
        node = data.draw(st.sampled_from(sorted(free)))
        standing = data.draw(st.integers(1, 3))
        if free[node] >= standing:
            free[node] -= standing
            project, most = data.draw(st.sampled_from(names)), data.draw(st.integers(standing, 6))
            job = runs(f"e{number}", project, 1, 50, node, standing=standing, workers=most, min_workers=1)
            scenario["jobs"].append(job)
    (snapshot,) = read(json.dumps(scenario))
    for _ in range(4):
        plan = decide(snapshot)
        for rule in RULES:
            rule(snapshot, plan)
        snapshot = carry_out(snapshot, plan)
