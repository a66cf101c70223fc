"""Faults of the engine on a real API server: with a simulated kubelet, and with fleets of KWOK's nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from scheduler.engines.base import WorkerState
from scheduler.model import Fault, ForeignUse, JobId, Node, NodeName, Pool
from tests.engines.act import Act
from tests.engines.backends import Scheduler
from tests.engines.workplace import eventually, launch
from tests.kubernetes.backend import NODE, ClusterBackendSetup
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.kwok import Kwok


@pytest.fixture
async def setup(cluster: Cluster, namespace: str, tmp_path: Path) -> ClusterBackendSetup:
    (tmp_path / "state").mkdir(mode=0o700)
    setup = ClusterBackendSetup(tmp_path / "state", cluster, namespace)
    await setup.kubelet.open()
    return setup


class Watched(Scheduler):
    """A scheduler that counts its notices of changed nodes."""

    def __init__(self, setup: ClusterBackendSetup) -> None:
        super().__init__(setup)
        self.told = 0

    def tell(self) -> None:
        self.told += 1

    async def open(self) -> None:
        await self.backend.leadership.acquire()
        await self.backend.inventory.open(self.tell)
        await self.backend.files.open()
        await self.backend.engine.open(self.report)

    def node(self, name: NodeName = NODE) -> Node | None:
        nodes = {node.name: node for node in self.backend.inventory.nodes(Pool())}
        return nodes.get(name)

    async def sees(self, holds: Callable[[Node | None], bool], name: str = NODE) -> None:
        await eventually(lambda: holds(self.node(NodeName(name))))


@pytest.fixture
async def here(setup: ClusterBackendSetup) -> AsyncIterator[Watched]:
    scheduler = Watched(setup)
    await scheduler.open()
    await scheduler.backend.engine.recover([])
    await scheduler.serve()
    try:
        yield scheduler
    finally:
        await scheduler.close()
        await setup.clear()


def pods(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = cluster.api.get(f"/api/v1/namespaces/{namespace}/pods").json()["items"]
    return items


def foreign(name: str, node: str, gpus: int) -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}, "requests": {"cpu": "1500m", "memory": "1Gi"}}
    container = {"name": "any", "image": "any", "resources": resources}
    return {"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [container]}}


# -- nodes and foreign use ----------------------------------------------------------------------------------


async def test_what_the_pods_of_others_use_is_foreign_for_as_long_as_they_are_there(
    here: Watched, cluster: Cluster, kwok: Kwok, namespace: str
) -> None:
    with kwok.nodes(1) as (name,):
        await here.sees(lambda node: node is not None and node.schedulable, name)
        path = f"/api/v1/namespaces/{namespace}/pods"
        cluster.create(path, foreign("theirs", name, 3))
        await here.sees(lambda node: node is not None and node.foreign == ForeignUse((), 3000, 1500, 1024), name)
        told = here.told
        cluster.api.delete(f"{path}/theirs")
        await here.sees(lambda node: node is not None and node.foreign == ForeignUse(), name)
        await eventually(lambda: here.told > told)


async def test_a_node_that_is_cordoned_tainted_or_gone_is_known_as_such(
    here: Watched, cluster: Cluster, kwok: Kwok
) -> None:
    kind = {"Content-Type": "application/merge-patch+json"}

    def change(spec: dict[str, Any]) -> None:
        assert cluster.api.patch(f"/api/v1/nodes/{name}", json={"spec": spec}, headers=kind).is_success

    with kwok.nodes(1) as (name,):
        for closed, opened in (
            ({"unschedulable": True}, {"unschedulable": None}),
            ({"taints": [{"key": "dedicated", "effect": "NoSchedule"}]}, {"taints": None}),
        ):
            await here.sees(lambda node: node is not None and node.schedulable, name)
            change(closed)
            await here.sees(lambda node: node is not None and not node.schedulable, name)
            change(opened)
    await here.sees(lambda node: node is None, name)


async def test_a_pod_of_ours_is_foreign_only_when_it_is_unknown(
    here: Watched, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    before = here.node()  # may have pods that an earlier test has left in another namespace
    assert before is not None
    await here.backend.engine.launch(launch("j", Act(say="one\n", gate=str(gate)).command, workers=2))
    for rank in (0, 1):
        await here.until(lambda rank=rank: WorkerState.RUNNING in here.states("j", rank))  # type: ignore[misc]
    node = here.node()
    assert node is not None
    assert node.foreign.unnumbered <= before.foreign.unnumbered
    gate.touch()
    await here.end("j")
    await eventually(lambda: not pods(cluster, namespace))


# -- the API server -----------------------------------------------------------------------------------------


async def test_work_continues_when_the_api_server_is_back(
    here: Watched, cluster: Cluster, tmp_path: Path, kwok: Kwok
) -> None:
    """Its watch cache is then empty: earlier versions may be too old for it."""
    gate = tmp_path / "gate"
    await here.backend.engine.launch(launch("j", Act(say="one\n", gate=str(gate)).command))
    await here.until(lambda: WorkerState.RUNNING in here.states("j"))
    cluster.api_server.kill()
    await here.backend.engine.launch(launch("k", Act(say="two\n").command))
    try:
        await here.until(lambda: any("cannot be created yet" in each.reason for each in here.of("k")))
    finally:
        cluster.api_server.start()  # the kernel ends it with the thread that has started it
        cluster.api_server.wait("the API server is ready again", cluster.is_ready)
    gate.touch()
    assert (await here.end("j")).exit_code == 0
    assert (await here.end("k")).exit_code == 0
    with kwok.nodes(1) as (name,):
        await here.sees(lambda node: node is not None, name)


# -- failing starts -----------------------------------------------------------------------------------------


async def test_a_quota_that_does_not_allow_all_of_a_gang_allows_none_of_it(
    here: Watched, cluster: Cluster, namespace: str
) -> None:
    quota = {"metadata": {"name": "team"}, "spec": {"hard": {"requests.nvidia.com/gpu": "2"}}}
    cluster.create(f"/api/v1/namespaces/{namespace}/resourcequotas", quota)
    path = f"/api/v1/namespaces/{namespace}/resourcequotas/team"
    await eventually(lambda: "hard" in cluster.api.get(path).json().get("status", {}))
    await here.backend.engine.launch(launch("j", Act(say="one\n").command, workers=3))
    for rank in range(3):
        end = await here.end("j", rank)
        assert (end.state, end.fault) == (WorkerState.LOST, Fault.ENGINE)
        assert "the quota team of its namespace does not allow its pod now" in end.reason
        assert WorkerState.RUNNING not in here.states("j", rank)
    await eventually(lambda: not pods(cluster, namespace))


async def test_pods_start_in_a_namespace_that_was_deleted_and_made_again(
    here: Watched, cluster: Cluster, namespace: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}"
    await here.backend.engine.launch(launch("before", Act(say="one\n").command))
    assert (await here.end("before")).exit_code == 0
    cluster.api.delete(path)
    await eventually(lambda: cluster.api.get(path).status_code == 404)
    await here.backend.engine.launch(launch("without", Act(say="two\n").command))
    end = await here.end("without")
    assert (end.state, end.fault) == (WorkerState.LOST, Fault.ENGINE)
    assert "the namespace of its pods does not exist" in end.reason
    cluster.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    await eventually(lambda: cluster.api.get(f"{path}/serviceaccounts/default").is_success)
    await here.backend.engine.launch(launch("after", Act(say="three\n").command))
    assert (await here.end("after")).exit_code == 0


async def test_a_gang_with_a_node_that_is_gone_is_not_begun_and_avoids_it(
    here: Watched, cluster: Cluster, namespace: str
) -> None:
    await here.backend.engine.launch(launch("j", Act(say="one\n").command, workers=2, node=Node(NodeName("gone"), 8)))
    for rank in (0, 1):
        end = await here.end("j", rank)
        assert (end.state, end.fault) == (WorkerState.LOST, Fault.PLACE)
        assert "node gone is gone" in end.reason
    assert not pods(cluster, namespace)


async def test_a_job_that_is_stopped_before_its_pods_have_begun_never_starts(
    here: Watched, cluster: Cluster, namespace: str, kwok: Kwok
) -> None:
    """On KWOK's nodes a container never begins."""
    with kwok.nodes(1) as (name,):
        await here.sees(lambda node: node is not None and node.schedulable, name)
        await here.backend.engine.launch(launch("j", ("true",), workers=2, node=Node(NodeName(name), 8)))
        await eventually(lambda: sum("nodeName" in pod["spec"] for pod in pods(cluster, namespace)) == 2)
        await here.backend.engine.stop(JobId("j"), 1, 30)
        for rank in (0, 1):
            end = await here.end("j", rank)
            assert (end.state, end.exit_code) == (WorkerState.EXITED, None)
            assert "before it started" in end.reason
        assert not pods(cluster, namespace)


