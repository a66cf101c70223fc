"""Jobs that Kueue or KAI places: the real Kueue on a real kubelet, and KAI's resource definitions on the API server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from scheduler.engines.agents.tokens import Tokens, Worker
from scheduler.engines.base import UnplacedAttempt
from scheduler.engines.kubernetes import externalschedulers
from scheduler.engines.kubernetes.delegation import ClusterDelegation
from scheduler.engines.kubernetes.gang import Gang
from scheduler.engines.kubernetes.names import pod_name
from scheduler.engines.kubernetes.podviews import WHOLE, Part, PodView
from scheduler.model import JobId, NodePoolName, WorkerPlacement
from scheduler.schema import JobView
from tests.app.conftest import end_all, until
from tests.engines.workplace import launch
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.kueue import GPU, Kueue, running_kueue
from tests.kubernetes.kwok import Kwok
from tests.kubernetes.programs import eventually, find
from tests.kubernetes.service import KubernetesService
from tests.kubernetes.test_service import STUBBORN, python


@pytest.fixture
def kueue(tmp_path: Path, cluster: Cluster, namespace: str) -> Iterator[Kueue]:
    (tmp_path / "kueue").mkdir()
    with running_kueue(cluster, tmp_path / "kueue", namespace) as kueue:
        yield kueue


def reason(service: KubernetesService, job: JobView, said: str) -> bool:
    with service.client() as client:
        return said in client.job(job.id).reason and said in client.explain(job.id).reason


def test_kueue_admits_jobs_and_what_it_preempts_resumes_from_its_checkpoint(
    service: KubernetesService, kueue: Kueue
) -> None:
    kueue.queues({"ours": 2, "theirs": 2})
    with service.config.open("a") as config:
        config.write("c.Kubernetes.placement = 'kueue'\nc.Kubernetes.queues = {'default': 'ours'}\n")
    service.start()
    job = service.submit(*python(STUBBORN), gpus=2, workers=2)
    service.runs(job)
    until(lambda: "first" in service.log_of_now(job))
    (group,) = kueue.workloads()
    assert (group["spec"]["queueName"], group["spec"]["podSets"][0]["count"]) == ("ours", 2)
    (node,) = service.nodes()
    assert "foreign" not in node, "what Kueue has given to jobs is used by jobs"

    waits = service.submit(*python("pass"), gpus=1)
    until(lambda: reason(service, waits, "Kueue: couldn't assign flavors to pod set"))

    other = foreign("other", "theirs", gpus=2)
    service.cluster.create(f"{service.path}/pods", other)
    first = until(lambda: next((a for a in service.job(job).attempts if a.ended is not None), None))
    assert first.ending == "preempted"
    assert "Kueue stopped it: Preempted to accommodate a workload" in first.reason
    assert service.ended(waits).state == "succeeded", "it fits beside theirs"
    until(lambda: reason(service, job, "Kueue: couldn't assign flavors to pod set"))

    service.kill()
    service.start()
    until(lambda: reason(service, job, "Kueue: couldn't assign flavors to pod set"))
    cancelled = service.submit(*python("pass"), gpus=1, workers=3)
    until(lambda: reason(service, cancelled, "Kueue: "))
    with service.client() as client:
        client.cancel(cancelled.id)
    service.cluster.api.delete(f"{service.path}/pods/other")
    ended = service.ended(job)
    assert (ended.state, len(ended.attempts)) == ("succeeded", 2), service.log.read_text()
    assert service.log_of(job) == "again\n"
    service.leaves_nothing()
    until(lambda: not kueue.workloads())


@pytest.fixture
def kai(cluster: Cluster) -> Iterator[Cluster]:
    """With KAI's resource definitions. The test acts for its scheduler."""
    definitions = find("kwok").parent / "kai-crds"
    cluster.kubectl("apply", "--server-side", "-f", str(definitions))
    queue = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "research"}, "spec": {}}
    queues, groups = (f"/apis/scheduling.run.ai/{kind}" for kind in ("v2/queues", "v2alpha2/podgroups"))
    eventually("KAI's resources are served", lambda: all(cluster.api.get(p).is_success for p in (queues, groups)))
    cluster.create(queues, queue)
    yield cluster
    cluster.kubectl("delete", "--wait=false", "-f", str(definitions))


