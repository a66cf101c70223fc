"""From one pool to another: the preview, the warnings, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.errors import Conflict
from scheduler.model import (
    BUILD_POOL,
    TRAIN_POOL,
    Environment,
    JobId,
    Node,
    NodeName,
    Pool,
    ProjectName,
    Request,
    WorkerPlacement,
    Workload,
)
from scheduler.pool.changes import changes, refuse_harm, warnings
from scheduler.pool.file import parse, pool_of

NODES = (Node(NodeName("m-build"), 2, node_pool=BUILD_POOL), Node(NodeName("m-train"), 6, node_pool=TRAIN_POOL))


def pool(text: str) -> Pool:
    return pool_of(parse(text), Pool(), now=0.0)


def test_the_same_pool_has_no_changes() -> None:
    assert changes(pool("projects: [{name: a}]"), pool("projects: [{name: a, guaranteed: 0}]")) == []


def test_a_preview_names_what_is_added_changed_and_removed() -> None:
    before = pool("projects: [{name: a, members: [x]}, {name: b}]\nusers: [{name: ada}]")
    after = pool(
        """
        projects: [{name: a, members: [x, y], guaranteed: 2}, {name: c}]
        users: [{name: ada, build_quota: 2}]
        settings: {reservations: 3}
        topology: [rack]
        node_pools: [{name: train, environment: train, gpus: 8}]
        """
    )
    found = [(c.action, c.kind, c.name, c.before, c.after) for c in changes(before, after)]
    assert found[0] == (
        "change",
        "node_pool",
        "train",
        {"gpus": None},
        {"gpus": 8},
    )
    assert found[1][:3] == ("remove", "node_pool", "build")
    assert found[2] == (
        "change",
        "project",
        "a",
        {"guaranteed": 0.0, "members": ["x"]},
        {"guaranteed": 2.0, "members": ["x", "y"]},
    )
    assert [entry[:3] for entry in found[3:]] == [
        ("add", "project", "c"),
        ("remove", "project", "b"),
        ("change", "user", "ada"),
        ("change", "settings", "settings"),
        ("change", "pool", "pool"),
    ]
    assert found[-1][3:] == ({"topology": []}, {"topology": ["rack"]})


JOB = Workload(JobId("j1"), Request(ProjectName("a")), submitted=0.0)
RUNNING = replace(JOB, id=JobId("j2"), running=True, placement=(WorkerPlacement(NodeName("m-train"), (0,)),))
SESSION = replace(RUNNING, id=JobId("s1"), request=Request(ProjectName(""), environment=Environment.BUILD))
A_AND_B = pool("projects: [{name: a}, {name: b}]")


def test_a_project_with_jobs_is_not_deleted() -> None:
    with pytest.raises(Conflict, match=r"Project 'a' cannot be removed while it has 2 unfinished jobs \(j1, j2\)"):
        refuse_harm(A_AND_B, pool("projects: [{name: b}]"), [JOB, RUNNING], NODES)
    refuse_harm(A_AND_B, pool("projects: [{name: a}]"), [JOB, RUNNING], NODES)


def test_a_project_with_jobs_does_not_become_a_parent() -> None:
    with pytest.raises(Conflict, match=r"1 unfinished job \(j1\) and cannot become the parent of 'b'"):
        refuse_harm(A_AND_B, pool("projects: [{name: a}, {name: b, parent: a}]"), [JOB], NODES)


def test_a_session_needs_no_project() -> None:
    refuse_harm(A_AND_B, pool("projects: [{name: c}]"), [SESSION], NODES)


@pytest.mark.parametrize("holder", [RUNNING, SESSION])
def test_held_gpus_do_not_change_their_node_pool(holder: Workload) -> None:
    moved = pool(
        "projects: [{name: a}]\n"
        "node_pools: [{name: build, environment: build, gpus: 3}, {name: train, environment: train}]"
    )
    with pytest.raises(Conflict, match=rf"hold GPUs \({holder.id}\); stop them first"):
        refuse_harm(A_AND_B, moved, [holder], NODES)
    refuse_harm(A_AND_B, moved, [JOB], NODES)


def test_how_nodes_are_filled_may_change_at_any_time() -> None:
    spread = pool(
        "projects: [{name: a}]\nnode_pools: [{name: build, environment: build}, "
        "{name: train, environment: train, placement: spread}]"
    )
    refuse_harm(A_AND_B, spread, [RUNNING], NODES)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "projects: [{name: a, members: [x]}]\nusers: [{name: u, build_quota: 2}, {name: v}]",
            "Build quotas add up to 3 GPUs for 2 users, and there are 2 GPUs for building",
        ),
        (
            "projects: [{name: a, members: [x]}]\ndefault_build_quota: 4",
            "Every user may hold 4 GPUs for building (default_build_quota), and there are 2 GPUs for building.",
        ),
        (
            "projects: [{name: a, guaranteed: 4, members: [x]}, {name: b, guaranteed: 3, members: [x]}]",
            "Projects are guaranteed 7 GPUs together, and there are 6 GPUs for training",
        ),
        (
            "projects: [{name: a, guaranteed: 1}, {name: b, parent: a, guaranteed: 2, members: [x]}]",
            "The projects below 'a' are guaranteed 2 GPUs together, more than the 1 GPU of its own guarantee.",
        ),
        (
            "projects: [{name: a, guaranteed: 1}, {name: b, parent: a, guaranteed: null, members: [x]}]",
            "Project 'a' is guaranteed 1 GPU, and a project below it is guaranteed an unlimited number of GPUs.",
        ),
        ("projects: [{name: a, limit: 0, members: [x]}]", "Project 'a' has a limit of 0 GPUs"),
        ("projects: [{name: a}]", "Nobody may submit to project 'a'; name `members` or `groups`"),
    ],
)
def test_a_promise_that_cannot_be_kept_is_a_warning(text: str, sentence: str) -> None:
    found = warnings(pool(text), NODES, 0.0)
    assert len(found) == 1
    assert sentence in found[0]


def test_build_gpus_are_overcommitted_only_explicitly() -> None:
    kept, broken = "users: [{name: u, build_quota: 2}]", "users: [{name: u, build_quota: 2}, {name: v}]"
    refuse_harm(Pool(), pool(kept), [], NODES)
    with pytest.raises(
        Conflict, match="would add up to 3 GPUs for 2 users, and there are 2 GPUs for building"
    ) as refusal:
        refuse_harm(pool(kept), pool(broken), [], NODES)
    assert refusal.value.field == "users"
    refuse_harm(pool(kept), pool(f"{broken}\nbuild_overcommit: true"), [], NODES)
    refuse_harm(pool(broken), pool(broken), [], NODES)  # a GPU has been lost since: no guarantee is added


def test_a_pool_that_keeps_its_promises_has_no_warnings() -> None:
    text = "projects: [{name: a, guaranteed: 6}, {name: b, parent: a, guaranteed: 6, groups: [g]}]"
    assert warnings(pool(text), NODES, 0.0) == []
