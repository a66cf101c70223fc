"""The blocker of a job that would be in the way of a changing guarantee (`lookahead`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from scheduler.model import Milli, ProjectName, gpu_count
from scheduler.policy.blockkinds import BlockKind
from scheduler.policy.demands import UNBOUNDED


@dataclass(frozen=True, slots=True)
class InTheWay:
    """The job could not be stopped when the guarantee of `project` changes `at` a time, which is `when` in words."""

    kind: ClassVar = BlockKind.WINDOW
    project: ProjectName
    when: str
    at: float
    guaranteed: Milli
    asked: Milli
    rises: bool
    preemptible: bool

    @property
    def sentence(self) -> str:
        amount = f"{'rises' if self.rises else 'falls'} to {gpu_count(self.guaranteed)}"
        change = f"{'becomes unlimited' if self.guaranteed >= UNBOUNDED else amount} at {self.when}"
        why = "is protected from preemption for longer" if self.preemptible else "can't be preempted"
        return f"The guarantee of project {self.project} {change}. This job {why} and is not expected to end before."
