"""A search with Optuna: jobs as trials, a few at once, each with values chosen from the results of earlier ones.

The kernel drives it. Its state is in an Optuna journal in Jupyter's data folder, written ahead of each action: after a
restart `Search("…").wait()` continues. Running jobs do not need the kernel; only new ones wait for it.

What must hold:
- A trial is submitted once: its job's idempotency key consists of the search and its number.
- A trial with hopeless reports is stopped (SIGTERM, and its grace period) and counts as pruned.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from jupyter_ext import reports
from jupyter_ext.connection import connect
from jupyter_ext.handle import Job, PlainError
from jupyter_ext.jobs import Jobs
from jupyter_ext.sweep import LOOK, Goal, Trials
from scheduler.errors import Conflict, RunaiError
from scheduler.model import JobKind, JobState
from scheduler.schema import JobSubmit
from scheduler.submission.sweeps import Range, command_with, read_space

if TYPE_CHECKING:
    import optuna

AT_ONCE = 4
"""The default number of parallel trials."""


class Search(Trials):
    """The trials of a search, in order. `Search(id)` finds one again, after a restart of the kernel, too."""

    def __init__(self, name: str) -> None:
        self._study = _open(name)
        self._plan: Mapping[str, Any] = self._study.user_attrs["plan"]
        self._sent = JobSubmit.model_validate(self._plan["job"])
        self._space = {key: _distribution(each) for key, each in read_space(self._plan["space"]).items()}
        self._live: dict[int, optuna.Trial] = {}
        self._turn = threading.Lock()
        jobs = [trial.user_attrs["job"] for trial in self._study.trials if "job" in trial.user_attrs]
        super().__init__(jobs, name, Goal(**self._plan["goal"]))

    @classmethod
    def begin(cls, sent: JobSubmit, space: str, goal: Goal, *, trials: int, at_once: int | None) -> Search:
        """Record a new search; nothing is submitted yet."""
        optuna = _optuna()
        name = f"search-{secrets.token_hex(5)}"
        _folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        study = optuna.create_study(
            storage=_storage(name), study_name=name, direction="maximize" if goal.sign < 0 else "minimize"
        )
        plan = {
            "job": sent.model_dump(mode="json", exclude_unset=True),
            "space": space,
            "goal": {"metric": goal.metric, "sign": goal.sign},
            "trials": trials,
            "at_once": at_once or AT_ONCE,
        }
        study.set_user_attr("plan", plan)
        return cls(name)

    @property
    def views(self) -> list[Any]:
        return Jobs.views.fget(self)  # type: ignore[attr-defined,no-any-return]

    def go_on(self) -> Search:
        """Drive it in a thread, without a table, while the kernel runs."""
        threading.Thread(target=self._drive, name=self.id, daemon=True).start()
        return self

    def cancel(self) -> Search:
        """Cancel all trials, and start no more."""
        self._study.set_user_attr("cancelled", True)
        super().cancel()
        return self

    # -- driving it -----------------------------------------------------------------------------------------

    def _drive(self) -> None:
        over = False
        while not over:
            with contextlib.suppress(RunaiError):  # the scheduler is down for a moment
                over = self._step()
            time.sleep(LOOK)

    def _step(self) -> bool:
        """Read the results of the trials, and start as many as there is room for; whether all have ended."""
        with self._turn, _quiet():
            self._look()
            running = [trial for trial in self._study.trials if not trial.state.is_finished()]
            jobs = {job.id: job for job in self._jobs}
            for frozen in running:
                job = jobs.get(frozen.user_attrs.get("job", ""))
                if job is None:  # the kernel ended just before, or just after it was submitted
                    self._submit(self._trial(frozen))
                else:
                    self._hear(self._trial(frozen), job)
            while self._room():
                self._submit(self._study.ask(self._space))
            return all(trial.state.is_finished() for trial in self._study.trials)

    def _room(self) -> bool:
        trials = self._study.trials
        running = sum(not trial.state.is_finished() for trial in trials)
        wanted = len(trials) < self._plan["trials"] and not self._study.user_attrs.get("cancelled")
        return wanted and running < self._plan["at_once"]

    def _trial(self, frozen: optuna.trial.FrozenTrial) -> optuna.Trial:
        if frozen.number not in self._live:
            self._live[frozen.number] = _optuna().Trial(self._study, frozen._trial_id)
        return self._live[frozen.number]

    def _submit(self, trial: optuna.Trial) -> None:
        """Submit a trial; repeated for the same one, the scheduler returns the same job."""
        self._live[trial.number] = trial
        fields: dict[str, Any] = {
            "name": f"{(self._sent.name or 'trial')[:120]}-{trial.number}",
            "parameters": dict(trial.params),
        }
        if self._sent.kind is not JobKind.CELL:
            fields["command"] = command_with(self._sent.command, trial.params)
        view = connect().submit(self._sent.model_copy(update=fields), idempotency_key=f"{self.id}-{trial.number}")
        trial.set_user_attr("job", view.id)
        self._jobs.append(Job(view))

    def _hear(self, trial: optuna.Trial, job: Job) -> None:
        """Pass a trial's new reports to Optuna; stop it where they are hopeless, and record its end."""
        optuna, state = _optuna(), job.seen.state
        told = self._study.trials[trial.number]
        for step, reported in self._reported(job):
            if step not in told.intermediate_values:
                trial.report(reported, step)
        pruned = told.user_attrs.get("pruned", False)
        if not state.final:
            if not pruned and trial.should_prune():
                trial.set_user_attr("pruned", True)
                with contextlib.suppress(Conflict):  # it has just ended
                    job.cancel()
            return
        value = self.value(job)
        if state is JobState.SUCCEEDED and value is not None:
            self._study.tell(trial, value)
        elif pruned and state is JobState.CANCELLED:
            self._study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        else:
            self._study.tell(trial, state=optuna.trial.TrialState.FAIL)

    def _reported(self, job: Job) -> Iterator[tuple[int, float]]:
        assert self.goal is not None
        for count, point in enumerate(reports.continuous(self._points.get(job.id, ()))):
            value = point.get(self.goal.metric)
            if isinstance(value, (int, float)):
                yield int(point.get("step", count)), float(value)

    # -- display ---------------------------------------------------------------------------------------

    def _planned(self) -> int:
        return int(self._plan["trials"])

    def _row(self, job: Job) -> dict[str, Any]:
        row = super()._row(job)
        pruned = {t.user_attrs.get("job") for t in self._study.trials if t.user_attrs.get("pruned")}
        return {**row, "state": "pruned"} if job.id in pruned and row["state"] == "cancelled" else row

    def _detach(self) -> str:
        return (
            f"Detached from {self.name}: running trials continue, and new ones start after _job.wait(); "
            f"after a restart Search({self.id!r}).wait()."
        )


