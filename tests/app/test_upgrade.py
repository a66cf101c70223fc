"""The start of this release migrates a state folder of the last release, without loss.

`upgrade/state-0.1.0.tar.gz` is the state of that release when it was killed; `upgrade/answers-0.1.0.json` has the last
responses of its API. Both were created by `upgrade/make_state.py`.
"""

from __future__ import annotations

import json
import socket
import sqlite3
import tarfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

if TYPE_CHECKING:
    from tests.app.conftest import Service

HERE = Path(__file__).parent / "upgrade"

TOLD = json.loads((HERE / "answers-0.1.0.json").read_text())

IDS: dict[str, str] = TOLD["ids"]

OF_A_PLAN = {"reason", "blocked_by", "position", "estimated_start", "over_quota"}
"""The fields of an unfinished job that come from the latest plan, which is not part of the state."""


@pytest.fixture
def http(service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[httpx.Client]:
    """This release, started on the last one's folder, as if left on this machine."""
    folder = service.folder.path
    with tarfile.open(HERE / "state-0.1.0.tar.gz") as archive:
        archive.extractall(folder.parent, filter="data")
    folder.chmod(0o700)
    _move_to_this_machine(folder / "runai.sqlite")
    monkeypatch.setenv("LOGNAME", "ana")
    service.start()
    endpoint = service.folder.endpoint()
    assert endpoint is not None
    key = {"Authorization": f"token {service.folder.read_token()}"}
    with httpx.Client(base_url=f"{endpoint.url.rstrip('/')}/api/v1/", headers=key, timeout=30) as client:
        yield client


def _move_to_this_machine(database: Path) -> None:
    """Nodes are named after their machine."""
    with sqlite3.connect(database) as connection:
        for table in ("attempts", "sessions"):
            connection.execute(
                f"UPDATE {table} SET placement = replace(placement, ?, ?)",
                (f'"{TOLD["machine"]}-', f'"{_here()}-'),
            )
    connection.close()


def _here() -> str:
    return socket.gethostname().partition(".")[0]


def holds(now: Any, before: Any) -> bool:
    """Whether the new response contains the old one; it may have more."""
    if isinstance(before, dict):
        return isinstance(now, dict) and all(key in now and holds(now[key], before[key]) for key in before)
    if isinstance(before, list):
        return isinstance(now, list) and len(now) == len(before) and all(map(holds, now, before))
    return bool(now == before)


def job(http: httpx.Client, name: str) -> dict[str, Any]:
    found: dict[str, Any] = http.get(f"jobs/{IDS[name]}").raise_for_status().json()
    return found


def is_running(http: httpx.Client, name: str) -> bool:
    return bool(job(http, name)["state"] == "running")


def test_an_upgraded_state_is_complete(http: httpx.Client) -> None:
    answers: dict[str, Any] = TOLD["answers"]
    for path in ("pool/file", *(path for path in answers if path.endswith("/outputs"))):
        assert holds(http.get(path).json(), answers[path]), path
    for path in (path for path in answers if path.endswith("/logs")):
        assert http.get(path).text == answers[path]
    (session,) = http.get("sessions").json()["sessions"]
    (before,) = answers["sessions"]["sessions"]
    before["workers"][0]["node"] = f"{_here()}-build"
    assert holds(session, before)
    jobs = http.get("jobs?limit=500").raise_for_status().json()["jobs"]
    for now, before in zip(jobs, answers["jobs?limit=500"]["jobs"], strict=True):
        volatile = set() if before["ended"] is not None else OF_A_PLAN
        if before["state"] == "running":  # its workers ended with their machine
            volatile |= {"state", "attempts", "started"}
        lasting = {key: value for key, value in before.items() if key not in volatile}
        assert holds(now, lasting), before["name"]


def test_an_upgraded_state_takes_schedules(http: httpx.Client) -> None:
    assert http.get("schedules").json() == {"schedules": []}
    sent = {"cron": "0 2 * * *", "timezone": "Europe/Berlin", "job": {"command": ["true"]}}
    added = http.post("schedules", json=sent).raise_for_status().json()
    ran = http.post(f"schedules/{added['id']}/run").raise_for_status().json()
    assert http.get("jobs", params={"schedule": added["id"]}).json()["jobs"][0]["id"] == ran["id"]


def test_a_job_whose_workers_are_gone_runs_again(http: httpx.Client, service: Service) -> None:
    service.until(lambda: len(job(http, "member 0")["attempts"]) == 2)
    first, _ = job(http, "member 0")["attempts"]
    assert (first["number"], first["ending"]) == (1, "lost")


def test_a_waiting_job_waits_for_the_same(http: httpx.Client, service: Service) -> None:
    """An array continues one by one. When it ends, a job after its end starts; one after its success never will."""
    assert http.post(f"jobs/{IDS['gang']}/cancel").is_success
    for number in range(3):
        name = f"member {number}"
        service.until(partial(is_running, http, name))
        waiting = [job(http, f"member {later}") for later in range(number + 1, 3)]
        assert {each["blocked_by"]["kind"] for each in waiting} <= {"array"}
        assert job(http, "after all")["blocked_by"]["jobs"] == [IDS["array"]]
        assert http.post(f"jobs/{IDS[name]}/cancel").is_success
    service.until(lambda: job(http, "after all")["state"] == "succeeded")
    assert job(http, "after success")["state"] == "cancelled"


def test_an_idempotency_key_of_before_still_holds(http: httpx.Client) -> None:
    again = http.post("jobs", json={"command": ["true"]}, headers={"Idempotency-Key": "key-of-done"})
    assert again.json()["id"] == IDS["done"]


def test_a_paused_job_is_resumed(http: httpx.Client, service: Service) -> None:
    for name in ("member 0", "member 1", "member 2", "gang"):
        assert http.post(f"jobs/{IDS[name]}/cancel").is_success
    assert http.post(f"jobs/{IDS['paused']}/resume").is_success
    service.until(lambda: job(http, "paused")["state"] == "running")
