"""Two schedulers on a real cluster, one of them elected by a Lease, with their state in a real PostgreSQL."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from hub_spawner.ports import any_free
from scheduler.client import Client
from scheduler.schema import JobSubmit
from tests.app.conftest import Service, end_all, until
from tests.chaos.campaign import tell
from tests.kubernetes.cluster import HOST, Cluster
from tests.kubernetes.forwarding import Address, forwarded
from tests.kubernetes.images import PYTHON
from tests.kubernetes.node import Node
from tests.kubernetes.programs import eventually
from tests.store.conftest import postgresql_server, postgresql_url

__all__ = ["postgresql_server", "postgresql_url"]


LEASE_SECONDS = 6
"""Longer than the default: on an overloaded machine, a leader may not be able to renew it in two seconds."""


class Replica:
    """One of the schedulers."""

    def __init__(self, service: Service, *options: str) -> None:
        self.port = any_free()
        self.process: subprocess.Popen[bytes] = service.spawn(f"--port={self.port}", *options)
        self.url = f"http://127.0.0.1:{self.port}/"

    def status(self, path: str = "readyz") -> int:
        try:
            return httpx.get(f"{self.url}{path}", trust_env=False, timeout=1).status_code
        except httpx.TransportError:
            return 0

    def is_ready(self) -> bool:
        return self.status() == 200

    def stands_by(self) -> bool:
        return self.status() == 503 and self.status("healthz") == 200


class Replicas(Service):
    def __init__(self, folder: Path, cluster: Cluster, namespace: str, db_url: str) -> None:
        self.pods_port = any_free()
        self.cluster = cluster
        self.path = f"/api/v1/namespaces/{namespace}"
        self.lease_path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/runai-default"
        config = folder / "config.py"
        config.write_text(
            "c.RunaiService.standby = True\n"
            f"c.Kubernetes.kubeconfig = {str(cluster.kubeconfig)!r}\n"
            f"c.Kubernetes.lease_seconds = {LEASE_SECONDS}\n"
            f"c.Kubernetes.namespace = {namespace!r}\n"
            f"c.Kubernetes.image = {PYTHON!r}\n"
            f"c.Kubernetes.url = 'http://{HOST}:{self.pods_port}/'\n"
            "own = {'name': 'worker', 'imagePullPolicy': 'Never'}\n"
            "c.Kubernetes.pod_template = {'spec': {'containers': [own]}}\n"
        )
        super().__init__(folder, "--engine=kubernetes", "--ip=0.0.0.0", f"--db-url={db_url}", f"--config={config}")

    def two(self, *options: str) -> tuple[Replica, Replica]:
        """A leader, with its own options, and its standby."""
        leader = Replica(self, *options)
        until(leader.is_ready)
        standby = Replica(self)
        until(standby.stands_by)
        return leader, standby

    def lease(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.cluster.api.get(self.lease_path).json()["spec"]
        return spec

    def token(self) -> str:
        found = self.folder.read_token()
        assert found is not None
        return found

    def objects(self, kind: str) -> list[dict[str, Any]]:
        label = {"labelSelector": "app.kubernetes.io/managed-by=jupyter-runai"}
        items: list[dict[str, Any]] = self.cluster.api.get(f"{self.path}/{kind}", params=label).json()["items"]
        return items

    def leader(self) -> Address | None:
        """As the chart's Service does: connections go to the ready scheduler."""
        endpoint = self.folder.endpoint()
        return None if endpoint is None else ("127.0.0.1", urlsplit(endpoint.url).port or 0)


@pytest.fixture
def service(tmp_path: Path, cluster: Cluster, namespace: str, postgresql_url: str) -> Iterator[Replicas]:
    found = Replicas(tmp_path, cluster, namespace, postgresql_url)
    yield found
    end_all(tmp_path)
    for process in found.spawned:
        process.wait()
    cluster.kubectl("delete", "pods", "--all", "-n", namespace, "--grace-period=1")


def test_jobs_keep_running_when_the_leader_is_killed_and_the_standby_adopts_them(service: Replicas, node: Node) -> None:
    with forwarded(HOST, service.pods_port, service.leader):
        leader, standby = service.two()
        code = "import time\nfor i in range(80):\n    print(i, flush=True)\n    time.sleep(0.1)"
        token = service.token()
        with Client(leader.url, token) as client:
            jobs = [client.submit(JobSubmit(command=["python3", "-c", code])) for _ in range(2)]
            until(lambda: all(client.job(job.id).state == "running" for job in jobs))
        killed = time.monotonic()
        leader.process.kill()
        until(standby.is_ready)
        tell("take-over after kill -9, in seconds", round(time.monotonic() - killed, 2))
        with Client(standby.url, token) as client:
            jobs.append(client.submit(JobSubmit(command=["python3", "-c", code.replace("80", "1")])))
            for job, lines in zip(jobs, (80, 80, 1), strict=True):
                ended = client.wait(job.id, timeout=60)
                assert (ended.state, len(ended.attempts)) == ("succeeded", 1), service.log.read_text()
                assert client.log(job.id).decode() == "".join(f"{i}\n" for i in range(lines))
        kinds = ("pods", "secrets", "services")
        eventually("nothing of the jobs is left", lambda: not any(map(service.objects, kinds)))
    assert service.lease()["leaseTransitions"] == 2


def test_lease_seconds_say_how_long_a_silent_leader_is_waited_for(service: Replicas) -> None:
    leader = Replica(service, "--Kubernetes.lease_seconds=8")
    until(leader.is_ready)
    assert service.lease()["leaseDurationSeconds"] == 8


def test_a_leader_that_stops_releases_the_lease(service: Replicas) -> None:
    leader, standby = service.two()
    ended = time.monotonic()
    leader.process.terminate()
    assert leader.process.wait(30) == 0
    until(standby.is_ready)
    tell("take-over after an orderly end, in seconds", round(time.monotonic() - ended, 2))
    standby.process.terminate()
    assert standby.process.wait(30) == 0
    assert not service.lease().get("holderIdentity")


def test_a_leader_that_cannot_renew_its_lease_ends_before_another_leads(service: Replicas) -> None:
    cut = any_free()
    real = ("127.0.0.1", int(service.cluster.url.rpartition(":")[2]))
    own = service.folder.path.parent / "cut.kubeconfig"
    own.write_text(service.cluster.kubeconfig.read_text().replace(str(real[1]), str(cut)))
    with forwarded("127.0.0.1", cut, real):
        leader, standby = service.two(f"--Kubernetes.kubeconfig={own}")
    until(standby.is_ready)
    assert leader.process.poll() not in (None, 0), "it had ended, and not in good order"


def test_a_suspended_leader_notices_that_it_lost_the_lease(service: Replicas) -> None:
    """It keeps its connection to the database, until the next leader closes it."""
    leader, standby = service.two()
    leader.process.send_signal(signal.SIGSTOP)
    until(standby.is_ready)
    leader.process.send_signal(signal.SIGCONT)
    assert leader.process.wait(30) not in (None, 0)
    assert standby.is_ready()
    header = {"Authorization": f"token {service.token()}"}
    written = httpx.put(f"{standby.url}api/v1/projects/after", headers=header, json={"name": "after"})
    assert written.status_code == 200, written.text
