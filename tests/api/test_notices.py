"""What the API shows of notices: nobody sees or changes what another user has chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.controller.noticing import MOST_PER_HOUR
from scheduler.errors import Unavailable
from scheduler.model import Notice, NoticeChoice
from tests.api.conftest import CALLERS, Start

if TYPE_CHECKING:
    from collections.abc import Sequence

URL = "https://hooks.example.org/secret"
CHOICE = {"channel": "webhook", "address": URL, "events": ["failed"]}


class Courier:
    """Accepts every choice and delivers nothing."""

    def check(self, choice: NoticeChoice) -> None:
        """Everything may be chosen."""

    async def send(self, choice: NoticeChoice, notices: Sequence[Notice]) -> None:
        raise Unavailable("It is down.")


async def test_the_notices_of_a_user_do_not_exist_for_others(start: Start) -> None:
    service = await start()
    owner = service.http["owner"]
    refused = await owner.put("me/notices", json=CHOICE)
    assert (refused.status_code, refused.json()["detail"]) == (422, "This scheduler delivers no notices.")
    service.app.settings["api"].courier = Courier()
    chosen = await owner.put("me/notices", json=CHOICE)
    hidden = {"address": "https://hooks.example.org/…", "shortest_success": 600.0, "waiting": 0, "problem": ""}
    assert chosen.json() == {**CHOICE, **hidden}
    assert (await owner.get("me/notices")).json() == chosen.json()
    for other in ("mate", "stranger", "admin"):
        assert (await service.http[other].get("me/notices")).json()["address"] == ""
    await service.http["mate"].put("me/notices", json={"channel": "none"})
    assert (await owner.get("me/notices")).json() == chosen.json()
    assert "secret" not in (await service.http["admin"].get("audit")).text


async def test_the_address_that_is_not_sent_is_kept_for_the_same_channel(start: Start) -> None:
    service = await start()
    api, owner = service.app.settings["api"], service.http["owner"]
    api.courier = Courier()

    async def choose(**choice: str) -> str:
        assert (await owner.put("me/notices", json=choice)).status_code == 200
        return str(api.controller.notices.of(CALLERS["owner"].name).choice.address)

    assert await choose(channel="webhook", address=f"https://me:key@{URL[8:]}") == f"https://me:key@{URL[8:]}"
    assert "key" not in (await owner.get("me/notices")).text
    assert await choose(channel="webhook") == f"https://me:key@{URL[8:]}"
    assert await choose(channel="slack") == ""
    assert await choose(channel="email", address="ann@example.org") == "ann@example.org"
    assert (await owner.get("me/notices")).json()["address"] == "ann@example.org"
    assert await choose(channel="none") == ""
    assert await choose(channel="email") == ""


async def test_tests_count_as_messages(start: Start) -> None:
    service = await start()
    service.app.settings["api"].courier = Courier()
    owner = service.http["owner"]
    await owner.put("me/notices", json=CHOICE)
    for _ in range(MOST_PER_HOUR):
        tested = await owner.post("me/notices/test")
        assert tested.json() == {"delivered": False, "message": "It is down."}
    assert (await owner.post("me/notices/test")).status_code == 429
