"""Each key of a submission takes effect through the running service: one test for each key."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import httpx
import pytest

from scheduler.controller import controller
from scheduler.model import BUILD_POOL, GpuKey, GpuType, JobState, Node, NodeName, NodePoolName
from scheduler.telemetry import GpuUsage
from tests.live.conftest import Live, Open

TRAIN = [{"name": "train", "environment": "train"}, {"name": "fast", "environment": "train"}]
SMALL = Node(NodeName("n1"), gpus=4, gpu_type=GpuType("H100"), gpu_memory=40 * 1024, cpus=8000, memory=64 * 1024)
FAST = Node(
    NodeName("n2"),
    gpus=4,
    gpu_type=GpuType("A100"),
    gpu_memory=80 * 1024,
    cpus=8000,
    memory=64 * 1024,
    node_pool=NodePoolName("fast"),
)
"""By default, jobs start on n1 first."""

PROJECTS = [
    {"name": "vision", "guaranteed": 4, "members": ["*"]},
    {"name": "speech", "guaranteed": 1, "members": ["*"]},
]


async def small(open_pool: Open) -> Live:
    return await open_pool(SMALL, node_pools=TRAIN, projects=PROJECTS)


async def workers(live: Live, job: str) -> list[tuple[str, int, float]]:
    """For each worker of a job's attempt: its node, its number of GPUs, and its share of each."""
    (attempt,) = (await live.job(job))["attempts"]
    return [(each["node"], len(each["gpus"]), each["share"]) for each in attempt["workers"]]


# -- identity and program -----------------------------------------------------------------------------------


async def test_a_job_has_its_name_its_project_and_its_kind(open_pool: Open) -> None:
    live = await small(open_pool)
    job = await live.job(await live.submit(name="try", project="speech", kind="script", command=["python", "t.py"]))
    assert (job["name"], job["project"], job["kind"]) == ("try", "speech", "script")
    assert live.launched(job["id"]).program.command == ("python", "t.py")
    assert [found["id"] for found in (await live.get("jobs?project=speech"))["jobs"]] == [job["id"]]


async def test_a_name_stands_for_the_callers_newest_job_of_that_name(open_pool: Open) -> None:
    live = await small(open_pool)
    older, newer = await live.submit_all({"name": "a try"}, {"name": "a try"})
    theirs = await live.submit("mate", name="a try")
    assert (await live.get("jobs/a%20try", "owner"))["id"] == newer
    assert (await live.get("jobs/a%20try", "mate"))["id"] == theirs
    assert (await live.service.http["stranger"].get("jobs/a%20try")).status_code == 404
    named = await live.submit(name="first")
    behind = await live.submit(after=["first", f"{older}:any"])
    assert (await live.get(f"jobs/{behind}", "owner"))["after"] == [named, f"{older}:any"]
    assert await live.refuses(after=["second"]) == "after"
    (await live.service.http["owner"].post("jobs/a%20try/cancel")).raise_for_status()
    assert [(await live.job(id))["state"] for id in (older, newer, theirs)] == ["running", "cancelled", "running"]
    (await live.service.http["owner"].delete("jobs/a%20try")).raise_for_status()
    assert (await live.get("jobs/a%20try", "owner"))["id"] == older


async def test_a_job_that_names_no_project_goes_where_its_user_has_a_guarantee(open_pool: Open) -> None:
    projects = [{"name": "free", "members": ["*"]}, {"name": "mine", "guaranteed": 1, "members": ["ann"]}]
    live = await open_pool(SMALL, node_pools=TRAIN, projects=projects)
    assert (await live.job(await live.submit()))["project"] == "mine"
    assert (await live.get("me", "owner"))["projects"] == ["mine", "free"]
    assert (await live.job(await live.submit("mate")))["project"] == "free"


# -- resources ----------------------------------------------------------------------------------------------


