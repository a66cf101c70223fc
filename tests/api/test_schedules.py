"""Schedules through the running service, whose clock the tests move."""

from __future__ import annotations

import asyncio
import hashlib
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from scheduler.controller.schedules import MOST
from scheduler.model import JobState
from scheduler.service.retention import Retention
from scheduler.service.schedules import Schedules
from tests.api.conftest import Service, Start
from tests.api.test_users import Hub

BERLIN = ZoneInfo("Europe/Berlin")
NIGHTLY = {"cron": "0 2 * * *", "timezone": "Europe/Berlin"}
JOB = {"command": ["sleep", "60"], "project": "vision"}
DAY = 86_400


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp()


class Lab:
    """A scheduler whose clock is moved, and which looks for schedules when the test says so."""

    service: Service

    def __init__(self, now: float = at("2026-03-10T12:00")) -> None:
        self.now = now

    def clock(self) -> float:
        return self.now

    async def add(self, caller: str = "owner", **more: Any) -> dict[str, Any]:
        answer = await self.service.http[caller].post("schedules", json={"job": JOB, **NIGHTLY, **more})
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    async def refused(self, **more: Any) -> str:
        answer = await self.service.http["owner"].post("schedules", json={"job": JOB, **NIGHTLY, **more})
        assert answer.status_code == 422, answer.text
        return str(answer.json()["field"])

    async def change(self, schedule: str, **more: Any) -> dict[str, Any]:
        answer = await self.service.http["owner"].patch(f"schedules/{schedule}", json=more)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def look(self, now: float) -> dict[str, Any]:
        """The only schedule of ann's after the scheduler has looked at this time."""
        self.now = now
        await Schedules(self.service.app.settings["api"]).look()
        (schedule,) = (await self.service.http["owner"].get("schedules")).json()["schedules"]
        return dict(schedule)

    async def runs(self, schedule: str) -> list[dict[str, Any]]:
        found = await self.service.http["owner"].get("jobs", params={"schedule": schedule})
        return list(found.json()["jobs"])

    async def end(self, schedule: dict[str, Any]) -> None:
        """End the last run of a schedule."""
        job = schedule["last_job"]["id"]
        await self.service.http["owner"].post(f"jobs/{job}/cancel")
        await self.service.until(job, JobState.CANCELLED)


@pytest.fixture
async def lab(start: Start) -> Lab:
    lab = Lab()
    lab.service = await start(clock=lab.clock)
    return lab


async def test_a_job_runs_at_its_times_in_its_time_zone(lab: Lab) -> None:
    added = await lab.add()
    assert (added["name"], added["project"], added["active"]) == ("sleep", "vision", True)
    assert added["next_run"] == at("2026-03-11T02:00")
    assert (await lab.look(at("2026-03-11T01:59")))["last_job"] is None
    ran = await lab.look(at("2026-03-11T02:00"))
    assert (ran["next_run"], ran["last_job"]["schedule"]) == (at("2026-03-12T02:00"), added["id"])
    assert [job["id"] for job in await lab.runs(added["id"])] == [ran["last_job"]["id"]]
    assert (await lab.look(at("2026-03-11T02:01")))["last_job"]["id"] == ran["last_job"]["id"]
    await lab.end(ran)
    again = await lab.look(at("2026-03-12T02:00"))
    assert len(await lab.runs(added["id"])) == 2
    assert again["last_job"]["id"] != ran["last_job"]["id"]


async def test_a_run_is_skipped_while_the_last_one_is_unfinished(lab: Lab) -> None:
    ran = await lab.look((await lab.add())["next_run"])
    skipped = await lab.look(ran["next_run"])
    assert skipped["last_job"]["id"] == ran["last_job"]["id"]
    assert skipped["notice"].startswith(
        f"The run of 2026-03-12 02:00 was skipped: the last run, job {ran['last_job']['id']}"
    )
    await lab.end(skipped)
    assert (await lab.look(skipped["next_run"]))["notice"] == ""
    assert len(await lab.runs(ran["id"])) == 2


async def test_runs_that_were_missed_are_made_up_for_once(lab: Lab) -> None:
    added = await lab.add()
    late = await lab.look(at("2026-03-20T12:00"))
    assert (late["next_run"], len(await lab.runs(added["id"]))) == (at("2026-03-21T02:00"), 1)


