"""Notebook servers that are idle or run for too long are warned and then stopped, as the pool's settings say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from scheduler.service.serverstops import ServerStopper
from tests.api.conftest import Service, Start
from tests.api.test_users import Hub

TIMEOUT, GRACE = 3600, 600


@dataclass
class Clock:
    now: float = 1e9

    def __call__(self) -> float:
        return self.now


@dataclass
class Lab:
    """A server of ann behind a scheduler whose clock the test moves."""

    service: Service
    hub: Hub
    clock: Clock
    idle: ServerStopper

    async def set(self, **settings: Any) -> None:
        answer = await self.service.http["admin"].get("pool/file")
        file = {**answer.json(), "settings": settings}
        assert (await self.service.http["admin"].post("pool/apply", json=file)).status_code == 200

    async def after(self, seconds: float, *, quiet: float) -> Any:
        """The session that many seconds later, when nobody has used its server for `quiet` seconds."""
        self.clock.now += seconds
        owner = self.service.http["owner"]
        told = {"server": "lab", "busy": False, "quiet_seconds": quiet}
        await owner.post("sessions/activity", json=told)
        await self.idle.look()
        (session,) = (await owner.get("sessions")).json()["sessions"]
        return session


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def service(start: Start, clock: Clock) -> Service:
    return await start(clock=clock)


@pytest.fixture
async def lab(service: Service, clock: Clock) -> Lab:
    hub = Hub()
    hub.servers = {("ann", "lab")}
    service.tokens.directory = hub
    await service.http["owner"].post("sessions", json={"user": "ann", "server": "lab", "gpus": 1})
    return Lab(service, hub, clock, ServerStopper(service.app.settings["api"]))


async def test_an_idle_server_is_warned_and_stopped_after_the_grace(service: Service, lab: Lab) -> None:
    await lab.set(session_idle_timeout=TIMEOUT, session_idle_grace=GRACE)
    assert (await lab.after(TIMEOUT - 1, quiet=TIMEOUT - 1))["stops_at"] is None
    warned = await lab.after(1, quiet=TIMEOUT)
    assert (warned["stops_at"], warned["stops_because"]) == (lab.clock.now + GRACE, "idle")
    assert warned["reason"].endswith("Its server was idle for 1 h; it will be stopped after 10 min more without use.")
    again = await lab.after(GRACE - 1, quiet=TIMEOUT + GRACE - 1)
    assert (again["stops_at"], lab.hub.stopped) == (warned["stops_at"], [])
    await lab.after(1, quiet=TIMEOUT + GRACE)
    assert lab.hub.stopped == [("ann", "lab")]
    await lab.after(15, quiet=TIMEOUT + GRACE + 15)
    assert lab.hub.stopped == [("ann", "lab")]  # once, while the server ends

    closed = (await service.http["owner"].delete(f"sessions/{warned['id']}")).json()
    assert closed["reason"] == "Its server was stopped after 1 h 10 min idle."
    (entry, *_) = (await service.http["admin"].get("audit")).json()["entries"]
    assert (entry["user"], entry["action"], entry["name"]) == (None, "remove", warned["id"])
    assert entry["after"] == {"reason": closed["reason"]}


async def test_a_server_is_stopped_at_the_longest_duration_although_it_is_used(service: Service, lab: Lab) -> None:
    await lab.set(session_max_duration=12 * 3600, session_idle_grace=GRACE, session_idle_timeout=TIMEOUT)
    assert (await lab.after(12 * 3600 - GRACE - 1, quiet=0))["stops_at"] is None
    warned = await lab.after(1, quiet=0)
    assert (warned["stops_at"], warned["stops_because"]) == (lab.clock.now + GRACE, "max_duration")
    assert warned["reason"].endswith("Its server will be stopped after 10 min: a server may run for 12 h at most.")
    await lab.after(GRACE - 1, quiet=0)
    assert lab.hub.stopped == []
    await lab.after(1, quiet=0)
    assert lab.hub.stopped == [("ann", "lab")]
    closed = (await service.http["owner"].delete(f"sessions/{warned['id']}")).json()
    assert closed["reason"] == "Its server was stopped after 12 h: a server may run for 12 h at most."
    (entry, *_) = (await service.http["admin"].get("audit")).json()["entries"]
    assert (entry["user"], entry["action"], entry["name"]) == (None, "remove", warned["id"])
    assert entry["after"] == {"reason": closed["reason"]}


async def test_a_limit_that_is_set_later_gives_the_whole_grace_and_is_withdrawn_with_the_setting(lab: Lab) -> None:
    await lab.after(24 * 3600, quiet=0)
    await lab.set(session_max_duration=12 * 3600, session_idle_grace=GRACE)
    assert (await lab.after(15, quiet=0))["stops_at"] == lab.clock.now + GRACE
    await lab.set(session_max_duration=48 * 3600, session_idle_grace=GRACE)
    assert (await lab.after(GRACE, quiet=0))["stops_at"] is None
    assert lab.hub.stopped == []


async def test_a_server_that_is_used_within_the_grace_stays(lab: Lab) -> None:
    await lab.set(session_idle_timeout=TIMEOUT, session_idle_grace=GRACE)
    before = await lab.after(60, quiet=60)
    assert (await lab.after(TIMEOUT, quiet=TIMEOUT))["reason"] != before["reason"]
    used = await lab.after(GRACE, quiet=GRACE - 60)
    assert (used["stops_at"], lab.hub.stopped) == (None, [])
    assert used["reason"] == before["reason"]


@pytest.mark.parametrize("settings", [{}, {"session_idle_timeout": 0}])
async def test_without_a_timeout_no_server_is_stopped(lab: Lab, settings: dict[str, Any]) -> None:
    await lab.set(session_idle_timeout=TIMEOUT)
    assert (await lab.after(TIMEOUT, quiet=TIMEOUT))["stops_at"]
    await lab.set(**settings)
    for _ in range(2):
        assert (await lab.after(30 * TIMEOUT, quiet=31 * TIMEOUT))["stops_at"] is None
    assert lab.hub.stopped == []


async def test_after_a_restart_an_idle_server_has_the_whole_grace_again(lab: Lab) -> None:
    await lab.set(session_idle_timeout=TIMEOUT, session_idle_grace=GRACE)
    await lab.after(TIMEOUT, quiet=TIMEOUT)
    lab.service.app.settings["api"].book.stop_warnings = {}  # which a new process begins with
    warned = await lab.after(GRACE, quiet=TIMEOUT + GRACE)
    assert (warned["stops_at"], lab.hub.stopped) == (lab.clock.now + GRACE, [])


async def test_a_hub_that_does_not_answer_is_asked_again(lab: Lab) -> None:
    await lab.set(session_idle_timeout=TIMEOUT, session_idle_grace=GRACE)
    await lab.after(TIMEOUT, quiet=TIMEOUT)
    lab.hub.problem = "The hub does not answer."
    await lab.after(GRACE, quiet=TIMEOUT + GRACE)
    lab.hub.problem = None
    assert lab.hub.stopped == []
    await lab.after(15, quiet=TIMEOUT + GRACE + 15)
    assert lab.hub.stopped == [("ann", "lab")]