async def test_each_worker_gets_its_gpus(open_pool: Open) -> None:
    live = await small(open_pool)
    half, gang = await live.submit_all({"gpus": 0.5}, {"gpus": 1, "workers": 2})
    assert await workers(live, half) == [("n1", 1, 0.5)]
    assert await workers(live, gang) == [("n1", 1, 1.0), ("n1", 1, 1.0)]


async def test_gpu_memory_gib_is_a_part_of_one_gpu(open_pool: Open) -> None:
    live = await small(open_pool)
    job = await live.submit(gpu_memory_gib=10)
    assert await workers(live, job) == [("n1", 1, 0.25)]
    assert await live.refuses(gpu_memory_gib=41) == "gpu_memory_gib"


@pytest.mark.parametrize("needs", [{"cpus": 5}, {"memory_gib": 40}])
async def test_cpus_and_memory_gib_fill_a_node(open_pool: Open, needs: dict[str, Any]) -> None:
    live = await small(open_pool)
    jobs = await live.submit_all(needs, needs)
    assert await live.runs(*jobs) == jobs[:1]


@pytest.mark.parametrize("where", [{"gpu_types": ["A100"]}, {"node_pools": ["fast"]}])
async def test_gpu_types_and_node_pools_restrict_a_job(open_pool: Open, where: dict[str, Any]) -> None:
    live = await open_pool(SMALL, FAST, node_pools=TRAIN)
    assert await live.nodes_of(await live.submit()) == ["n1"]
    assert await live.nodes_of(await live.submit(**where)) == ["n2"]


async def test_with_min_workers_it_begins_with_fewer(open_pool: Open) -> None:
    live = await small(open_pool)
    assert await live.refuses(gpus=2, workers=3) == "workers"
    assert len(await workers(live, await live.submit(gpus=2, workers=3, min_workers=1))) == 2


RACKS = [Node(NodeName(name), gpus=1, labels={"rack": rack}) for name, rack in (("a", "r0"), ("b", "r1"), ("c", "r0"))]


@pytest.mark.parametrize("wish", [{"require": "rack"}, {"prefer": "rack"}])
async def test_a_level_is_a_rule_with_require_and_a_wish_with_prefer(open_pool: Open, wish: dict[str, str]) -> None:
    live = await open_pool(*RACKS, node_pools=[{**TRAIN[0], "placement": "spread"}], topology=["rack"])
    anywhere = await live.submit(workers=2)
    assert await live.nodes_of(anywhere) == ["a", "b"]
    live.end(anywhere)
    together = await live.submit(workers=2, **wish)
    assert await live.nodes_of(together) == ["a", "c"]
    live.end(together)
    if "require" in wish:
        assert await live.refuses(workers=3, **wish) == "workers"
    else:
        assert await live.nodes_of(await live.submit(workers=3, **wish)) == ["a", "b", "c"]


# -- queueing -----------------------------------------------------------------------------------------------


async def test_the_higher_priority_starts_first(open_pool: Open) -> None:
    live = await small(open_pool)
    first, low, high = await live.submit_all({"gpus": 4}, {"gpus": 4}, {"gpus": 4, "priority": 51})
    assert await live.runs(first, low, high) == [high]  # which has taken the GPUs of the first
    live.end(high)
    assert await live.runs(first, low, high) == [first]


@pytest.mark.parametrize("preemptible", [True, False])
async def test_a_job_that_is_not_preemptible_keeps_its_gpus(open_pool: Open, preemptible: bool) -> None:
    live = await small(open_pool)
    assert await live.refuses(project="speech", gpus=2, preemptible=False) == "preemptible"
    holds = await live.submit(gpus=4, preemptible=preemptible)
    assert await live.runs(holds) == [holds]
    high = await live.submit(priority=60)
    assert await live.runs(holds, high) == [high if preemptible else holds]


