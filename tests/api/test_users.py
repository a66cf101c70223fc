"""Users and groups with their build quotas, and sessions stopped by others than their owners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx

from scheduler.api.access import SPAWNER, Caller, Scope
from scheduler.api.directory import Directory, HubUser
from scheduler.errors import Unavailable
from scheduler.model import GroupName, UserName
from tests.api.conftest import Service, Start


class Hub(Directory):
    """Knows two users; `stopped` has the servers that it was asked to stop."""

    def __init__(self) -> None:
        self.problem: str | None = None
        self.stopped: list[tuple[str, str]] = []
        self.servers = {("ann", "")}

    async def users(self) -> Sequence[HubUser]:
        self._check()
        return [
            HubUser(UserName("ann"), frozenset({GroupName("ml-101")}), 1000.0),
            HubUser(UserName("ben"), frozenset(), None),
        ]

    async def user(self, name: UserName) -> HubUser | None:
        return next((user for user in await self.users() if user.name == name), None)

    async def stop_server(self, user: UserName, server: str) -> bool:
        self._check()
        self.stopped.append((user, server))
        return (user, server) in self.servers

    def _check(self) -> None:
        if self.problem:
            raise Unavailable(self.problem)


async def begin(start: Start) -> tuple[Service, Hub]:
    service, hub = await start(), Hub()
    service.tokens.directory = hub
    service.tokens.callers["spawner"] = Caller.of(SPAWNER, frozenset({Scope.ADMIN}))
    base, headers = f"{service.url}api/v1/", {"Authorization": "token spawner"}
    service.http["spawner"] = httpx.AsyncClient(base_url=base, headers=headers, timeout=30)
    return service, hub


async def listed(service: Service, **query: Any) -> Any:
    return (await service.http["admin"].get("users", params=query)).json()


async def test_the_list_has_the_users_of_the_hub_of_projects_and_of_sessions(start: Start) -> None:
    service, _ = await begin(start)
    admin = service.http["admin"]
    await admin.put("groups/ml-101/build-quota", json={"gpus": 2})
    await admin.post("sessions", json={"user": "eve", "gpus": 0.5})
    found = await listed(service)
    by_name = {user["name"]: user for user in found["users"]}
    assert list(by_name) == ["ann", "ben", "eve", "rex", "zoe"]
    assert (by_name["ann"]["build_quota"], by_name["ann"]["build_quota_group"]) == (2, "ml-101")
    assert (by_name["ann"]["last_activity"], by_name["ben"]["build_quota_source"]) == (1000, "default")
    assert (by_name["eve"]["sessions"], by_name["eve"]["build_gpus"]) == (1, 0.5)
    assert found["groups"] == [{"name": "ml-101", "build_quota": 2, "users": 1}]


async def test_it_is_read_page_by_page_and_by_name_or_group(start: Start) -> None:
    service, _ = await begin(start)
    names, after = [], ""
    while after is not None:
        page = await listed(service, limit=2, after=after)
        names += [user["name"] for user in page["users"]]
        after = page["next"]
    assert (names, page["total"]) == (["ann", "ben", "rex", "zoe"], 4)
    assert [user["name"] for user in (await listed(service, find="ML"))["users"]] == ["ann"]
    assert [user["name"] for user in (await listed(service, find="z"))["users"]] == ["zoe"]


async def test_without_the_hub_it_has_those_of_the_pool_and_says_what_is_missing(start: Start) -> None:
    service, hub = await begin(start)
    hub.problem = "The hub does not answer."
    found = await listed(service)
    assert [user["name"] for user in found["users"]] == ["ann", "ben", "rex", "zoe"]
    assert found["hub_problem"] == "The hub does not answer."


async def test_a_quota_is_set_and_removed_by_name_and_is_on_record(start: Start) -> None:
    service, _ = await begin(start)
    admin, owner = service.http["admin"], service.http["owner"]
    assert (await admin.put("users/ann/build-quota", json={"gpus": 0.25})).status_code == 204
    assert (await owner.get("me")).json()["build_quota"] == 0.25
    refused = await owner.post("sessions", json={"user": "ann", "gpus": 1})
    assert refused.json()["detail"] == "ann's build quota is 0.25 GPUs; ask for no more than that."
    assert (await admin.delete("users/ann/build-quota")).status_code == 204
    assert (await owner.post("sessions", json={"user": "ann", "gpus": 1})).status_code == 201
    again = await admin.delete("users/ann/build-quota")
    assert (again.status_code, again.json()["detail"]) == (404, "The user 'ann' has no build quota of its own.")
    too_fine = await admin.put("groups/ml-101/build-quota", json={"gpus": 0.0001})
    assert (too_fine.status_code, too_fine.json()["field"]) == (422, "gpus")
    too_many = await admin.put("users/ann/build-quota", json={"gpus": 500})
    assert (too_many.status_code, too_many.json()["field"]) == (409, "users")
    await admin.put("groups/a team/of two/build-quota", json={"gpus": 2})
    entries = (await admin.get("audit")).json()["entries"]
    assert [(entry["action"], entry["kind"], entry["name"]) for entry in entries[:3]] == [
        ("add", "group", "a team/of two"),
        ("remove", "user", "ann"),
        ("add", "user", "ann"),
    ]


async def test_ones_own_session_has_the_quota_of_ones_groups(start: Start) -> None:
    service, _ = await begin(start)
    await service.http["admin"].put("groups/ml-101/build-quota", json={"gpus": 2})
    service.tokens.callers["owner"] = Caller.of(
        UserName("ann"), frozenset({Scope.SUBMIT}), frozenset({GroupName("ml-101")})
    )
    owner = service.http["owner"]
    assert (await owner.get("me")).json()["build_quota"] == 2
    assert (await owner.post("sessions", json={"user": "ann", "gpus": 2})).status_code == 201


async def test_who_stopped_a_server_is_on_record_once_its_spawner_has_closed_the_session(start: Start) -> None:
    service, hub = await begin(start)
    admin, spawner = service.http["admin"], service.http["spawner"]
    session = (await service.http["owner"].post("sessions", json={"user": "ann", "gpus": 1})).json()["id"]
    hub.problem = "The hub does not answer."
    refused = await admin.post(f"sessions/{session}/stop")
    assert (refused.status_code, refused.json()["detail"]) == (503, "The hub does not answer.")
    hub.problem = None
    assert (await admin.post(f"sessions/{session}/stop")).status_code == 204
    assert hub.stopped == [("ann", "")]
    assert (await admin.get("sessions")).json()["sessions"]  # until its server has ended
    closed = (await spawner.delete(f"sessions/{session}")).json()
    assert (closed["state"], closed["reason"]) == ("ended", "root stopped its server.")
    (entry, *_) = (await admin.get("audit")).json()["entries"]
    assert (entry["user"], entry["action"], entry["kind"], entry["name"]) == ("root", "remove", "session", session)


async def test_a_session_without_a_server_is_closed_at_once_and_ones_own_is_on_no_record(start: Start) -> None:
    service, hub = await begin(start)
    hub.servers.clear()
    owner, admin = service.http["owner"], service.http["admin"]
    before = len((await admin.get("audit")).json()["entries"])
    for _ in range(2):
        session = (await owner.post("sessions", json={"user": "ann", "gpus": 1})).json()["id"]
        assert (await owner.post(f"sessions/{session}/stop")).status_code == 204
    assert (await owner.get("sessions")).json()["sessions"] == []
    assert len((await admin.get("audit")).json()["entries"]) == before


async def test_a_session_is_idle_since_its_server_has_told_of_the_last_activity(start: Start) -> None:
    now = 1e9
    service = await start(clock=lambda: now)
    owner, mate = service.http["owner"], service.http["mate"]

    async def idle_since() -> Any:
        (session,) = (await owner.get("sessions")).json()["sessions"]
        return session["idle_since"]

    await owner.post("sessions", json={"user": "ann", "server": "lab", "gpus": 1})
    assert await idle_since() is None  # unknown
    now += 100
    told = {"server": "lab", "busy": False, "quiet_seconds": 30}
    assert (await owner.post("sessions/activity", json=told)).json() == {"release": False}
    assert await idle_since() == now - 30
    assert (await owner.post("sessions/activity", json={**told, "busy": True})).status_code == 200
    assert await idle_since() is None
    refused = await mate.post("sessions/activity", json=told)  # the mate has no such server
    assert (refused.status_code, refused.json()["detail"]) == (404, "Your server 'lab' has no session.")
