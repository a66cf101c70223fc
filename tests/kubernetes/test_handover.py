"""Jobs that Kueue or KAI places: the real Kueue on a real kubelet, and KAI's resource definitions on the API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler.schema import JobView
from tests.app.conftest import until
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.kueue import GPU, Kueue, running_kueue
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


def foreign(name: str, queue: str, gpus: int) -> dict[str, Any]:
    """A pod of somebody else in a queue of Kueue."""
    container = {"name": "any", "image": "tests.local/none", "resources": {"limits": {GPU: gpus}}}
    labels = {"kueue.x-k8s.io/queue-name": queue}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [container]}}