@pytest.mark.parametrize(("min_runtime", "starts"), [(0, True), (3600, False)])
async def test_min_runtime_protects_from_preemption(open_pool: Open, min_runtime: float, starts: bool) -> None:
    live = await small(open_pool)
    holds = await live.submit(gpus=4, min_runtime=min_runtime)
    assert await live.runs(holds) == [holds]
    high = await live.submit(priority=60)
    assert await live.runs(holds, high) == [high if starts else holds]


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("behind", ["", ":any"])
async def test_after_another_job(open_pool: Open, behind: str, code: int) -> None:
    live = await small(open_pool)
    first = await live.submit()
    second = await live.submit(after=[f"{first}{behind}"])
    assert await live.runs(first, second) == [first]
    live.end(first, code=code)
    assert (await live.job(second))["state"] == ("cancelled" if code and not behind else "running")


async def test_retries_are_tried_again(open_pool: Open) -> None:
    live = await small(open_pool)
    job = await live.submit(retries=1)
    for attempts in (1, 2):
        assert len((await live.job(job))["attempts"]) == attempts
        live.end(job, code=1)
    assert (await live.job(job))["state"] == "failed"


# -- run time -----------------------------------------------------------------------------------------------


async def test_max_runtime_ends_it(open_pool: Open) -> None:
    live = await small(open_pool)
    job = await live.submit(max_runtime=0.05)
    await live.service.until(job, JobState.FAILED)
    assert (await live.job(job))["attempts"][-1]["ending"] == "overran"


async def test_idle_timeout_ends_it_when_its_gpus_stand_idle(open_pool: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "LOOK", 0.01)
    minutes: list[Iterator[float]] = []
    monkeypatch.setattr(controller, "monotonic", lambda: next(minutes[0]) if minutes else 0.0)
    live = await open_pool(Node(NodeName("n1"), gpus=2), node_pools=TRAIN)
    live.bench.machines.use = {GpuKey((NodeName("n1"), gpu)): GpuUsage(0.0, 1, 2) for gpu in range(2)}
    patient, impatient = await live.submit_all({}, {"idle_timeout": 60})
    assert await live.runs(patient, impatient) == [patient, impatient]
    minutes.append(count(60.0, 60.0))  # from one check to the next
    await live.service.until(impatient, JobState.FAILED)
    assert (await live.job(impatient))["attempts"][-1]["ending"] == "idle"
    assert await live.runs(patient) == [patient]


async def test_expected_runtime_tells_others_when_they_start(open_pool: Open) -> None:
    live = await small(open_pool)
    first = await live.submit(gpus=4, expected_runtime=600)
    started = (await live.job(first))["started"]
    second = await live.submit(gpus=4)
    await live.bench.settled()
    explained = await live.get(f"jobs/{second}/explain")
    assert explained["estimated_start"] == started + 600


async def test_its_grace_is_given_to_it(open_pool: Open) -> None:
    live = await small(open_pool)
    job = await live.submit(grace=3)
    assert await live.runs(job) == [job]
    await live.service.http["owner"].post(f"jobs/{job}/pause")
    await live.service.until(job, JobState.PAUSED)
    assert live.bench.engine.stops == [(job, 1, 3.0)]


# -- groups -------------------------------------------------------------------------------------------------


async def test_a_gang_of_groups(open_pool: Open) -> None:
    """Each group has its own name, number of workers and shape."""
    live = await open_pool(SMALL, FAST, node_pools=TRAIN)
    groups = [
        {"name": "launcher", "gpus": 0, "cpus": 1, "leader": True},
        {"name": "wide", "workers": 2, "gpus": 2, "memory_gib": 40},
        {"name": "part", "gpu_memory_gib": 20},
    ]
    job = await live.submit(groups=groups)
    found = await workers(live, job)
    assert [(gpus, share) for _, gpus, share in found[:3]] == [(0, 1.0), (2, 1.0), (2, 1.0)]
    assert {node for node, _, _ in found[1:3]} == {"n1", "n2"}  # one node lacks the memory for two of them
    assert found[3][2] == {"n1": 0.5, "n2": 0.25}[found[3][0]]
    assert [group.name for group in live.launched(job).groups] == ["launcher", "wide", "part"]
    live.bench.engine.end(job, 1, 0, 0)
    await live.service.until(job, JobState.SUCCEEDED)  # its leader has succeeded
    for wrong in ({"gpus": 9}, {"cpus": 9}, {"memory_gib": 99}, {"gpu_memory_gib": 99}, {"workers": 99}):
        assert await live.refuses(groups=[{"name": "g", **wrong}])


