"""Notebook servers that are idle or run for too long are warned and then stopped, as the pool's settings say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from scheduler.controller.sessionidle import FRESH
from scheduler.model import JobState
from scheduler.scenario import read
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
        await self.tell(quiet)
        await self.idle.look()
        return await self.session()

    async def tell(self, quiet: float, **more: bool) -> Any:
        """What the server is to do, when nobody has used it for `quiet` seconds."""
        told = {"server": "lab", "busy": False, "quiet_seconds": quiet, **more}
        return (await self.service.http["owner"].post("sessions/activity", json=told)).json()

    async def session(self) -> Any:
        (session,) = (await self.service.http["owner"].get("sessions")).json()["sessions"]
        return session

    async def audited(self) -> list[tuple[str | None, str, str | None]]:
        """What the audit says of its GPUs, the first entry first."""
        entries = (await self.service.http["admin"].get("audit?kind=session")).json()["entries"]
        said = [((entry["before"] or {}).get("gpus"), entry["after"]) for entry in reversed(entries)]
        return [(before, after["gpus"], after.get("reason")) for before, after in said if "gpus" in after]


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


LEND = 7200
LENDING = {
    "lending": True,
    "session_idle_timeout": TIMEOUT,
    "session_idle_grace": GRACE,
    "session_idle_lend": LEND,
}


@pytest.fixture
async def waiting(lab: Lab) -> str:
    """A job that gets its GPUs only with those of the session: everything else of the pool is in use."""
    await lab.set(**LENDING)
    nodes = (await lab.service.http["admin"].get("pool")).json()["nodes"]
    build, train = (sum(len(n["gpus"]) for n in nodes if n["environment"] == kind) for kind in ("build", "train"))
    full = await lab.service.submit("mate", gpus=train)
    await lab.service.until(full["id"], JobState.RUNNING)
    job = await lab.service.submit("mate", gpus=build)
    await lab.service.controller.settle()
    assert job["state"] == "queued"
    return str(job["id"])


async def test_an_idle_session_lends_its_gpus_and_has_them_back_as_soon_as_it_is_used(
    service: Service, lab: Lab, waiting: str
) -> None:
    """As `session_idle_lend` says."""
    before = await lab.after(0, quiet=0)
    warned = await lab.after(TIMEOUT, quiet=TIMEOUT)
    assert (warned["lends_at"], warned["stops_at"]) == (lab.clock.now + GRACE, lab.clock.now + GRACE + LEND)
    assert warned["reason"].endswith(
        "Its server was idle for 1 h; its GPUs will be lent after 10 min and it will be stopped after 2 h 10 min more "
        "without use."
    )
    assert (await lab.after(GRACE - 1, quiet=TIMEOUT + GRACE - 1))["lent_since"] is None
    lent = await lab.after(1, quiet=TIMEOUT + GRACE)
    await service.until(waiting, JobState.RUNNING)
    assert (lent["lent_since"], lent["lent"], lent["gpus"]) == (lab.clock.now, before["workers"], 1)
    assert [worker["gpus"] for worker in lent["workers"]] == [[]]
    place = f"{before['workers'][0]['node']}"
    assert lent["reason"].startswith(f"Is idle, and lends its GPUs on {place} to jobs until it is used.")

    (snapshot,) = read((await service.http["admin"].get("pool/snapshot")).text)
    assert [w.claim for w in snapshot.workloads if w.claim] == [
        s.claim for s in service.controller.book.sessions.values()
    ]

    await lab.tell(30)  # the last use was before they were lent
    assert (await lab.session())["recalled_since"] is None
    lab.clock.now += 60
    await lab.tell(5)
    recalled = await lab.session()
    assert (recalled["recalled_since"], recalled["stops_at"]) == (lab.clock.now, None)
    await service.until(waiting, JobState.QUEUED)
    await service.controller.settle()
    back = await lab.after(0, quiet=5)
    assert (back["workers"], back["lent_since"], back["lent"], back["stops_at"]) == (before["workers"], None, [], None)
    assert back["reason"] == before["reason"]
    assert await lab.audited() == [("held", "lent", "Idle for 1 h 10 min."), ("lent", "held", None)]
    job = (await service.http["mate"].get(f"jobs/{waiting}")).json()
    assert job["attempts"][0]["reason"] == "The build GPU was on loan, and a session has taken it back."


async def test_gpus_that_are_lent_belong_to_their_owner_alone(lab: Lab, waiting: str) -> None:
    """No other server gets them, and the owner has no more than the quota."""
    await lab.after(TIMEOUT, quiet=TIMEOUT)
    await lab.after(GRACE, quiet=TIMEOUT + GRACE)
    await lab.service.until(waiting, JobState.RUNNING)
    second = await lab.service.http["owner"].post("sessions", json={"user": "ann", "server": "two", "gpus": 1})
    assert (second.status_code, "quota" in second.text) == (409, True)
    third = await lab.service.http["mate"].post("sessions", json={"user": "ben", "server": "", "gpus": 1})
    (worker,) = third.json()["workers"]
    assert (third.status_code, (await lab.session())["lent"] == [worker]) == (201, False)
    fourth = await lab.service.http["stranger"].post("sessions", json={"user": "zoe", "server": "", "gpus": 1})
    assert fourth.status_code == 503
    assert fourth.json()["detail"].startswith("This session needs 1 GPU. None are free")


async def test_a_restart_and_a_closed_server_leave_nothing_lent(lab: Lab, waiting: str) -> None:
    await lab.after(TIMEOUT, quiet=TIMEOUT)
    await lab.after(GRACE, quiet=TIMEOUT + GRACE)
    await lab.service.until(waiting, JobState.RUNNING)
    lab.service.app.settings["api"].book.stop_warnings = {}  # which a new process begins with
    warned = await lab.after(LEND, quiet=TIMEOUT + GRACE + LEND)
    assert (warned["stops_at"], lab.hub.stopped) == (lab.clock.now + GRACE, [])
    await lab.after(GRACE, quiet=TIMEOUT + 2 * GRACE + LEND)
    assert lab.hub.stopped == [("ann", "lab")]
    closed = (await lab.service.http["owner"].delete(f"sessions/{warned['id']}")).json()
    assert (closed["state"], closed["lent"]) == ("ended", [])


async def test_gpus_are_taken_back_once_the_server_has_released_them(service: Service, lab: Lab) -> None:
    await lab.set(session_idle_timeout=TIMEOUT, session_idle_grace=GRACE, session_idle_action="take_back")
    warned = await lab.after(TIMEOUT, quiet=TIMEOUT)
    assert warned["takes_back"]
    assert warned["reason"].endswith("its GPUs will be taken back after 10 min more without use.")
    assert await lab.tell(TIMEOUT, released=True) == {"release": False}  # it was not asked
    await lab.after(GRACE, quiet=TIMEOUT + GRACE)
    assert await lab.tell(TIMEOUT + GRACE) == {"release": True}
    assert (await lab.session())["gpus"] == 1
    assert await lab.tell(TIMEOUT + GRACE, released=True) == {"release": False}
    taken = await lab.after(15, quiet=TIMEOUT + GRACE + 15)
    assert (taken["gpus"], taken["taken_since"], taken["stops_at"]) == (0, lab.clock.now - 15, None)
    assert taken["reason"] == ("Its GPUs were taken back while it was idle. Its server keeps running without them.")
    assert await lab.audited() == [("held", "taken back", "Idle for 1 h 10 min.")]
    another = {"user": "ann", "server": "two", "gpus": 1}
    assert (await service.http["owner"].post("sessions", json=another)).status_code == 201


async def test_a_server_that_does_not_release_its_gpus_is_stopped(lab: Lab) -> None:
    await lab.set(session_idle_timeout=TIMEOUT, session_idle_grace=GRACE, session_idle_action="take_back")
    await lab.after(TIMEOUT, quiet=TIMEOUT)
    asked = await lab.after(GRACE, quiet=TIMEOUT + GRACE)
    await lab.after(asked["stops_at"] - lab.clock.now, quiet=TIMEOUT + GRACE + FRESH)
    assert lab.hub.stopped == [("ann", "lab")]
    closed = (await lab.service.http["owner"].delete(f"sessions/{asked['id']}")).json()
    assert closed["reason"] == "Its server was stopped after 1 h 13 min idle, because it did not release its GPUs."


async def test_a_user_or_a_group_may_have_other_idle_rules(service: Service, lab: Lab) -> None:
    """The first exception that names the user or a group counts; what it does not say is as for everybody."""
    course = {"groups": ["ml-101"], "timeout": 60, "grace": 120, "lend": 300, "action": "take_back"}
    exceptions = [{"users": ["ann"], "timeout": 2 * TIMEOUT}, course, {"groups": ["ml-101"], "timeout": 1}]
    rules = {"session_idle_timeout": TIMEOUT, "session_idle_grace": GRACE, "session_idle_exceptions": exceptions}
    await lab.set(lending=True, **rules)
    opened = {"user": "zoe", "server": "lab", "gpus": 1, "groups": ["ml-101"]}
    student = (await lab.service.http["admin"].post("sessions", json=opened)).json()["id"]
    quiet = {"server": "lab", "busy": False, "quiet_seconds": 60}
    lab.clock.now += 60
    await lab.service.http["stranger"].post("sessions/activity", json=quiet)
    assert (await lab.after(0, quiet=60))["stops_at"] is None
    (warned,) = (await lab.service.http["stranger"].get("sessions")).json()["sessions"]
    assert (warned["id"], warned["lends_at"], warned["takes_back"]) == (student, lab.clock.now + 120, True)
    assert warned["stops_at"] == lab.clock.now + 120 + 300
    assert (await lab.after(TIMEOUT, quiet=TIMEOUT + 60))["stops_at"] is None
    warned = await lab.after(TIMEOUT - 60, quiet=2 * TIMEOUT)
    assert (warned["stops_at"], warned["takes_back"]) == (lab.clock.now + GRACE, False)


async def test_gpus_are_lent_only_with_lending(lab: Lab) -> None:
    file = (await lab.service.http["admin"].get("pool/file")).json()
    refused = await lab.service.http["admin"].post("pool/apply", json={**file, "settings": {"session_idle_lend": 60}})
    assert (refused.status_code, refused.json()["field"]) == (422, "settings.session_idle_lend")