async def test_a_pod_that_was_deleted_while_nobody_listened_is_not_made_again_without_its_secret(
    here: Watched, cluster: Cluster, namespace: str, kwok: Kwok
) -> None:
    """The Secret of the attempt is owned by the deleted pod, so the cluster removes it; here it does so late."""
    secret = f"/api/v1/namespaces/{namespace}/secrets/runai-j-1"
    with kwok.nodes(1) as (name,):
        await here.sees(lambda node: node is not None and node.schedulable, name)
        await here.backend.engine.launch(launch("j", ("true",), node=Node(NodeName(name), 8)))
        await eventually(lambda: any("nodeName" in pod["spec"] for pod in pods(cluster, namespace)))
        await here.close()
        cluster.controller_manager.kill()
        try:
            cluster.api.delete(f"/api/v1/namespaces/{namespace}/pods/runai-j-1-0")
            await eventually(lambda: not pods(cluster, namespace))
            assert cluster.api.get(secret).is_success
            here.backend = here.setup.backend()
            here.reports.clear()
            await here.open()
            await here.backend.engine.recover([(JobId("j"), 1, 1)])
            await here.serve()
            end = await here.end("j")
        finally:
            cluster.controller_manager.start()
        assert (end.state, end.fault) == (WorkerState.LOST, Fault.ENGINE)
        assert "its pod was deleted before it could be bound" in end.reason
        await eventually(lambda: not pods(cluster, namespace))
    await eventually(lambda: cluster.api.get(secret).status_code == 404)


