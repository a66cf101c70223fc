"""Pure decisions: a snapshot in, a plan out. No I/O, no clock, no randomness of its own."""

from scheduler.policy.effects import Effect, effects
from scheduler.policy.forecast import Forecast, forecast
from scheduler.policy.planner import Planner, SnapshotPlanner, decide
from scheduler.policy.types import Action, Decision, Plan, ProjectFigures, Snapshot

__all__ = [
    "Action",
    "Decision",
    "Effect",
    "Forecast",
    "Plan",
    "Planner",
    "ProjectFigures",
    "Snapshot",
    "SnapshotPlanner",
    "decide",
    "effects",
    "forecast",
]