# -- arrays -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["arrival", "served"])
async def test_the_jobs_of_an_array_start_by_their_index(open_pool: Open, order: str) -> None:
    live = await open_pool(SMALL, node_pools=TRAIN, projects=[{"name": "default", "members": ["*"], "order": order}])
    array = {"job": {"command": ["train"]}, "members": [{"index": n} for n in (100, 10, 9, 2, 1, 0)]}
    answer = await live.service.http["owner"].post("arrays", json=array)
    first, *others = [job["id"] for job in sorted(answer.json()["jobs"], key=lambda job: job["index"])]
    assert await live.runs(first, *others) == [first, *others[:3]]
    live.end(first)
    assert await live.runs(first, *others) == others[:4]


async def test_max_parallel_bounds_the_jobs_of_an_array(open_pool: Open) -> None:
    live = await small(open_pool)
    array = {"job": {"command": ["train"]}, "members": [{"index": n} for n in range(4)], "max_parallel": 2}
    answer = await live.service.http["owner"].post("arrays", json=array)
    jobs = [job["id"] for job in answer.json()["jobs"]]
    assert await live.runs(*jobs) == jobs[:2]
    live.end(jobs[0])
    assert await live.runs(*jobs) == jobs[1:3]


# -- sessions -----------------------------------------------------------------------------------------------


async def test_a_session_is_of_a_user_and_a_server_and_has_its_gpus(open_pool: Open) -> None:
    desk = Node(NodeName("desk"), gpus=2, gpu_memory=40 * 1024, node_pool=BUILD_POOL)
    live = await open_pool(desk, default_build_quota=2)

    async def opened(**session: Any) -> tuple[int, Any]:
        answer = await live.service.http["admin"].post("sessions", json=session)
        return answer.status_code, answer.json()

    first = (await opened(user="ann", server="a", gpus=1))[1]
    assert (first["user"], first["server"], first["gpus"]) == ("ann", "a", 1)
    assert (await opened(user="ann", server="a", gpus=1))[1]["id"] == first["id"]
    second = (await opened(user="ann", server="b", gpu_memory_gib=10))[1]
    assert (second["id"] != first["id"], second["workers"][0]["share"]) == (True, 0.25)
    status, refusal = await opened(user="ann", server="c", gpus=1)
    assert (status, "quota" in refusal["detail"]) == (409, True)
    assert (await opened(user="ben", server="a", gpus=0.5))[0] == 201


async def test_with_may_submit_it_has_a_token_for_the_jobs_that_it_submits(open_pool: Open) -> None:
    live = await small(open_pool)
    other, parent = await live.submit_all({}, {"may_submit": True})
    assert await live.runs(other, parent) == [other, parent]
    assert "RUNAI_TOKEN" not in live.launched(other).env
    token = live.launched(parent).env["RUNAI_TOKEN"]
    http = live.service.http
    http["its job"] = httpx.AsyncClient(
        base_url=f"{live.service.url}api/v1/", headers={"Authorization": f"Bearer {token}"}
    )
    child = await live.submit("its job", gpus=0)
    assert (await live.job(child))["user"] == "ann"
    assert [(await http["its job"].get(f"jobs/{id}")).status_code for id in (child, parent, other)] == [200, 404, 404]
    assert [(await http["its job"].post(f"jobs/{id}/cancel")).status_code for id in (other, child)] == [404, 200]
    assert await live.refuses("its job", may_submit=True) == "may_submit"
    forged = token.replace(parent, other)
    assert (await http["nobody"].get("me", headers={"Authorization": f"Bearer {forged}"})).status_code == 401
    live.end(parent)
    await live.job(parent)
    assert (await live.send("its job")).status_code == 401
