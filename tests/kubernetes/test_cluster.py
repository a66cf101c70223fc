"""The test cluster of the other Kubernetes tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from tests.kubernetes.cluster import NOBODY, Cluster, needs_cluster
from tests.kubernetes.kwok import Kwok
from tests.kubernetes.programs import eventually

ROOT = Path(__file__).parents[2]

POD = """
{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "{name}"}}, "spec": {{
  "schedulerName": "runai", "containers": [{{"name": "worker", "image": "any",
  "resources": {{"limits": {{"nvidia.com/gpu": "1"}}}}}}]}}}}
"""


def test_a_pod_that_is_bound_to_a_node_of_the_fleet_runs_there(cluster: Cluster, kwok: Kwok, namespace: str) -> None:
    with kwok.nodes(3) as nodes:
        cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=POD.format(name="one"))
        pod = f"/api/v1/namespaces/{namespace}/pods/one"
        assert cluster.api.get(pod).json()["status"]["phase"] == "Pending"
        binding = {"metadata": {"name": "one"}, "target": {"kind": "Node", "name": nodes[1]}}
        cluster.create(f"{pod}/binding", binding)
        eventually("the pod runs", lambda: cluster.api.get(pod).json()["status"]["phase"] == "Running")
        assert cluster.api.get(pod).json()["spec"]["nodeName"] == nodes[1]
    assert cluster.api.get(f"/api/v1/nodes/{nodes[0]}").status_code == 404


def test_permissions_are_those_of_the_token(cluster: Cluster, namespace: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    with cluster.client("no-token-of-this-cluster") as stranger:
        assert stranger.get(pods).status_code == 401
    with cluster.client(NOBODY) as nobody:
        assert nobody.get(pods).status_code == 403
    with cluster.client(cluster.token_of(namespace, "default")) as account:
        assert account.get(pods).status_code == 403
        cluster.kubectl(
            "create",
            "rolebinding",
            "reads",
            "-n",
            namespace,
            "--clusterrole=view",
            f"--serviceaccount={namespace}:default",
        )
        eventually("the right is known", lambda: account.get(pods).is_success)
        assert account.delete(f"{pods}/any").status_code == 403


def test_the_api_server_is_the_same_after_a_kill(cluster: Cluster, namespace: str) -> None:
    cluster.api_server.kill()
    cluster.api_server.start()
    cluster.api_server.wait("the API server is ready again", cluster.is_ready)
    assert cluster.api.get(f"/api/v1/namespaces/{namespace}").is_success


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_runs_after_a_test_that_was_killed(tmp_path: Path, end: signal.Signals) -> None:
    needs_cluster()
    test = textwrap.dedent("""
        import sys, pathlib, signal
        from tests.kubernetes.cluster import Cluster
        cluster = Cluster(pathlib.Path(sys.argv[1]))
        cluster.etcd.start()
        cluster.api_server.start()
        print(cluster.etcd.process.pid, cluster.api_server.process.pid, flush=True)
        signal.pause()
    """)
    command = [sys.executable, "-c", test, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": "."}, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        started = [psutil.Process(int(pid)) for pid in running.stdout.readline().split()]
        assert len(started) == 2
        running.send_signal(end)
    eventually("neither runs", lambda: not any(map(_runs, started)))


def _runs(process: psutil.Process) -> bool:
    """Whether it is running: an ended one stays until its new parent has reaped it."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
