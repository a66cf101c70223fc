"""Schedules from the command line, run by the service in its own process."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.app.conftest import Service


def add(service: Service, *words: str) -> str:
    return service.cli("schedule", "add", "--cron", "0 2 * * *", *words).stdout.strip()


def listed(service: Service) -> Any:
    return json.loads(service.cli("schedule", "list", "-o", "json").stdout)


def test_a_run_that_was_due_while_the_service_was_killed_is_made_up_for_once(service: Service) -> None:
    service.start()
    (service.work / "train.py").write_text("print('trained')")
    id = add(service, "--timezone", "Europe/Berlin", "--name", "nightly", "train.py")
    service.kill()
    with sqlite3.connect(service.folder.path / "runai.sqlite") as connection:
        connection.execute("UPDATE schedules SET schedule = json_set(schedule, '$.due', 1000.0) WHERE id = ?", (id,))
    connection.close()
    service.start()
    last = service.until(lambda: listed(service)[0]["last_job"])
    assert service.cli("logs", "-f", last["id"]).stdout == "trained\n"
    (found,) = listed(service)
    assert (found["id"], found["timezone"], found["last_job"]["id"]) == (id, "Europe/Berlin", last["id"])
    assert last["id"] in service.cli("schedule", "list").stdout
    jobs = json.loads(service.cli("list", "-o", "json").stdout)
    assert [job["schedule"] for job in jobs] == [id]


def test_a_schedule_is_paused_resumed_run_and_removed_by_its_name(service: Service) -> None:
    service.start()
    add(service, "--no-files", "--name", "nightly", "--", "true")
    assert service.cli("schedule", "pause", "nightly").stdout == "nightly is paused.\n"
    assert "paused" in service.cli("schedule", "list").stdout
    assert service.cli("schedule", "resume", "nightly").stdout.startswith("nightly runs next on ")
    job = service.cli("schedule", "run", "nightly").stdout.strip()
    assert listed(service)[0]["last_job"]["id"] == job
    assert service.cli("schedule", "remove", "nightly").stdout == "nightly is removed; its jobs stay.\n"
    assert listed(service) == []
    refused = service.cli("schedule", "run", "nightly", check=False)
    assert (refused.returncode, refused.stderr[:26]) == (1, "You have no schedule night")


def test_the_errors_of_a_schedule_name_its_options(service: Service) -> None:
    service.start()
    refused = service.cli("schedule", "add", "--cron", "2 am", "--no-files", "--", "true", check=False)
    assert refused.stderr.startswith("--cron: '2 am' is not a cron expression")
    refused = service.cli("schedule", "add", "--cron", "0 2 * * *", "--timezone", "Berlin", "--", "true", check=False)
    assert refused.stderr.startswith("--timezone: there is no time zone 'Berlin'")


def test_an_active_schedule_keeps_an_idle_scheduler_running(service: Service) -> None:
    service.start()
    add(service, "--no-files", "--name", "nightly", "--", "true")
    service.stop()
    service.start("--idle-timeout=0.5")
    assert service.process is not None
    with pytest.raises(subprocess.TimeoutExpired):
        service.process.wait(2)
    service.cli("schedule", "pause", "nightly")
    assert service.process.wait(30) == 0
