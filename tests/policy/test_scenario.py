"""Scenario files: errors are refused with their location, and results are printed in the documented format."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.errors import Invalid
from scheduler.model import JobId
from scheduler.policy import Action, decide
from scheduler.scenario import read, run_plan

SCENARIO: dict[str, Any] = {
    "nodes": [
        {"name": "n0", "gpus": 8, "gpu_type": "A100", "links": [[0, 1], [2, 3]]},
        {"name": "n1", "gpus": 2},
    ],
    "topology": ["rack"],
    "projects": [
        {"name": "research", "guaranteed": 6},
        {"name": "vision", "parent": "research", "guaranteed": 4},
        {"name": "nlp", "parent": "research", "guaranteed": 2},
    ],
    "users": [{"name": "ada", "build_quota": 2}],
    "jobs": [
        {
            "name": "j0",
            "project": "nlp",
            "gpus": 2,
            "workers": 2,
            "state": "running",
            "started": -60,
            "placement": [{"node": "n0", "gpus": [0, 1]}, {"node": "n0"}],
        },
        {"name": "j1", "project": "vision", "gpus": 0.25},
    ],
}

WRONG: dict[str, tuple[list[Any], Any, str]] = {
    "an unknown key": (["jobs", 1, "gpu"], 1, "jobs[1].gpu"),
    "an unknown key at the top": (["job"], [], "job"),
    "an unknown setting": (["settings"], {"preempt": True}, "settings.preempt"),
    "a number in quotes": (["nodes", 0, "gpus"], "8", "nodes[0].gpus"),
    "a unit": (["nodes", 0, "memory_gib"], "64Gi", "nodes[0].memory_gib"),
    "foreign use of a GPU that does not exist": (
        ["nodes", 1, "foreign"],
        {"gpus": [{"index": 2}]},
        "nodes[1].foreign.gpus[0].index",
    ),
    "foreign use of a GPU given twice": (
        ["nodes", 1, "foreign"],
        {"gpus": [{"index": 1}, {"index": 1}]},
        "nodes[1].foreign.gpus[1].index",
    ),
    "more foreign use than GPUs": (
        ["nodes", 1, "foreign"],
        {"gpus": [{"index": 0}], "unnumbered": 1.5},
        "nodes[1].foreign.unnumbered",
    ),
    "half a GPU too many": (["jobs", 1, "gpus"], 1.5, "jobs[1].gpus"),
    "an amount finer than a thousandth": (["jobs", 1, "gpus"], 0.0001, "jobs[1].gpus"),
    "no number": (["jobs", 1, "gpus"], float("nan"), "jobs[1].gpus"),
    "GPUs and memory": (["jobs", 1, "gpu_memory_gib"], 10, "jobs[1].gpu_memory_gib"),
    "a project that does not exist": (["jobs", 1, "project"], "vison", "jobs[1].project"),
    "a project that takes no jobs": (["jobs", 1, "project"], "research", "jobs[1].project"),
    "a parent that does not exist": (["projects", 1, "parent"], "resarch", "projects[1].parent"),
    "a circle of parents": (["projects", 0, "parent"], "vision", "projects[0].parent"),
    "a node that does not exist": (["jobs", 0, "placement", 1, "node"], "n9", "jobs[0].placement[1].node"),
    "a GPU that does not exist": (
        ["jobs", 0, "placement", 0, "gpus"],
        [0, 8],
        "jobs[0].placement[0].gpus[1]",
    ),
    "a GPU given twice": (["jobs", 0, "placement", 1, "gpus"], [1, 2], "jobs[0].placement[1].gpus[0]"),
    "too few GPUs": (["jobs", 0, "placement", 0, "gpus"], [0], "jobs[0].placement[0].gpus"),
    "more GPUs than are free": (["jobs", 0, "placement", 1, "node"], "n1", ""),
    "a name twice": (["jobs", 1, "name"], "j0", "jobs[1].name"),
    "a running job that stands nowhere": (["jobs", 0, "placement"], [], "jobs[0].placement"),
    "a waiting job that started": (["jobs", 1, "started"], -5, "jobs[1].started"),
    "more least workers than workers": (["jobs", 1, "min_workers"], 2, "jobs[1].min_workers"),
    "an unknown level": (["jobs", 1, "require"], "row", "jobs[1].require"),
    "a link to a GPU that is not there": (["nodes", 0, "links"], [[0, 8]], "nodes[0].links[0][1]"),
    "a GPU in two link groups": (["nodes", 0, "links"], [[0, 1], [1, 2]], "nodes[0].links[1][0]"),
    "a job that lends its GPUs": (["jobs", 0, "lent"], [{"node": "n0", "gpus": [0, 1]}], "jobs[0].lent"),
    "a job that is recalled": (["jobs", 0, "recalled"], True, "jobs[0].recalled"),
    "an unknown state": (["jobs", 1, "state"], "runing", "jobs[1].state"),
    "a negative amount": (["projects", 1, "guaranteed"], -1, "projects[1].guaranteed"),
}


def changed(path: list[Any], value: Any) -> dict[str, Any]:
    scenario: dict[str, Any] = json.loads(json.dumps(SCENARIO))
    place: Any = scenario
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return scenario


@pytest.mark.parametrize("what", [name for name, case in WRONG.items() if case[2]])
def test_a_mistake_is_refused_with_its_place(what: str) -> None:
    path, value, place = WRONG[what]
    with pytest.raises(Invalid) as refusal:
        list(read(yaml.safe_dump(changed(path, value))))
    assert refusal.value.field == place
    assert place in refusal.value.sentence


def test_a_valid_scenario_is_read_as_yaml_and_json() -> None:
    (from_yaml,) = read(yaml.safe_dump(SCENARIO))
    (from_json,) = read(json.dumps(SCENARIO))
    assert from_yaml == from_json
    assert [w.gpus for w in from_yaml.workloads[0].placement] == [(0, 1), (2, 3)]


def test_a_parent_without_a_guarantee_has_the_sum_of_its_children() -> None:
    scenario = json.loads(json.dumps(SCENARIO))
    del scenario["projects"][0]["guaranteed"]
    (snapshot,) = read(json.dumps(scenario))
    assert snapshot.pool.projects[0].guaranteed == 6000


def test_the_example_of_the_documentation_is_right() -> None:
    page = Path(__file__).parents[2].joinpath("docs/reference/scenarios.md").read_text("utf-8")
    (snapshot,) = read(page.split("```yaml\n")[1].split("```")[0])
    assert decide(snapshot).decisions[JobId("bert")].action is Action.KEEP


@pytest.mark.parametrize("text", ["", "[]", "nodes: [", "{", "a: 1\na: 2", '{"nodes": [], "nodes": []}'])
def test_an_invalid_scenario_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        list(read(text))


def plan(path: Path, **options: Any) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    status = run_plan(str(path), stdout=out, stderr=err, **options)
    return status, out.getvalue(), err.getvalue()


def test_the_plan_is_printed_as_the_format_says(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(yaml.safe_dump(SCENARIO))
    status, out, err = plan(file)
    assert (status, err) == (0, "")
    assert json.loads(out) == {
        "jobs": {
            "j0": {
                "action": "keep",
                "reason": "Keeps running.",
                "workers": [{"node": "n0", "gpus": [0, 1]}, {"node": "n0", "gpus": [2, 3]}],
            },
            "j1": {"action": "start", "reason": "Starts now.", "workers": [{"node": "n1", "gpus": [0]}]},
        },
        "projects": {
            "research": {"fair_share": 4.25, "allocated": 4.25, "demand": 4.25},
            "vision": {"fair_share": 0.25, "allocated": 0.25, "demand": 0.25},
            "nlp": {"fair_share": 4.0, "allocated": 4.0, "demand": 4.0},
        },
    }


def test_many_scenarios_give_one_line_each(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_text("\n".join([json.dumps(SCENARIO)] * 3))
    status, out, err = plan(file, lines=True, timing=True)
    assert status == 0
    assert len(out.splitlines()) == 3
    assert len(set(out.splitlines())) == 1
    assert [float(line) >= 0 for line in err.splitlines()] == [True] * 3
    file.write_text("---\n".join([yaml.safe_dump(SCENARIO)] * 2))
    assert len(plan(file)[1].splitlines()) == 2


def test_an_error_prints_nothing_else_and_is_status_2(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_text(json.dumps(SCENARIO) + "\n" + json.dumps(changed(["jobs", 1, "project"], "x")))
    status, out, err = plan(file, lines=True)
    assert (status, out) == (2, "")
    assert err.startswith(f"{file}: line 2: jobs[1].project: ")
    assert plan(tmp_path / "none.yaml")[0] == 2


def test_cycles_are_played_at_one_instant(tmp_path: Path) -> None:
    scenario = json.loads(json.dumps(SCENARIO))
    scenario["jobs"][1]["gpus"] = 8
    scenario["projects"][1]["guaranteed"] = 8
    file = tmp_path / "s.json"
    file.write_text(json.dumps(scenario))
    first = json.loads(plan(file)[1])["jobs"]
    assert (first["j0"]["action"], first["j1"]["action"], first["j1"]["after"]) == ("stop", "start", ["j0"])
    last = json.loads(plan(file, cycles=3)[1])["jobs"]
    assert (last["j0"]["action"], last["j1"]["action"]) == ("wait", "keep")
