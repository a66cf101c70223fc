"""A search with Optuna: jobs as trials, a few at once, each with values chosen from the results of earlier ones.

A job drives it (`search_driver`), so it goes on without the kernel. Here it is begun and shown: `Search("…")` finds it
again by the id or the name of its driver.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from IPython.core.error import UsageError

from jupyter_ext import card
from jupyter_ext.connection import connect
from jupyter_ext.handle import Job, PlainError
from jupyter_ext.jobs import Jobs
from jupyter_ext.sweep import Goal, Trials
from scheduler.client import Client
from scheduler.model import JobKind, JobState
from scheduler.schema import JobSubmit, JobView

AT_ONCE = 4
"""The default number of parallel trials."""

PLAN = "SEARCH_PLAN"
"""The variable of the driver that has the search, as JSON."""

DRIVER = (sys.executable, "-P", "-m", "jupyter_ext.search_driver")

SHARED = ("project", "priority", "node_pools", "image", "git", "cell")
"""What the driver has in common with the trials. It needs no GPU."""

RETRIES = 3
"""How often a driver that fails is tried again; it continues where it was."""


class Search(Trials):
    """The trials of a search, in order. `Search(id)` finds one again, after a restart of the kernel, too."""

    def __init__(self, driver: Job | JobView | str) -> None:
        self.driver = driver if isinstance(driver, Job) else Job(driver)
        self._plan = _plan_of(self.driver.id)
        self._pruned: set[str] = set()
        self._told = 0
        super().__init__((), self.driver.id, Goal(**self._plan["goal"]))
        self._hear(connect())

    @classmethod
    def begin(cls, sent: JobSubmit, space: str, goal: Goal, *, trials: int, at_once: int | None) -> Search:
        """Submit the driver of a new search."""
        if find_spec("optuna") is None:
            raise UsageError("--search needs Optuna: %pip install 'jupyter-runai[search]'")
        plan = {
            "job": sent.model_dump(mode="json", exclude_unset=True),
            "space": space,
            "goal": {"metric": goal.metric, "sign": goal.sign},
            "trials": trials,
            "at_once": at_once or AT_ONCE,
        }
        shared = {name: getattr(sent, name) for name in SHARED if name in sent.model_fields_set}
        driver = JobSubmit(
            **shared,
            env={**sent.env, PLAN: json.dumps(plan)},
            name=f"{(sent.name or 'trial')[:113]}-search",
            kind=JobKind.COMMAND,
            command=list(DRIVER),
            gpus=0,
            retries=RETRIES,
            may_submit=True,
        )
        return cls(connect().submit(driver))

    @property
    def views(self) -> list[JobView]:
        return Jobs.views.fget(self)  # type: ignore[attr-defined,no-any-return]

    def cancel(self) -> Search:
        """Cancel all trials, and start no more."""
        if not self.driver.view.state.final:
            self.driver.cancel()
            connect().wait(self.driver.id)  # it starts no more from here
        self._look()
        super().cancel()
        return self

    # -- state ------------------------------------------------------------------------------------------

    def _ask(self, client: Client) -> None:
        if not self.driver.seen.state.final:
            self.driver.seen = client.job(self.driver.id)
        self._hear(client)
        super()._ask(client)

    def _hear(self, client: Client) -> None:
        """Learn of new trials from the driver's reports."""
        known = {job.id for job in self._jobs}
        while (page := client.metrics(self.driver.id, offset=self._told)).next != self._told:
            self._told = page.next
            for point in page.points:
                id = str(point.get("job", ""))
                if id and id not in known:
                    known.add(id)
                    self._jobs.append(Job(id))
                if point.get("pruned"):
                    self._pruned.add(id)

    def _step(self) -> bool:
        return super()._step() and self.driver.seen.state.final

    def _unfinished(self) -> list[str]:
        return [*([] if self.driver.seen.state.final else [self.driver.id]), *super()._unfinished()]

    # -- display ---------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self.driver.name.removesuffix("-search")

    def _found_by(self) -> dict[str, str]:
        return {"driver": self.driver.id}

    def _planned(self) -> int:
        return int(self._plan["trials"])

    def _row(self, job: Job) -> dict[str, Any]:
        row = super()._row(job)
        return {**row, "state": "pruned"} if job.id in self._pruned and row["state"] == "cancelled" else row

    def _head(self) -> str:
        """It says where no more trials come, and why none has come yet."""
        driver = self.driver.seen
        stopped = driver.state in (JobState.FAILED, JobState.CANCELLED, JobState.PAUSED)
        tells = stopped or (not self._jobs and driver.state is JobState.QUEUED)
        return f"{super()._head()} The job that drives it: {card.state(driver)}" if tells else super()._head()

    def _detach(self) -> str:
        return (
            f"Detached from {self.name}, which goes on: _job.wait() shows it again, _job.cancel() stops it; after a "
            f"restart Search({self.id!r}).wait()."
        )


def _plan_of(driver: str) -> Mapping[str, Any]:
    plan = connect().submission(driver).env.get(PLAN)
    if plan is None:
        raise PlainError(f"{driver} does not drive a search.")
    found: dict[str, Any] = json.loads(plan)
    return found
