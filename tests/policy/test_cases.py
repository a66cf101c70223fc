"""Decisions of the policy by example: see `cases.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.policy import decide
from scheduler.policy.play import carry_out
from scheduler.scenario import plan_as_json, read

CASES = {
    document.pop("case"): document
    for document in yaml.safe_load_all(Path(__file__).with_name("cases.yaml").read_text("utf-8"))
}


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    case = dict(CASES[name])
    expected, cycles = case.pop("expect"), case.pop("cycles", 1)
    (snapshot,) = read(yaml.safe_dump(case))
    for _ in range(cycles):
        plan = decide(snapshot)
        snapshot = carry_out(snapshot, plan)
    jobs = plan_as_json(plan)["jobs"]
    assert {job: told(jobs[job], expectation) for job, expectation in expected.items()} == expected


def told(job: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
    """The actual results, in the form of the expectations."""
    facts = {
        "action": job["action"],
        "after": job.get("after", []),
        "nodes": [worker["node"] for worker in job["workers"]],
        "gpus": job["workers"][0]["gpus"] if job["workers"] else [],
        "blocked": (job.get("blocked_by") or {}).get("kind"),
        "start": job.get("estimated_start"),
    }
    return {key: facts[key] for key in about}
