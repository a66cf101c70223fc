"""Jobs are listed in the order that is asked for, by the service, page by page."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.live.conftest import Live, Open

POOL: dict[str, Any] = {
    "node_pools": [{"name": "train", "environment": "train"}],
    "projects": [{"name": "a", "members": ["*"]}, {"name": "b", "guaranteed": 8, "members": ["*"]}],
}


class Clock:
    ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


async def read(live: Live, **query: Any) -> list[str]:
    """The names of all jobs, in pages of one."""
    names: list[str] = []
    after: dict[str, str] = {}
    while True:
        answer = await live.service.http["admin"].get("jobs", params={"limit": 1, **query, **after})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        names += [job["name"] for job in page["jobs"]]
        if page["next"] is None:
            return names
        after = {"after": page["next"]}


async def test_jobs_are_listed_by_submission_start_gpus_wait_priority_project_and_user(open_pool: Open) -> None:
    clock = Clock()
    live = await open_pool(clock=clock, **POOL)
    await live.submit(name="first", project="b", gpus=4, workers=2, priority=60)
    await live.bench.settled()
    clock.ahead = 60
    long = await live.submit("mate", name="long", project="b", gpus=3)
    clock.ahead = 120
    await live.submit("mate", name="short", project="a", gpus=4, priority=40)
    await live.bench.settled()
    assert await read(live) == ["short", "long", "first"]
    assert await read(live, sort="submitted", order="asc") == ["first", "long", "short"]
    assert (await read(live, sort="started"))[0] == "first"
    assert (await read(live, sort="started", order="asc"))[0] == "first"
    assert await read(live, sort="waiting") == ["long", "short", "first"]
    assert await read(live, sort="gpus") == ["first", "short", "long"]
    assert await read(live, sort="priority", order="asc") == ["short", "long", "first"]
    assert (await read(live, sort="project"))[-1] == "short"
    assert (await read(live, sort="user", order="asc"))[0] == "first"
    for key in ("waiting", "gpus", "priority", "project", "user"):  # unfinished jobs are read from memory
        assert await read(live, sort=key, state=["queued", "running"]) == await read(live, sort=key)
    assert await read(live, sort="gpus", order="asc") == ["long", "short", "first"]
    await live.service.http["admin"].post(f"jobs/{long}/cancel")
    clock.ahead = 600
    assert await read(live, sort="waiting") == ["short", "long", "first"]


@pytest.mark.parametrize("after", ["x", "[]", '[1, "a", "j"]', "1.0_j", "[1, 2]"])
async def test_a_page_of_another_order_is_refused(open_pool: Open, after: str) -> None:
    live = await open_pool(**POOL)
    answer = await live.service.http["owner"].get("jobs", params={"sort": "gpus", "after": after})
    assert (answer.status_code, answer.json()["field"]) == (422, "after")
    assert "with the same sort and order" in answer.json()["detail"]
