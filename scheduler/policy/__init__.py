"""Pure decisions: a snapshot in, a plan out. No I/O, no clock, no randomness of its own."""

from scheduler.policy.accuracy import Accuracy, Statement
from scheduler.policy.dryrun import DryRun, dry_run
from scheduler.policy.effects import Effect, effects
from scheduler.policy.forecast import WARNED, Forecast, Pause, Range, forecast, rises_soon
from scheduler.policy.lackingnodes import lacking_nodes
from scheduler.policy.planner import Planner, SnapshotPlanner, decide
from scheduler.policy.residuals import Residuals
from scheduler.policy.similar import SimilarRuns
from scheduler.policy.types import Action, Decision, Plan, ProjectFigures, Snapshot

__all__ = [
    "WARNED",
    "Accuracy",
    "Action",
    "Decision",
    "DryRun",
    "Effect",
    "Forecast",
    "Pause",
    "Plan",
    "Planner",
    "ProjectFigures",
    "Range",
    "Residuals",
    "SimilarRuns",
    "Snapshot",
    "SnapshotPlanner",
    "Statement",
    "decide",
    "dry_run",
    "effects",
    "forecast",
    "lacking_nodes",
    "rises_soon",
]
