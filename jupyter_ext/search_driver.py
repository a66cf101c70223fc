"""The driver of a search: a job of its own, which submits the trials, and stops those without prospects.

It needs Optuna, and the token of its job. What must hold:
- A trial is submitted once, whatever is killed: its job's idempotency key has the driver's id and the job's number.
- The search continues in the next attempt of the driver: its journal is in the checkpoint folder, written ahead of each
  action. Where that folder is older than the last action, the trials that run already are taken as they are.
- Whoever shows the search learns of its trials from the driver's reports: `trial`, `job` and, once it is, `pruned`.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, Trial, TrialState

from jupyter_ext import job, reports
from jupyter_ext.connection import connect
from jupyter_ext.search import PLAN
from scheduler.errors import Conflict, RunaiError
from scheduler.model import JobKind, JobState
from scheduler.schema import JobSubmit, JobView
from scheduler.submission.sweeps import Range, command_with, read_space

LOOK = 1.0
"""Seconds between two polls of the running trials."""

JOB = "job"
"""The attribute of a trial that has its job's id."""


class Driver:
    """`folder` has the journal; `name` is the driver's id, which names the trials' keys."""

    def __init__(self, plan: Mapping[str, Any], name: str, folder: Path) -> None:
        self._plan = plan
        self._name = name
        self._sent = JobSubmit.model_validate(plan["job"])
        self._space = {key: _distribution(each) for key, each in read_space(plan["space"]).items()}
        self._metric = plan["goal"]["metric"]
        self._offsets: dict[str, int] = {}
        self._points: dict[str, list[reports.Point]] = {}
        self._trials: dict[int, Trial] = {}
        with _quiet():
            self._study = optuna.create_study(
                storage=JournalStorage(JournalFileBackend(str(folder / "search.journal"))),
                study_name="search",
                direction="maximize" if plan["goal"]["sign"] < 0 else "minimize",
                sampler=optuna.samplers.TPESampler(constant_liar=True),
                pruner=optuna.pruners.MedianPruner(),
                load_if_exists=True,
            )
        for frozen in self._study.trials:
            if JOB in frozen.user_attrs:
                self._tell(frozen.number, frozen.user_attrs[JOB], pruned=frozen.user_attrs.get("pruned", False))

    def run(self) -> None:
        """Drive it until all trials have ended, or the job is stopped."""
        while not job.should_stop():
            with contextlib.suppress(RunaiError), _quiet():  # the scheduler is down for a moment
                if self._step():
                    return
            time.sleep(LOOK)

    def _step(self) -> bool:
        """Read the results of the trials, and start as many as there is room for; whether all have ended."""
        for frozen in self._unfinished():
            self._hear(self._trial(frozen), self._job_of(self._trial(frozen)))
        while len(self._unfinished()) < self._plan["at_once"] and self._begun() < self._plan["trials"]:
            self._job_of(self._study.ask(self._space))
        return not self._unfinished()

    def _unfinished(self) -> list[FrozenTrial]:
        return [trial for trial in self._study.trials if not trial.state.is_finished() and trial.params]

    def _begun(self) -> int:
        """How many trials there are. One that was replaced by its job's values does not count."""
        return sum(bool(trial.params) and "replaced" not in trial.user_attrs for trial in self._study.trials)

    def _trial(self, frozen: FrozenTrial) -> Trial:
        if frozen.number not in self._trials:
            self._trials[frozen.number] = Trial(self._study, frozen._trial_id)
        return self._trials[frozen.number]

    def _job_of(self, trial: Trial) -> JobView:
        """The job of a trial, submitted where it is new."""
        self._trials[trial.number] = trial
        if known := trial.user_attrs.get(JOB):
            return connect().job(known)
        number = sum(JOB in each.user_attrs for each in self._study.trials)
        fields: dict[str, Any] = {
            "name": f"{(self._sent.name or 'trial')[:120]}-{number}",
            "parameters": dict(trial.params),
        }
        if self._sent.kind is not JobKind.CELL:
            fields["command"] = command_with(self._sent.command, trial.params)
        view = connect().submit(self._sent.model_copy(update=fields), idempotency_key=f"{self._name}-{number}")
        if view.parameters != trial.params:
            # The journal was lost after this job had been submitted with other values: continue with these.
            trial.set_user_attr("replaced", True)
            self._study.tell(trial, state=TrialState.FAIL)
            self._study.enqueue_trial(view.parameters, user_attrs={JOB: view.id})
            trial = self._study.ask(self._space)
            self._trials[trial.number] = trial
        else:
            trial.set_user_attr(JOB, view.id)
        self._tell(trial.number, view.id)
        return view

    def _hear(self, trial: Trial, view: JobView) -> None:
        """Pass a trial's new reports to Optuna; stop it where they are hopeless, and record its end."""
        self._read(view)
        told = self._study.trials[trial.number]
        line = reports.continuous(self._points.get(view.id, ()))
        values = [(int(point.get("step", at)), _number(point.get(self._metric))) for at, point in enumerate(line)]
        for step, value in values:
            if value is not None and step not in told.intermediate_values:
                trial.report(value, step)
        pruned = told.user_attrs.get("pruned", False)
        if not view.state.final:
            if not pruned and trial.should_prune():
                trial.set_user_attr("pruned", True)
                self._tell(trial.number, view.id, pruned=True)
                with contextlib.suppress(Conflict):  # it has just ended
                    connect().cancel(view.id)
            return
        last = next((value for _, value in reversed(values) if value is not None), None)
        if view.state is JobState.SUCCEEDED and last is not None:
            self._study.tell(trial, last)
        elif pruned and view.state is JobState.CANCELLED:
            self._study.tell(trial, state=TrialState.PRUNED)
        else:
            self._study.tell(trial, state=TrialState.FAIL)
        self._points.pop(view.id, None)

    def _read(self, view: JobView) -> None:
        while view.started is not None:
            page = connect().metrics(view.id, offset=self._offsets.get(view.id, 0))
            if not page.points:
                return
            self._points.setdefault(view.id, []).extend(page.points)
            self._offsets[view.id] = page.next

    def _tell(self, number: int, id: str, *, pruned: bool = False) -> None:
        ended = sum(trial.state.is_finished() and "replaced" not in trial.user_attrs for trial in self._study.trials)
        job.report(step=ended, total=self._plan["trials"], trial=number, job=id, pruned=pruned)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def _distribution(each: Range | list[Any]) -> Any:
    distributions = optuna.distributions
    if isinstance(each, list):
        return distributions.CategoricalDistribution(each)
    if isinstance(each.low, int) and isinstance(each.high, int):
        return distributions.IntDistribution(each.low, each.high, log=each.log)
    return distributions.FloatDistribution(each.low, each.high, log=each.log)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress Optuna's warnings about experimental options."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def main() -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    folder = Path(os.environ["RUNAI_CHECKPOINT_DIR"])
    job.should_stop()  # listen to SIGTERM from the start
    Driver(json.loads(os.environ[PLAN]), os.environ["RUNAI_JOB_ID"], folder).run()


if __name__ == "__main__":
    main()
