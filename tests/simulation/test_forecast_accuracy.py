"""The accuracy of a simulation's estimated starts; forecasting does not change the simulation."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.cli import main
from scheduler.model import ONE, JobId, ProjectName
from scheduler.simulation.forecastaccuracy import ForecastAccuracyFigures, StatementErrors
from scheduler.simulation.study import OURS, Result, prepare
from scheduler.simulation.trace import Trace, TraceJob

HOUR = 3600.0


def trace(jobs: int, *, apart: float, declared: bool = False) -> Trace:
    """Jobs of an hour by the median, which come in so many seconds `apart`; a node of 8 runs one in about 600."""
    rng = random.Random(5)
    found = []
    for number in range(jobs):
        seconds = HOUR * rng.lognormvariate(0, 0.7)
        expected = seconds if declared else None
        found.append(
            TraceJob(JobId(f"j{number:04}"), apart * number, seconds, ONE, ProjectName("all"), expected=expected)
        )
    return Trace(tuple(found), "")


def played(jobs: Trace, every: float | None) -> Result:
    (result,) = replace(prepare(jobs, nodes=1), estimate_every=every).play([OURS])
    return result


def estimated(jobs: Trace) -> tuple[ForecastAccuracyFigures, StatementErrors]:
    found = played(jobs, 300.0).estimates
    assert found is not None
    assert found.all is not None
    return found, found.all


def test_where_run_times_are_declared_and_come_true_estimates_do() -> None:
    found, told = estimated(trace(60, apart=300.0, declared=True))
    assert found.jobs > 30
    assert (found.untold, told.not_later) == (0, 1.0)
    assert told.error < 0.02


def test_similar_jobs_make_good_estimates_and_nine_of_ten_starts_come_in_time() -> None:
    found, told = estimated(trace(150, apart=500.0))
    assert found.first is not None
    assert found.first.statements <= found.jobs <= told.statements
    assert told.error < 0.2
    assert told.not_later >= 0.9


def test_forecasting_changes_nothing() -> None:
    jobs = trace(60, apart=300.0)
    assert played(jobs, 60.0).runs == played(jobs, None).runs


def test_the_command_says_how_good_estimates_were(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = "submit_time,duration,gpus,project\n" + "".join(f"{60 * n},3600,8,all\n" for n in range(9))
    path = tmp_path / "trace.csv"
    path.write_text(table)
    command = ["simulate", str(path), "--nodes", "1", "--policies", "runai,skip_ahead", "--estimate-every", "60"]
    assert main(command) == 0
    text = capsys.readouterr().out
    assert "Estimated starts of jobs that waited for over a minute" in text
    assert [line.split()[0] for line in text.splitlines() if "at submission" in line] == ["runai"]
    assert main([*command, "--output", "json"]) == 0
    ours, other = json.loads(capsys.readouterr().out)["results"]
    assert (ours["estimates"]["jobs"], other["estimates"]) == (8, None)