# -- Optuna -------------------------------------------------------------------------------------------------


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise UsageError("--search needs Optuna: %pip install 'jupyter-runai[search]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _open(name: str) -> Any:
    optuna = _optuna()
    if not _file(name).is_file():
        raise PlainError(f"There is no search {name} in {_folder()}.")
    with _quiet():
        sampler = optuna.samplers.TPESampler(constant_liar=True)
        return optuna.load_study(
            study_name=name, storage=_storage(name), sampler=sampler, pruner=optuna.pruners.MedianPruner()
        )


def _storage(name: str) -> Any:
    """A journal: an append-only file, so that a kill leaves everything written before."""
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    return JournalStorage(JournalFileBackend(str(_file(name))))


def _file(name: str) -> Path:
    return _folder() / f"{Path(name).name}.journal"


def _folder() -> Path:
    from jupyter_core.paths import jupyter_data_dir

    return Path(jupyter_data_dir()) / "runai-searches"


def _distribution(each: Range | list[Any]) -> Any:
    distributions = _optuna().distributions
    if isinstance(each, list):
        return distributions.CategoricalDistribution(each)
    whole = isinstance(each.low, int) and isinstance(each.high, int)
    kind = distributions.IntDistribution if whole else distributions.FloatDistribution
    return kind(each.low, each.high, log=each.log)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress Optuna's warnings about experimental options."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