def test_kai_places_the_pods_of_a_group_and_stops_them(
    kai: Cluster, kwok: Kwok, namespace: str, tmp_path: Path
) -> None:
    service = KubernetesService(tmp_path, kai, namespace)
    groups = f"/apis/scheduling.run.ai/v2alpha2/namespaces/{namespace}/podgroups"
    with service.config.open("a") as config:
        config.write("c.Kubernetes.placement = 'kai'\nc.Kubernetes.queues = {'default': 'research'}\n")

    def pods() -> list[dict[str, Any]]:
        return sorted(service.objects("pods"), key=lambda pod: str(pod["metadata"]["name"]))

    def patch(pod: dict[str, Any], *conditions: dict[str, str], **status: str) -> None:
        path = f"{service.path}/pods/{pod['metadata']['name']}/status"
        headers = {"Content-Type": "application/strategic-merge-patch+json"}
        body = {"status": {"conditions": conditions, **status}}
        assert kai.api.patch(path, json=body, headers=headers).is_success

    def other_than(*before: dict[str, Any]) -> list[dict[str, Any]] | None:
        """All pods of the gang, if none of them is one of these."""
        found, known = pods(), {pod["metadata"]["uid"] for pod in before}
        return found if len(found) == 2 and known.isdisjoint(pod["metadata"]["uid"] for pod in found) else None

    try:
        with kwok.nodes(1, labels={"nvidia.com/gpu.product": "NVIDIA-H100"}) as (node,):
            service.start()
            until(lambda: any(each.get("schedulable", True) for each in service.nodes()))
            job = service.submit("train", gpus=2, workers=2, gpu_types=["H100"], require="node")
            (group,) = until(lambda: kai.api.get(groups).json()["items"])
            assert group["spec"] == {"queue": "research", "minMember": 2, "markUnschedulable": True}
            first, second = until(lambda: pods() if len(pods()) == 2 else None)
            name = group["metadata"]["name"]
            for pod in (first, second):
                assert pod["metadata"]["labels"]["kai.scheduler/queue"] == "research"
                assert pod["metadata"]["annotations"]["pod-group-name"] == name
                assert "ownerReferences" not in pod["metadata"], "KAI groups pods by their owner"
                assert pod["spec"]["schedulerName"] == "kai-scheduler"
            affinity = first["spec"]["affinity"]
            (labelled, unlabelled) = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
                "nodeSelectorTerms"
            ]
            pool, product = labelled["matchExpressions"]
            assert (pool["key"], pool["operator"], pool["values"]) == ("runai.jupyter.org/node-pool", "In", ["train"])
            assert product == {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-H100"]}
            assert unlabelled["matchExpressions"][0]["operator"] == "DoesNotExist"
            (together,) = affinity["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            assert together["topologyKey"] == "kubernetes.io/hostname"

            full = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "Queue is full"}
            patch(first, full)
            until(lambda: reason(service, job, "KAI: Queue is full."))

            kai.api.delete(f"{service.path}/pods/{second['metadata']['name']}")
            left = first, second = until(lambda: other_than(first, second))
            service.kill()
            patch(second, phase="Failed")
            service.start()
            first, second = until(lambda: other_than(*left))

            for pod in (first, second):
                name = pod["metadata"]["name"]
                target = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
                kai.create(f"{service.path}/pods/{name}/binding", target)
            until(lambda: _report_all(service, job) == "running")
            workers = service.job(job).attempts[-1].workers
            assert [(worker.node, len(worker.gpus)) for worker in workers] == [(node, 2), (node, 2)]

            stopped = {"type": "DisruptionTarget", "reason": "PreemptionByScheduler", "message": "Reclaimed by b"}
            patch(second, {**stopped, "status": "True"})
            for pod in (first, second):
                kai.api.delete(f"{service.path}/pods/{pod['metadata']['name']}")
            ended = until(lambda: next((a for a in service.job(job).attempts if a.ended is not None), None))
            assert ended.ending == "preempted", ended
            again = group["metadata"]["name"].removesuffix("1") + "2"
            until(lambda: [each["metadata"]["name"] for each in kai.api.get(groups).json()["items"]] == [again])
            with service.client() as client:
                client.cancel(job.id)
            assert service.ended(job).state == "cancelled"
            service.leaves_nothing()
            until(lambda: not kai.api.get(groups).json()["items"])
    finally:
        end_all(tmp_path)
        for process in service.spawned:
            process.wait()


def _report_all(service: KubernetesService, job: JobView) -> str:
    """The job's state. Its workers run once they may start: KWOK's pods have no agents."""
    endpoint, tokens, found = service.folder.endpoint(), Tokens(service.folder), service.job(job)
    assert endpoint is not None
    for rank in range(2 if found.state == "starting" else 0):
        token = tokens.of(Worker(JobId(job.id), found.attempts[-1].number, rank))
        said = {"agent": "a" * 32, "state": "running", "started": time.time()}
        headers = {"Authorization": f"Bearer {token}"}
        httpx.post(f"{endpoint.url}api/v1/agent/state", json=said, headers=headers)
    return str(found.state)


def foreign(name: str, queue: str, gpus: int) -> dict[str, Any]:
    """A pod of somebody else in a queue of Kueue."""
    container = {"name": "any", "image": "tests.local/none", "resources": {"limits": {GPU: gpus}}}
    labels = {"kueue.x-k8s.io/queue-name": queue}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [container]}}


class SlowPods:
    """In the place of `Launching`, of the cluster, and of the views of its objects: pods are deleted when `deleted` is
    set."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.deleted = asyncio.Event()

    def part(self, worker: WorkerPlacement) -> Part:
        return WHOLE

    def ours(self) -> list[PodView]:
        return []

    def pod(self, worker: Worker) -> None:
        return None

    async def offer(self, gang: Gang, wanted: UnplacedAttempt, path: str) -> list[str]:
        self.names |= {pod_name(plan.worker) for plan in gang.plans}
        return []

    async def withdraw(self, names: list[str]) -> None:
        await self.deleted.wait()
        self.names -= set(names)

    async def delete(self, path: str) -> None:
        pass


async def test_a_job_that_is_resumed_while_it_is_withdrawn_is_in_line_again() -> None:
    pods, work = SlowPods(), list[Coroutine[Any, Any, Any]]()
    slow = cast(Any, pods)
    delegation = ClusterDelegation(slow, slow, slow, externalschedulers.Kueue({}), "jobs", work.append)
    wanted = UnplacedAttempt(launch("j", ("true",)), (NodePoolName("train"),))
    await delegation.delegate(wanted)
    withdrawn = asyncio.create_task(delegation.withdraw(JobId("j"), 1))
    await asyncio.sleep(0)
    again = asyncio.create_task(delegation.delegate(wanted))
    await asyncio.sleep(0)
    pods.deleted.set()
    await asyncio.gather(withdrawn, again)
    await asyncio.gather(*work)
    assert pods.names == {"runai-j-1-0"}