async def test_a_paused_schedule_does_not_run_and_makes_up_for_nothing(lab: Lab) -> None:
    added = await lab.add()
    paused = await lab.change(added["name"], active=False)
    assert (paused["active"], paused["next_run"]) == (False, None)
    assert (await lab.look(at("2026-03-15T12:00")))["last_job"] is None
    resumed = await lab.change(added["id"], active=True)
    assert resumed["next_run"] == at("2026-03-16T02:00")
    assert (await lab.look(lab.now))["last_job"] is None


async def test_its_times_its_name_and_its_job_can_be_changed(lab: Lab) -> None:
    added = await lab.add()
    changed = await lab.change(
        added["id"], name="noon", cron="0 12 * * *", timezone="UTC", job={"command": ["true"], "name": "quick"}
    )
    assert (changed["name"], changed["command"], changed["next_run"]) == ("noon", ["true"], at("2026-03-10T13:00"))
    assert (await lab.look(changed["next_run"]))["last_job"]["name"] == "quick"


async def test_it_can_be_run_at_once_and_removed(lab: Lab) -> None:
    owner, added = lab.service.http["owner"], await lab.add()
    ran = await owner.post(f"schedules/{added['name']}/run")
    assert (ran.status_code, ran.json()["schedule"]) == (201, added["id"])
    assert (await owner.get("schedules/sleep")).json()["last_job"]["id"] == ran.json()["id"]
    assert (await owner.delete("schedules/sleep")).status_code == 204
    assert (await owner.get("schedules")).json() == {"schedules": []}
    assert [job["id"] for job in await lab.runs(added["id"])] == [ran.json()["id"]]


async def test_what_could_not_run_now_is_refused(lab: Lab) -> None:
    await lab.add()
    assert await lab.refused(cron="0 2 * *") == "cron"
    assert await lab.refused(timezone="Nowhere") == "timezone"
    assert await lab.refused(job={**JOB, "after": ["x"]}) == "after"
    assert await lab.refused(job={**JOB, "gpus": 99}) == "gpus"
    assert await lab.refused(job={**JOB, "bundle": "0" * 64}) == "bundle"
    again = await lab.service.http["owner"].post("schedules", json={"job": JOB, **NIGHTLY})
    assert (again.status_code, again.json()["field"]) == (409, "name")
    assert (await lab.service.http["stranger"].post("schedules", json={"job": JOB, **NIGHTLY})).status_code == 403


async def test_a_user_has_a_limited_number_of_schedules(lab: Lab) -> None:
    for number in range(MOST):
        await lab.add(name=f"s{number}")
    more = await lab.service.http["owner"].post("schedules", json={"job": JOB, **NIGHTLY, "name": "more"})
    assert more.status_code == 429
    await lab.add("mate")


async def test_without_the_right_to_the_project_it_is_paused_and_later_deleted(lab: Lab) -> None:
    await lab.add()
    admin = lab.service.http["admin"]
    await admin.put("projects/vision", json={"name": "vision", "members": ["ben"]})
    paused = await lab.look(at("2026-03-11T02:00"))
    assert (paused["active"], paused["last_job"]) == (False, None)
    assert paused["notice"].startswith("Paused by the scheduler: Project vision does not take your jobs;")
    file = (await admin.get("pool/file")).json()
    assert (await admin.post("pool/apply", json={**file, "keep_days": 30})).status_code == 200
    lab.now += 29 * DAY
    await lab.service.controller.tidy()
    assert lab.service.controller.schedules.all
    lab.now += 2 * DAY
    await lab.service.controller.tidy()
    assert not lab.service.controller.schedules.all


async def test_the_hub_says_who_still_exists_and_in_which_groups(lab: Lab) -> None:
    hub = lab.service.tokens.directory = Hub()
    projects = lab.service.http["admin"]
    await projects.put("projects/vision", json={"name": "vision", "groups": ["ml-101"]})
    await lab.add()
    hub.problem = "The hub does not answer."
    waiting = await lab.look(at("2026-03-11T02:00"))
    assert (waiting["active"], waiting["notice"]) == (True, "The run has to wait: The hub does not answer.")
    hub.problem = None
    ran = await lab.look(at("2026-03-11T02:30"))
    assert (ran["notice"], ran["last_job"]["project"]) == ("", "vision")
    await lab.end(ran)
    lab.service.tokens.directory = Without()
    gone = await lab.look(at("2026-03-12T02:00"))
    assert (gone["active"], gone["notice"]) == (False, "Paused by the scheduler: There is no user ann any more.")


