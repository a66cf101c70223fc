"""The priority of a job changes while it waits or runs, for whom it may, and the next plan uses it."""

from __future__ import annotations

from typing import Any

from tests.live.conftest import Live, Open

POOL: dict[str, Any] = {
    "node_pools": [{"name": "train", "environment": "train"}],
    "projects": [{"name": "a", "guaranteed": 8, "members": ["*"], "policy": {"maxima": {"priority": 80}}}],
}


async def change(live: Live, job: str, priority: int, caller: str = "owner") -> Any:
    return await live.service.http[caller].patch(f"jobs/{job}", json={"priority": priority})


async def test_a_changed_priority_counts_in_the_next_plan(open_pool: Open) -> None:
    live = await open_pool(**POOL)
    running, first, second = await live.submit_all(*({"gpus": 4, "workers": 2, "preemptible": n > 0} for n in range(3)))
    assert await live.runs(running, first, second) == [running]
    answer = await change(live, second, 60)
    assert (answer.status_code, answer.json()["priority"]) == (200, 60)
    assert [(await live.job(job))["position"] for job in (second, first)] == [1, 2]
    live.end(running)
    assert await live.runs(first, second) == [second]
    assert (await change(live, second, 40)).status_code == 200  # of a running job, too
    assert await live.runs(first, second) == [first]
    told = [event for event in await live.bench.store.events(0) if event.subject == second]
    assert {event.kind for event in told} == {"job.submitted", "job.state"}


async def test_an_administrators_change_is_audited_and_a_maximum_is_kept(open_pool: Open) -> None:
    live = await open_pool(**POOL)
    job = await live.submit(gpus=1)
    for caller, status in {"owner": 200, "admin": 200, "mate": 403, "stranger": 403, "reader": 403}.items():
        assert (await change(live, job, 70, caller)).status_code == status, caller
    assert (await change(live, job, 75, "admin")).status_code == 200
    (entry,) = (await live.get(f"audit?name={job}"))["entries"]
    assert (entry["user"], entry["action"], entry["kind"]) == ("root", "change", "job")
    assert (entry["before"]["priority"], entry["before"]["owner"], entry["after"]) == (70, "ann", {"priority": 75})
    for caller in ("owner", "admin"):
        refused = await change(live, job, 90, caller)
        assert (refused.status_code, refused.json()["field"]) == (422, "priority")
        assert "maxima.priority of project 'a'" in refused.json()["detail"]
    await live.bench.settled()
    live.end(job)
    await live.bench.settled()
    refused = await change(live, job, 60)
    assert (refused.status_code, refused.json()["detail"]) == (
        409,
        f"Job {job} has succeeded; its priority cannot be changed.",
    )
    assert (await live.job(job))["priority"] == 75
