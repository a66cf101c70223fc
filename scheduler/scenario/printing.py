"""A plan as `jupyter runai plan` prints it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduler.model import ONE, WorkloadId
from scheduler.policy import Action, Decision, Plan, ProjectFigures


def plan_as_json(plan: Plan, starts: Mapping[WorkloadId, float] | None = None) -> dict[str, Any]:
    """The plan; `starts` has the estimated starts of those that wait, where the plan itself has none."""
    starts = starts or {}
    return {
        "jobs": {name: _decision(decision, starts.get(name)) for name, decision in plan.decisions.items()},
        "projects": {name: _figures(figures) for name, figures in plan.projects.items()},
    }


def _decision(decision: Decision, start: float | None) -> dict[str, Any]:
    shown: dict[str, Any] = {"action": decision.action.value}
    if decision.after:
        shown["after"] = list(decision.after)
    shown["reason"] = decision.reason
    shown["workers"] = [{"node": worker.node, "gpus": list(worker.gpus)} for worker in decision.placement]
    if decision.action is Action.WAIT:
        shown["blocked_by"] = dict(decision.details)
        shown["position"] = decision.position
        shown["estimated_start"] = start if decision.estimated_start is None else decision.estimated_start
    return shown


def _figures(figures: ProjectFigures) -> dict[str, float]:
    return {
        "fair_share": figures.fair_share / ONE,
        "allocated": figures.allocated / ONE,
        "demand": figures.demand / ONE,
    }
