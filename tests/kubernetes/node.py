"""A real node: a kubelet that runs pods with containerd and runc, in its own mount and process namespaces.

The kernel ends all its processes and releases all its mounts with the namespaces, also when the test is killed. Then
only empty cgroups may remain, and IP forwarding stays enabled, as set by the `ptp` plugin.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest
import yaml

from hub_spawner.ports import any_free
from tests.kubernetes.cluster import NUMBER, Cluster, host_of
from tests.kubernetes.dns import DOMAIN, running_dns
from tests.kubernetes.images import PAUSE, pause_image, python_image
from tests.kubernetes.programs import Program, eventually, find, needs_command

CGROUPS = Path("/sys/fs/cgroup")
CNI = Path("/usr/lib/cni")
SHARED = "nvidia.com/gpu.shared"
SOCKET = "/run/containerd/containerd.sock"

INIT = """
set -e
mount --make-rshared /
for folder in /run /var/lib /var/log; do mount -t tmpfs tmpfs $folder; done
"$@" & wait
"""
"""The command that opens the namespaces: files at fixed paths are private to them."""

CONTAINERD = """
version = 2
root = "{folder}/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
restrict_oom_score_adj = true
stream_server_address = "127.0.0.1"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{cni}"
conf_dir = "{folder}/cni"
"""


class Node:
    """A node of a cluster with `gpus` GPUs, at a loopback address that is also its name.

    `place` numbers the nodes of one cluster: 1, 2 and so on. Its pods reach this machine at `host`.
    """

    def __init__(self, cluster: Cluster, folder: Path, *, gpus: int = 8, place: int = 1) -> None:
        self.cluster = cluster
        self.folder = folder
        self.gpus = gpus
        self.name = f"127.0.{place}.{NUMBER}"
        self.host = host_of(place)
        self.path = f"/api/v1/nodes/{self.name}"
        self.groups = f"runai-tests-{NUMBER}-{place}"
        (folder / "cni").mkdir()
        (folder / "cni" / "pods.conflist").write_text(json.dumps(_network(self.host)))
        config = folder / "containerd.toml"
        config.write_text(CONTAINERD.format(folder=folder, socket=SOCKET, pause=PAUSE, cni=CNI))
        (folder / "kubelet.yaml").write_text(yaml.safe_dump(self._kubelet_config()))
        self.containerd = Program(
            "containerd",
            ["--config", config],
            folder,
            wrapper=["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", INIT, "init"],
        )
        self.kubelet: Program | None = None
        self.images = [pause_image(folder), python_image(folder)]

    @contextlib.contextmanager
    def sharing(self, parts: int, strategy: str) -> Iterator[None]:
        """The device plugin shares one GPU among `parts` pods; the node offers no others."""
        labels = {"nvidia.com/gpu.sharing-strategy": strategy, "nvidia.com/gpu.memory": "81920"}
        self._offer("0", str(parts), dict(labels))
        try:
            yield
        finally:
            self._offer(str(self.gpus), "0", dict.fromkeys(labels))

    def _offer(self, gpus: str, parts: str, labels: dict[str, str | None]) -> None:
        amounts = {"nvidia.com/gpu": gpus, SHARED: parts}
        for path, change in (
            (self.path, {"metadata": {"labels": labels}}),
            (f"{self.path}/status", {"status": {"capacity": amounts, "allocatable": amounts}}),
        ):
            kind = {"Content-Type": "application/strategic-merge-patch+json"}
            patched = self.cluster.api.patch(path, content=json.dumps(change), headers=kind)
            assert patched.is_success, patched.text

    def _kubelet_config(self) -> dict[str, object]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.name,
            "port": any_free(),
            "healthzPort": 0,
            "clusterDNS": [self.host],
            "clusterDomain": DOMAIN,
            "authentication": {"x509": {"clientCAFile": str(self.cluster.ca)}, "anonymous": {"enabled": False}},
            "containerRuntimeEndpoint": f"unix://{SOCKET}",
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.groups}",
            "enforceNodeAllocatable": [],
            "localStorageCapacityIsolation": False,
            "makeIPTablesUtilChains": False,
            "evictionHard": {},
            "nodeStatusUpdateFrequency": "2s",
        }

    def start_containerd(self) -> None:
        for hierarchy in CGROUPS.glob("*/cgroup.procs"):
            hierarchy.with_name(self.groups).mkdir(exist_ok=True)
        self.containerd.start()
        self.containerd.wait("containerd answers", self._answers)
        for image in self.images:
            self.load(image)

    def start(self) -> None:
        self.start_containerd()
        credentials = self.cluster.authority.sign(f"node-{self.name}", f"system:node:{self.name}", "system:nodes")
        user = {"client-certificate": str(credentials.cert), "client-key": str(credentials.key)}
        kubeconfig = self.cluster.write_kubeconfig(f"node-{self.name}", user)
        self.kubelet = Program(
            "kubelet",
            [
                f"--config={self.folder / 'kubelet.yaml'}",
                f"--kubeconfig={kubeconfig}",
                f"--hostname-override={self.name}",
                f"--root-dir={self.folder / 'kubelet'}",
                f"--cert-dir={self.folder / 'pki'}",
            ],
            self.folder,
            wrapper=self._enter(),
        )
        self.kubelet.start()
        self.kubelet.wait("the kubelet has its node", lambda: self.cluster.api.get(self.path).is_success)
        amounts = {"nvidia.com/gpu": str(self.gpus)}
        patch = {"status": {"capacity": amounts, "allocatable": amounts}}
        kind = {"Content-Type": "application/strategic-merge-patch+json"}
        patched = self.cluster.api.patch(f"{self.path}/status", json=patch, headers=kind)
        assert patched.is_success, patched.text
        self.kubelet.wait("the node is ready", self.is_ready)

    def is_ready(self) -> bool:
        node = self.cluster.api.get(self.path).json()
        conditions = {condition["type"]: condition["status"] for condition in node["status"].get("conditions", ())}
        return conditions.get("Ready") == "True" and not node["spec"].get("taints")

    def _init(self) -> int:
        """The first process of the namespaces."""
        assert self.containerd.process is not None
        (first,) = psutil.Process(self.containerd.process.pid).children()
        return int(first.pid)

    def _enter(self) -> list[str]:
        return ["nsenter", f"--target={self._init()}", "--mount", "--pid", "--"]

    def inside(self, *command: str) -> str:
        """The output of a command on the node; fails with its error message."""
        ran = subprocess.run([*self._enter(), *command], capture_output=True, text=True, timeout=300, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def load(self, image: Path) -> None:
        """Import the image of an archive on the node."""
        self.inside("ctr", "--namespace=k8s.io", "images", "import", str(image))

    def _answers(self) -> bool:
        with contextlib.suppress(AssertionError, ValueError):
            return bool(self.inside("ctr", "--connect-timeout=1s", "version"))
        return False

    def stop(self) -> None:
        """Simulate that the machine is switched off and its node deleted."""
        self.containerd.kill()
        if self.kubelet is not None:
            self.kubelet.kill()
        self.cluster.api.delete(self.path)
        remove_groups(self.groups)


def remove_groups(name: str) -> None:
    """Remove the cgroups of a node, whose containers have been killed."""
    for group in CGROUPS.glob(f"*/{name}"):
        for below in sorted((each for each in group.rglob("*") if each.is_dir()), reverse=True):
            eventually(f"{below} is empty", partial(_is_removed, below))
        _is_removed(group)


def _is_removed(group: Path) -> bool:
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:  # a process is left in it
        return False
    return True


def _network(host: str) -> dict[str, object]:
    subnet = f"{host.rpartition('.')[0]}.0/24"
    addresses = {"type": "host-local", "ranges": [[{"subnet": subnet}]], "routes": [{"dst": "0.0.0.0/0"}]}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "ptp", "ipam": addresses}]}


def needs_containers() -> None:
    """Skip where no containers can be run."""
    for command in ("containerd", "runc", "gcc", "unshare", "nsenter"):
        needs_command(command)
    if not (CNI / "ptp").exists():
        pytest.skip("needs the CNI plugins, which this machine does not have")
    if (
        os.geteuid() != 0
        or subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True).returncode
    ):
        pytest.skip("needs root, which may open mount namespaces, for real pods")


@contextlib.contextmanager
def running_node(cluster: Cluster, folder: Path, *, gpus: int = 8, place: int = 1) -> Iterator[Node]:
    """A real node, ready for pods whose image is `images.PYTHON`. Skips where no containers can be run."""
    needs_containers()
    find("kubelet")
    node = Node(cluster, folder, gpus=gpus, place=place)
    with running_dns(cluster, node.host):
        try:
            node.start()
            yield node
        finally:
            node.stop()
