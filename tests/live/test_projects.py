"""Each key of a project, quota, user, node pool, and of the pool itself takes effect through the service."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from scheduler.api.access import Caller, Scope
from scheduler.model import BUILD_POOL, GpuType, GroupName, Node, NodeName, NodePoolName, UserName
from tests.live.conftest import Live, Open

FAST = NodePoolName("fast")

TRAIN = [{"name": "train", "environment": "train"}]
FOUR = Node(NodeName("n1"), gpus=4)
EVERYBODY = {"members": ["*"]}


async def with_projects(open_pool: Open, *projects: dict[str, Any], gpus: int = 4) -> Live:
    return await open_pool(replace(FOUR, gpus=gpus), node_pools=TRAIN, projects=projects)


async def counts(live: Live, *projects: str) -> dict[str, int]:
    """The running jobs by project once nothing changes by itself."""
    await live.bench.settled()
    found = {view["name"]: view["running"] for view in (await live.get("projects"))["projects"]}
    return {name: found[name] for name in projects}


async def ask_for_all(live: Live, *projects: str) -> None:
    """One job holds the whole node; behind it, four one-GPU jobs of each project wait until it ends."""
    first = await live.submit(project=projects[0], gpus=4)
    assert await live.runs(first) == [first]
    for name in projects * 4:
        await live.submit(project=name)
    live.end(first)


# -- projects -----------------------------------------------------------------------------------------------


async def test_members_and_groups_decide_whose_jobs_a_project_takes(open_pool: Open) -> None:
    projects = [{"name": "vision", "members": ["ann"]}, {"name": "speech", "groups": ["linguists"]}]
    live = await with_projects(open_pool, *projects)
    assert (await live.job(await live.submit("owner")))["project"] == "vision"
    assert await live.refuses("owner", project="speech") == "project"
    live.service.tokens.callers["mate"] = Caller.of(
        UserName("ben"), frozenset({Scope.SUBMIT}), frozenset({GroupName("linguists")})
    )
    assert (await live.job(await live.submit("mate")))["project"] == "speech"
    assert await live.refuses("mate", project="vision") == "project"


async def test_the_job_that_is_shown_as_over_quota_is_the_one_that_is_stopped(open_pool: Open) -> None:
    """The older job has one GPU and the younger two. The older one loses less work, though it has run longer."""
    later = [0.0]
    projects = [{"name": "a", "guaranteed": 2, **EVERYBODY}, {"name": "b", "guaranteed": 1, **EVERYBODY}]
    live = await open_pool(
        replace(FOUR, gpus=3), clock=lambda: time.time() + later[0], node_pools=TRAIN, projects=projects
    )
    older = await live.submit(project="a")
    assert await live.runs(older) == [older]
    later[0] += 40
    younger = await live.submit(project="a", gpus=2)
    assert await live.runs(younger) == [younger]
    later[0] += 60
    waiting = await live.submit(project="a")
    assert await live.runs(waiting) == []
    shown = {job["id"]: job["over_quota"] for job in (await live.get("jobs"))["jobs"]}
    assert shown == {older: True, younger: False, waiting: False}
    (holder,) = (await live.get(f"jobs/{waiting}/explain"))["holders"]
    assert [(job["id"], job["over_quota"]) for job in holder["jobs"]] == [(older, True), (younger, False)]
    owner = await live.submit(project="b")
    assert await live.runs(older, younger, owner) == [younger, owner]


async def test_guaranteed_gpus_are_reclaimed(open_pool: Open) -> None:
    live = await with_projects(
        open_pool, {"name": "a", **EVERYBODY}, {"name": "b", "guaranteed": 3, "weight": 0, **EVERYBODY}
    )
    await ask_for_all(live, "a", "b")
    assert await counts(live, "a", "b") == {"a": 1, "b": 3}


@pytest.mark.parametrize("where", ["parent", "itself"])
async def test_a_limit_bounds_a_project_and_all_below_its_parent(open_pool: Open, where: str) -> None:
    projects: list[dict[str, Any]] = [{"name": "research"}, {"name": "a", "parent": "research", **EVERYBODY}]
    projects[where == "itself"]["limit"] = 2
    live = await with_projects(open_pool, *projects)
    jobs = await live.submit_all(*[{"project": "a"}] * 4)
    assert await live.runs(*jobs) == jobs[:2]


ROOMY = replace(FOUR, cpus=4000, memory=4096)


@pytest.mark.parametrize(("key", "option"), [("guaranteed_cpus", "cpus"), ("guaranteed_memory_gib", "memory_gib")])
async def test_guaranteed_cpus_and_memory_are_reclaimed(open_pool: Open, key: str, option: str) -> None:
    projects = [{"name": "a", **EVERYBODY}, {"name": "b", key: 2, **EVERYBODY}]
    live = await open_pool(ROOMY, node_pools=TRAIN, projects=projects)
    without_gpus = {"gpus": 0, option: 1}
    first = await live.submit_all(*[{"project": "a", **without_gpus}] * 4)
    assert await live.runs(*first) == first
    others = await live.submit_all(*[{"project": "b", **without_gpus}] * 3)
    assert await live.runs(*others) == others[:2]
    assert (await counts(live, "a", "b")) == {"a": 2, "b": 2}
    view = await live.get("projects/b")
    assert (view[key], view[f"allocated_{option}"]) == (2, 2)


@pytest.mark.parametrize("where", ["parent", "itself"])
@pytest.mark.parametrize(
    ("key", "option", "words"),
    [("limit_cpus", "cpus", "2 CPUs"), ("limit_memory_gib", "memory_gib", "2 GiB of memory")],
)
async def test_a_limit_of_cpus_or_memory_bounds_a_project_and_all_below_its_parent(
    open_pool: Open, key: str, option: str, words: str, where: str
) -> None:
    projects: list[dict[str, Any]] = [{"name": "research"}, {"name": "a", "parent": "research", **EVERYBODY}]
    projects[where == "itself"][key] = 2
    live = await open_pool(ROOMY, node_pools=TRAIN, projects=projects)
    jobs = await live.submit_all(*[{"project": "a", "gpus": 1, option: 1}] * 4)
    assert await live.runs(*jobs) == jobs[:2]
    told = await live.get(f"jobs/{jobs[2]}/explain")
    assert f"{words}; its limit is {words}" in told["reason"]
    assert any("raises the limit" in sentence for sentence in told["would_help"])


async def test_the_surplus_is_divided_by_weight(open_pool: Open) -> None:
    live = await with_projects(
        open_pool, {"name": "a", "weight": 1, **EVERYBODY}, {"name": "b", "weight": 3, **EVERYBODY}
    )
    await ask_for_all(live, "a", "b")
    assert await counts(live, "a", "b") == {"a": 1, "b": 3}


async def test_the_surplus_goes_to_the_project_of_higher_priority(open_pool: Open) -> None:
    live = await with_projects(open_pool, {"name": "a", **EVERYBODY}, {"name": "b", "priority": 1, **EVERYBODY})
    await ask_for_all(live, "a", "b")
    assert await counts(live, "a", "b") == {"a": 0, "b": 4}


# -- quotas -------------------------------------------------------------------------------------------------

TWO_POOLS = [{"name": "train", "environment": "train"}, {"name": "fast", "environment": "train"}]
TYPES = (
    Node(NodeName("n1"), gpus=2, gpu_type=GpuType("H100")),
    Node(NodeName("n2"), gpus=2, gpu_type=GpuType("A100"), node_pool=FAST),
)


@pytest.mark.parametrize("part", [{"node_pool": "fast"}, {"gpu_type": "A100"}])
async def test_a_quota_limits_a_project_in_a_node_pool_or_on_a_type(open_pool: Open, part: dict[str, Any]) -> None:
    projects = [{"name": "a", "quotas": [{**part, "limit": 1}], **EVERYBODY}]
    live = await open_pool(*TYPES, node_pools=TWO_POOLS, projects=projects)
    jobs = await live.submit_all(*[{"node_pools": ["fast"], "gpu_types": ["A100"]}] * 2)
    assert await live.runs(*jobs) == jobs[:1]
    elsewhere = await live.submit()
    assert await live.nodes_of(elsewhere) == ["n1"]


@pytest.mark.parametrize("part", [{"node_pool": "fast"}, {"gpu_type": "A100"}])
async def test_a_quota_guarantees_gpus_of_a_node_pool_or_of_a_type(open_pool: Open, part: dict[str, Any]) -> None:
    quotas = [{**part, "guaranteed": 2}]
    projects = [{"name": "a", **EVERYBODY}, {"name": "b", "quotas": quotas, **EVERYBODY}]
    live = await open_pool(*TYPES, node_pools=TWO_POOLS, projects=projects)
    over = await live.submit_all(*[{"project": "a"}] * 4)
    assert await live.runs(*over) == over
    due = await live.submit(project="b", gpus=2)
    assert await live.nodes_of(due) == ["n2"]


# -- node pools ---------------------------------------------------------------------------------------------


async def test_a_node_pool_serves_the_environment_that_it_is_for(open_pool: Open) -> None:
    node_pools = [{"name": "fast", "environment": "train"}, {"name": "desks", "environment": "build"}]
    live = await open_pool(
        Node(NodeName("n1"), gpus=1, node_pool=NodePoolName("desks")),
        Node(NodeName("n2"), gpus=1, node_pool=FAST),
        node_pools=node_pools,
    )
    assert await live.nodes_of(await live.submit(node_pools=["fast"])) == ["n2"]
    assert await live.refuses(node_pools=["desks"]) == "node_pools"
    lease = await live.service.http["owner"].post("sessions", json={"user": "ann"})
    assert lease.json()["workers"][0]["node"] == "n1"


@pytest.mark.parametrize(("placement", "nodes"), [("pack", {"n1"}), ("spread", {"n1", "n2"})])
async def test_a_node_pool_packs_jobs_or_spreads_them(open_pool: Open, placement: str, nodes: set[str]) -> None:
    node_pools = [{**TRAIN[0], "placement": placement}]
    live = await open_pool(FOUR, replace(FOUR, name=NodeName("n2")), node_pools=node_pools)
    jobs = await live.submit_all({}, {})
    assert {node for job in jobs for node in await live.nodes_of(job)} == nodes


@pytest.mark.parametrize("topology", [[], ["rack"]])
async def test_topology_names_the_levels_that_a_job_may_require(open_pool: Open, topology: list[str]) -> None:
    racks = [Node(NodeName(f"n{n}"), gpus=1, labels={"rack": f"r{n % 2}"}) for n in range(4)]
    live = await open_pool(*racks, node_pools=TRAIN, topology=topology)
    gang: dict[str, Any] = {"workers": 2, "require": "rack"}
    if not topology:
        assert await live.refuses(**gang) == "require"
        return
    assert set(await live.nodes_of(await live.submit(**gang))) in ({"n0", "n2"}, {"n1", "n3"})


async def test_a_drained_node_keeps_its_jobs_and_gets_no_others(open_pool: Open) -> None:
    live = await open_pool(FOUR, replace(FOUR, name=NodeName("n2")), node_pools=TRAIN)
    runs = await live.submit(gpus=4)
    (node,) = await live.nodes_of(runs)
    await live.apply(node_pools=TRAIN, drained={node: "ECC errors"})
    await live.apply(node_pools=TRAIN)  # without the key
    first, second = await live.submit_all(*[{"gpus": 4}] * 2)
    assert await live.runs(runs, first, second) == [runs, first]
    live.end(runs)
    assert await live.runs(first, second) == [first]
    views = {view["name"]: view for view in (await live.get("pool"))["nodes"]}
    assert (views[node]["schedulable"], views[node]["drained"]) == (False, "ECC errors")
    returned = await live.service.http["admin"].delete(f"nodes/{node}/drain")
    assert returned.status_code == 204, returned.text
    assert await live.runs(first, second) == [first, second]
    entries = (await live.get("audit?kind=pool"))["entries"]
    assert [(entry["before"], entry["after"]) for entry in entries] == [
        ({f"drained.{node}": "ECC errors"}, {f"drained.{node}": None}),
        ({f"drained.{node}": None}, {f"drained.{node}": "ECC errors"}),
    ]
    gone = await live.service.http["admin"].put("nodes/nowhere/drain", json={"reason": ""})
    assert gone.json()["detail"] == "There is no node 'nowhere'."


async def test_a_moved_node_keeps_its_jobs_and_serves_its_new_node_pool(open_pool: Open) -> None:
    live = await open_pool(FOUR, replace(FOUR, name=NodeName("n2")))
    admin = live.service.http["admin"]
    runs = await live.submit(gpus=4)
    (node,) = await live.nodes_of(runs)
    path, to_build = f"nodes/{node}/node-pool", {"node_pool": "build"}

    preview = (await admin.put(f"{path}?preview=true", json=to_build)).json()
    assert preview["changes"][0]["after"] == {f"moved.{node}": "build"}
    assert f"1 job holds GPUs of {node} and keeps them until it ends." in preview["warnings"]
    assert (await live.get("audit"))["entries"][0]["after"] != {f"moved.{node}": "build"}
    assert await lease(live, "ann", 1) == 422  # nothing to build with

    assert (await admin.put(path, json=to_build)).status_code == 200
    file = await live.get("pool/file")
    await live.apply(**{key: value for key, value in file.items() if key != "moved"})
    assert await live.runs(runs) == [runs]
    first, second = await live.submit_all({"gpus": 4}, {"gpus": 4})
    assert await live.runs(runs, first, second) == [runs, first]
    live.end(runs)
    assert await live.runs(first, second) == [first]
    assert await lease(live, "ann", 1) == 201
    entry = (await live.get("audit?kind=pool"))["entries"][0]
    assert (entry["user"], entry["before"], entry["after"]) == (
        "root",
        {f"moved.{node}": None},
        {f"moved.{node}": "build"},
    )

    preview = (await admin.put(f"{path}?preview=true", json={"node_pool": "train"})).json()
    assert any(warning.startswith("1 notebook server holds GPUs of") for warning in preview["warnings"])
    assert [(effect["action"], effect["jobs"]) for effect in preview["effects"]] == []
    await live.apply(**{**file, "moved": {}})
    assert (await live.get("pool/file"))["moved"] == {}
    assert await live.refuses_pool(**{**file, "moved": {node: "nowhere"}}) == f"moved.{node}"
    lost = await admin.put(path, json={"node_pool": "nowhere"})
    assert lost.json()["detail"] == (
        "There is no node pool 'nowhere'; available: build, train. New ones are added in the pool file."
    )
    gone = await admin.put("nodes/nowhere/node-pool", json=to_build)
    assert gone.json()["detail"] == "There is no node 'nowhere'."


async def test_the_rules_that_hold_are_listed_with_their_sources(open_pool: Open) -> None:
    live = await open_pool(
        policy={"defaults": {"max_runtime": 3600}, "maxima": {"gpus": 4}},
        projects=[
            {"name": "research", "policy": {"maxima": {"gpus": 2}, "allowed": {"preemptible": [True]}}},
            {"name": "vision", "parent": "research", "policy": {"defaults": {"retries": 0}, "maxima": {"gpus": 3}}},
        ],
    )
    found = {
        policy["project"]: {(r["part"], r["name"]): (r["value"], r["source"]) for r in policy["rules"]}
        for policy in (await live.get("policies"))["policies"]
    }
    inherited = {("defaults", "max_runtime"): (3600, None)}
    of_research = {("maxima", "gpus"): (2, "research"), ("allowed", "preemptible"): ([True], "research")}
    assert found == {
        None: {**inherited, ("maxima", "gpus"): (4, None)},
        "research": {**inherited, **of_research},
        "vision": {**inherited, **of_research, ("defaults", "retries"): (0, "vision")},
    }


async def test_a_pool_that_has_changed_meanwhile_is_not_overwritten(open_pool: Open) -> None:
    live = await open_pool()
    admin = live.service.http["admin"]
    read = await admin.get("pool/file")
    seen, file = {"If-Match": read.headers["ETag"]}, read.json()
    assert (await admin.post("pool/apply", json={**file, "keep_days": 30}, headers=seen)).status_code == 200
    late = await admin.post("pool/apply", json={**file, "keep_days": 60}, headers=seen)
    assert late.status_code == 412
    assert late.json()["detail"] == "The pool has been changed meanwhile; look at it again, then repeat your change."
    assert (await live.get("pool/file"))["keep_days"] == 30


# -- users --------------------------------------------------------------------------------------------------


async def lease(live: Live, user: str, gpus: float) -> int:
    answer = await live.service.http["admin"].post("sessions", json={"user": user, "gpus": gpus})
    return int(answer.status_code)


async def test_a_user_of_a_name_has_a_build_quota_and_the_others_the_default(open_pool: Open) -> None:
    users = [{"name": "ann", "build_quota": 3}]
    live = await open_pool(Node(NodeName("desk"), gpus=4, node_pool=BUILD_POOL), users=users, default_build_quota=0.5)
    assert await lease(live, "ann", 4) == 422
    assert await lease(live, "ann", 3) == 201
    assert await lease(live, "ben", 1) == 422
    assert await lease(live, "ben", 0.5) == 201


async def test_a_user_of_groups_has_the_largest_of_their_build_quotas(open_pool: Open) -> None:
    live = await open_pool(
        Node(NodeName("desk"), gpus=4, node_pool=BUILD_POOL),
        users=[{"name": "ann", "build_quota": 1}],
        groups=[{"name": "ml-101", "build_quota": 2}, {"name": "staff", "build_quota": 3}],
    )

    async def lease(user: str, gpus: float, groups: list[str], by: str = "admin") -> int:
        sent = {"user": user, "gpus": gpus, "groups": groups}
        return int((await live.service.http[by].post("sessions", json=sent)).status_code)

    assert await lease("ben", 4, ["ml-101", "staff"]) == 422
    assert await lease("ben", 3, ["ml-101", "staff"]) == 201
    assert await lease("eve", 2, ["ml-102"]) == 422
    assert await lease("ann", 2, ["staff"]) == 422  # ann has her own quota
    assert await lease("ann", 1, ["staff"], by="owner") == 403  # users may not set their own groups
    assert await live.refuses_pool(groups=[{"name": "staff"}, {"name": "staff"}]) == "groups[1].name"


async def test_more_build_gpus_than_there_are_are_promised_only_with_build_overcommit(
    open_pool: Open,
) -> None:
    live = await open_pool(Node(NodeName("desk"), gpus=1, node_pool=BUILD_POOL), FOUR)
    users = [{"name": name, "build_quota": 1} for name in ("ann", "ben")]
    assert await live.refuses_pool(users=users) == "users"
    await live.apply(users=users, build_overcommit=True)
    assert await lease(live, "ann", 1) == 201


# -- the pool -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("keep_days", "there"), [(1e-9, False), (None, True)])
async def test_ended_jobs_are_deleted_after_keep_days(open_pool: Open, keep_days: float | None, there: bool) -> None:
    live = await open_pool(FOUR, node_pools=TRAIN, keep_days=keep_days)
    job = await live.submit()
    assert await live.runs(job) == [job]
    live.end(job)
    await live.bench.settled()
    await live.bench.controller.tidy()
    assert ((await live.service.http["owner"].get(f"jobs/{job}")).status_code == 200) == there