# -- objects of one attempt ---------------------------------------------------------------------------------


async def test_what_an_attempt_has_goes_with_its_first_pod_also_where_no_scheduler_runs(
    here: Watched, cluster: Cluster, namespace: str, kwok: Kwok
) -> None:
    def left() -> list[str]:
        kinds = [cluster.api.get(f"/api/v1/namespaces/{namespace}/{kind}") for kind in ("pods", "secrets", "services")]
        return [item["metadata"]["name"] for kind in kinds for item in kind.json()["items"]]

    with kwok.nodes(1) as (name,):
        await here.sees(lambda node: node is not None and node.schedulable, name)
        await here.backend.engine.launch(launch("j", ("true",), workers=3, node=Node(NodeName(name), 8)))
        await eventually(lambda: sum("nodeName" in pod["spec"] for pod in pods(cluster, namespace)) == 3)
        assert len(left()) == 5
        await here.close()
        cluster.kubectl("delete", "pod", "runai-j-1-0", "-n", namespace, "--wait=false")
        await eventually(lambda: not left())


async def test_the_first_pod_of_a_gang_stays_until_the_others_have_ended(
    here: Watched, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    wait = f'[ "$RUNAI_RANK" = 0 ] || until [ -e {gate} ]; do sleep 0.05; done'
    await here.backend.engine.launch(launch("j", ("sh", "-c", wait), workers=2))
    assert (await here.end("j", 0)).exit_code == 0
    assert {pod["metadata"]["name"] for pod in pods(cluster, namespace)} == {"runai-j-1-0", "runai-j-1-1"}
    gate.touch()
    assert (await here.end("j", 1)).exit_code == 0
    await eventually(lambda: not pods(cluster, namespace))


# -- losses -------------------------------------------------------------------------------------------------


async def test_the_workers_of_a_node_that_is_gone_are_lost_and_avoid_it(
    here: Watched, cluster: Cluster, namespace: str, kwok: Kwok
) -> None:
    with kwok.nodes(1) as (name,):
        await here.sees(lambda node: node is not None and node.schedulable, name)
        await here.backend.engine.launch(launch("j", ("true",), node=Node(NodeName(name), 8)))
        await eventually(lambda: any("nodeName" in pod["spec"] for pod in pods(cluster, namespace)))
    end = await here.end("j")
    assert (end.state, end.fault) == (WorkerState.LOST, Fault.PLACE)


async def test_a_pod_that_others_delete_is_lost_to_its_job_and_the_job_is_not_to_blame(
    here: Watched, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    await here.backend.engine.launch(launch("j", Act(say="one\n", gate=str(gate), term=0).command))
    await here.until(lambda: WorkerState.RUNNING in here.states("j"))
    cluster.api.delete(f"/api/v1/namespaces/{namespace}/pods/runai-j-1-0")
    end = await here.end("j")
    assert (end.state, end.exit_code, end.fault) == (WorkerState.LOST, None, Fault.PLACE)
    assert "its pod was deleted" in end.reason


async def test_an_end_is_reported_when_its_pod_uses_no_resources(
    here: Watched, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    """Otherwise the node would refuse the next pod."""
    phases: list[str] = []
    reported = here.report

    def report(status: Any) -> None:
        if status.state.over:
            phases.extend(pod["status"]["phase"] for pod in pods(cluster, namespace))
        reported(status)

    await here.close()
    here.backend = here.setup.backend()
    here.report = report  # type: ignore[method-assign]
    await here.open()
    await here.backend.engine.recover([])
    await here.serve()
    await here.backend.engine.launch(launch("j", Act(say="one\n", code=3).command))
    assert (await here.end("j")).exit_code == 3
    assert phases in ([], ["Failed"])


async def test_a_worker_that_ended_while_nobody_listened_has_left_its_end_in_its_pod(
    here: Watched, setup: ClusterBackendSetup, tmp_path: Path
) -> None:
    """Its agent was killed before it could report."""
    gate = tmp_path / "gate"
    await here.backend.engine.launch(launch("j", Act(say="one\n", gate=str(gate), code=5).command))
    await here.until(lambda: WorkerState.RUNNING in here.states("j"))
    await here.close()
    gate.touch()
    await eventually(lambda: setup.kubelet.has_left_its_end("runai-j-1-0"))
    setup.kubelet.kill("runai-j-1-0")
    here.backend = here.setup.backend()
    here.reports.clear()
    await here.open()
    await here.backend.engine.recover([(JobId("j"), 1, 1)])
    await here.serve()
    assert (await here.end("j")).exit_code == 5
