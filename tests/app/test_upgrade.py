"""A state folder of the last release is brought up to date by this one's start, and holds everything that it held.

`upgrade/state-0.1.0.tar.gz` was left by that release when it was killed; `upgrade/answers-0.1.0.json` is what its API
had told until then. `upgrade/make_state.py` made both.
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
"""What is told of an unfinished job by the latest plan, which is no part of the state."""


@pytest.fixture
def http(service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[httpx.Client]:
    """This release, started on the folder that the last one left on this machine."""
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
    """Nodes are called after their machine."""
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
    """Whether all that was told before is told now; there may be more."""
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


def test_everything_is_there(http: httpx.Client) -> None:
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
        if before["state"] == "running":  # its workers have ended with the machine that they ran on
            volatile |= {"state", "attempts", "started"}
        lasting = {key: value for key, value in before.items() if key not in volatile}
        assert holds(now, lasting), before["name"]


def test_a_job_whose_workers_are_gone_runs_again(http: httpx.Client, service: Service) -> None:
    service.until(lambda: len(job(http, "member 0")["attempts"]) == 2)
    first, _ = job(http, "member 0")["attempts"]
    assert (first["number"], first["ending"]) == (1, "lost")


def test_what_waits_waits_for_the_same(http: httpx.Client, service: Service) -> None:
    """An array goes on one by one. When it is over, a job after its end starts, and one after its success never
    will."""
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


def test_what_was_sent_once_is_not_sent_again(http: httpx.Client) -> None:
    again = http.post("jobs", json={"command": ["true"]}, headers={"Idempotency-Key": "key-of-done"})
    assert again.json()["id"] == IDS["done"]


def test_a_paused_job_is_resumed(http: httpx.Client, service: Service) -> None:
    for name in ("member 0", "member 1", "member 2", "gang"):
        assert http.post(f"jobs/{IDS[name]}/cancel").is_success
    assert http.post(f"jobs/{IDS['paused']}/resume").is_success
    service.until(lambda: job(http, "paused")["state"] == "running")