class Without(Hub):
    """A hub from which everybody was deleted."""

    async def users(self) -> list[Any]:
        return []


async def test_what_the_pool_does_not_allow_for_now_is_skipped(lab: Lab) -> None:
    await lab.add()
    admin = lab.service.http["admin"]
    await admin.put("projects/vision", json={"name": "vision", "members": ["ann"], "limit": 0.5})
    skipped = await lab.look(at("2026-03-11T02:00"))
    assert (skipped["active"], skipped["next_run"], skipped["last_job"]) == (True, at("2026-03-12T02:00"), None)
    assert skipped["notice"].startswith("The run of 2026-03-11 02:00 was skipped: ")


async def test_its_files_are_kept_as_long_as_the_schedule(lab: Lab) -> None:
    bundle = b"files of the job"
    digest = hashlib.sha256(bundle).hexdigest()
    owner, api = lab.service.http["owner"], lab.service.app.settings["api"]
    await owner.put(f"blobs/{digest}", content=bundle)
    added = await lab.add(job={**JOB, "bundle": digest})
    retention = Retention(lab.service.controller, lab.service.store, api.blobs, api.owners, lambda: FAR)
    await retention.sweep()
    assert api.blobs.exists(digest)
    await owner.delete(f"schedules/{added['id']}")
    await retention.sweep()
    assert not api.blobs.exists(digest)


FAR = at("2099-01-01T00:00")


async def test_only_its_owner_is_told_of_its_changes(lab: Lab) -> None:
    last = (await lab.service.http["owner"].get("schedules")).headers["Runai-Event"]
    listening = {"owner": asyncio.Event(), "mate": asyncio.Event()}

    async def heard(who: str) -> list[str]:
        """The kinds of events up to the submission of the run."""
        kinds = []
        asked = {"Accept": "text/event-stream", "Last-Event-ID": last}
        async with lab.service.http[who].stream("GET", "events", headers=asked) as stream:
            listening[who].set()
            async for line in stream.aiter_lines():
                if line.startswith("event: "):
                    kinds.append(line.removeprefix("event: "))
                if kinds[-1:] == ["job.submitted"]:
                    break
        return kinds

    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        owner, mate = (group.create_task(heard(who)) for who in listening)
        for begun in listening.values():
            await begun.wait()
        await lab.look((await lab.add())["next_run"])
    assert owner.result() == ["schedule.changed", "job.submitted"]
    assert mate.result() == ["job.submitted"]


# -- kill -9 ------------------------------------------------------------------------------------------------

KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from scheduler.service.schedules import Schedules
from scheduler.store import Store
from tests.api.conftest import running
from tests.api.test_schedules import JOB, NIGHTLY, Lab

folder, when = Path(sys.argv[1]), sys.argv[2]
written = Store.write

def write(self, change):
    if change.submitted and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    future = written(self, change)
    if change.submitted:
        future.add_done_callback(lambda _: os.kill(os.getpid(), signal.SIGKILL))
    return future

async def main():
    lab = Lab()
    async with running(folder, clock=lab.clock) as lab.service:
        Store.write = write
        await lab.look((await lab.add())["next_run"])

asyncio.run(main())
"""


@pytest.mark.parametrize("when", ["before", "after"])
async def test_after_kill_9_a_run_that_was_due_is_submitted_once(tmp_path: Path, start: Start, when: str) -> None:
    """Killed when the run is decided, and when it is durable but nobody has been told."""
    killed = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", KILLED, str(tmp_path), when], capture_output=True, text=True
    )
    assert killed.returncode == -9, killed.stderr
    lab = Lab(at("2026-03-11T02:00"))
    lab.service = await start(clock=lab.clock)
    (found,) = (await lab.service.http["owner"].get("schedules")).json()["schedules"]
    assert (found["last_job"] is None) is (when == "before")
    for _ in range(2):
        found = await lab.look(at("2026-03-11T02:00"))
    assert [job["id"] for job in await lab.runs(found["id"])] == [found["last_job"]["id"]]
    assert found["next_run"] == at("2026-03-12T02:00")
