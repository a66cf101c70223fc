"""Real pods: what the kubelet, containerd and runc of a node do with them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.kubernetes.cluster import Cluster, needs_cluster
from tests.kubernetes.images import PYTHON, USER
from tests.kubernetes.node import Node, needs_containers, remove_groups
from tests.kubernetes.programs import PATIENCE, eventually

ROOT = Path(__file__).parents[2]
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}

STOPS = """
import signal, sys, time
def stop(*_):
    print("told to stop", flush=True)
    time.sleep(0.5)
    print("saved", flush=True)
    sys.exit(7)
signal.signal(signal.SIGTERM, stop)
print("works", flush=True)
while True:
    signal.pause()
"""


class Pods:
    """The pods of one namespace, each with one container and one GPU."""

    def __init__(self, cluster: Cluster, namespace: str, node: Node) -> None:
        self.cluster = cluster
        self.node = node
        self.path = f"/api/v1/namespaces/{namespace}/pods"

    def create(self, name: str, *command: str, image: str = PYTHON) -> None:
        """Create a pod that may run in a namespace of the level `restricted`, and bind it to the node."""
        secure = {
            "allowPrivilegeEscalation": False,
            "runAsNonRoot": True,
            "runAsUser": USER,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        container = {
            "name": "worker", "image": image, "imagePullPolicy": "Never", "command": command, "securityContext": secure,
            "resources": {"limits": {"nvidia.com/gpu": "1"}},
        }  # fmt: skip
        spec = {"schedulerName": "tests", "restartPolicy": "Never", "containers": [container]}
        self.cluster.create(self.path, {"metadata": {"name": name}, "spec": spec})
        target = {"metadata": {"name": name}, "target": {"kind": "Node", "name": self.node.name}}
        self.cluster.create(f"{self.path}/{name}/binding", target)

    def status(self, name: str) -> dict[str, Any]:
        answer = self.cluster.api.get(f"{self.path}/{name}")
        assert answer.is_success, answer.text
        status: dict[str, Any] = answer.json()["status"]
        return status

    def log(self, name: str) -> str:
        return self.cluster.api.get(f"{self.path}/{name}/log").text

    def ended(self, name: str) -> dict[str, Any]:
        """How the container of a pod ended."""
        eventually(f"{name} ends", lambda: self.status(name)["phase"] in ("Succeeded", "Failed"))
        ended: dict[str, Any] = self.status(name)["containerStatuses"][0]["state"]["terminated"]
        return ended


@pytest.fixture
def pods(cluster: Cluster, namespace: str, node: Node) -> Pods:
    cluster.kubectl("label", "namespace", namespace, *(f"{key}={value}" for key, value in RESTRICTED.items()))
    return Pods(cluster, namespace, node)


def test_a_bound_pod_runs_as_its_user_and_its_log_comes_through_the_api_server(pods: Pods) -> None:
    pods.create("one", "python3", "-c", "import os, ssl, sqlite3; print('user', os.getuid()); raise SystemExit(3)")
    assert pods.ended("one")["exitCode"] == 3
    assert pods.log("one") == f"user {USER}\n"


def test_eviction_gives_sigterm_and_the_grace_period(pods: Pods) -> None:
    pods.create("one", "python3", "-c", STOPS)
    eventually("it works", lambda: pods.log("one") == "works\n")
    with pods.cluster.api.stream("GET", f"{pods.path}/one/log", params={"follow": "true"}) as log:
        lines = log.iter_lines()
        assert next(lines) == "works"  # the kubelet follows the log before the container ends, and removes it after
        pods.cluster.create(f"{pods.path}/one/eviction", {"metadata": {"name": "one"}})
        assert [*lines] == ["told to stop", "saved"]
    eventually("it is gone", lambda: pods.cluster.api.get(f"{pods.path}/one").status_code == 404)


def test_a_missing_image_is_reported(pods: Pods) -> None:
    pods.create("one", "true", image="tests.local/nowhere:1")

    def reason() -> str:
        waiting = [status["state"].get("waiting", {}) for status in pods.status("one").get("containerStatuses", ())]
        return "".join(state.get("reason", "") for state in waiting)

    eventually("the image is missed", lambda: reason() == "ErrImageNeverPull")


def test_two_pods_have_addresses_of_their_own_and_reach_each_other(pods: Pods) -> None:
    listens = "import socket; s = socket.create_server(('', 5000)); c, _ = s.accept(); print(c.recv(9).decode())"
    pods.create("one", "python3", "-c", listens)
    eventually("it listens", lambda: pods.status("one")["phase"] == "Running")
    address = pods.status("one")["podIP"]
    calls = f"""
import socket, time
while True:
    try:
        socket.create_connection(("{address}", 5000)).sendall(b"hello")
        break
    except ConnectionRefusedError:
        time.sleep(0.05)
"""
    pods.create("two", "python3", "-c", calls)
    assert pods.ended("one")["exitCode"] == 0
    assert pods.log("one") == "hello\n"
    assert pods.status("two")["podIP"] != address


def test_nothing_is_left_of_a_node_whose_test_was_killed(tmp_path: Path) -> None:
    needs_cluster()
    needs_containers()
    test = textwrap.dedent("""
        import sys, pathlib, signal
        from tests.kubernetes.cluster import Cluster
        from tests.kubernetes.images import PYTHON
        from tests.kubernetes.node import Node
        folder = pathlib.Path(sys.argv[1])
        node = Node(Cluster(folder), folder)
        node.start_containerd()
        node.inside("ctr", "--namespace=k8s.io", "run", "--detach", PYTHON, "of-a-killed-test", "sleep", "1000")
        print(node.containerd.process.pid, node.groups, flush=True)
        signal.pause()
    """)
    command = [sys.executable, "-c", test, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": "."}, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        pid, groups = running.stdout.readline().decode().split()
        node = psutil.Process(int(pid))
        processes = [node, *node.children(recursive=True)]
        assert {"containerd", "containerd-shim-runc-v2", "sleep"} <= {Path(process.exe()).name for process in processes}
        running.kill()
    _, left = psutil.wait_procs(processes, timeout=PATIENCE)
    assert not left
    for name in ("k8s.io", groups):
        remove_groups(name)
    assert str(tmp_path) not in Path("/proc/mounts").read_text()
