"""A hub whose users' servers and jobs are pods on two real nodes: one to build on, one to train on.

The hub and its scheduler run on this machine; pods reach them at an address of their node's network. Servers and jobs
mount this machine's Python and this checkout, so no image has to be built.
"""

from __future__ import annotations

import contextlib
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hub_spawner.ports import any_free
from tests.hub.running import PASSWORD, Hub
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.forwarding import forwarded
from tests.kubernetes.images import COMMANDS_AT, PYTHON, USER
from tests.kubernetes.node import Node

ROOT = Path(__file__).parents[2]
HOME = "/home/jovyan"

POOL = """
node_pools:
  - {name: build, environment: build}
  - {name: train, environment: train}
projects:
  - {name: default, members: ["*"]}
default_build_quota: 2
users:
  - {name: one, build_quota: 1}
  - {name: nobody, build_quota: 0}
"""

START = (
    "import glob, os, shutil, sys\n"
    f"for path in glob.glob({str(ROOT / 'hub_spawner' / 'examples' / '*.ipynb')!r}):\n"
    "    os.path.exists(os.path.basename(path)) or shutil.copy(path, '.')\n"
    "os.execv(sys.executable, [sys.executable, '-m', 'jupyterhub.singleuser', *sys.argv[1:]])\n"
)
"""The command of a server's container: first copies the sample notebooks into its home."""

HUB = """
(service,) = (each for each in c.JupyterHub.services if each["name"] == "runai")
service["environment"] = {{"JUPYTER_CONFIG_DIR": {config!r}}}
scheduler = c.LeaseSpawner.scheduler_url.replace("127.0.0.1", {host!r})
c.Spawner.environment = {{"RUNAI_URL": scheduler, "HOME": {home!r}, "PATH": {path!r}}}
c.Spawner.hub_connect_url = "http://{host}:{hub}"
c.Spawner.default_url = "/lab"
c.Spawner.start_timeout = 120
c.Spawner.http_timeout = 120
c.KubeSpawner.namespace = {namespace!r}
c.KubeSpawner.image = {image!r}
c.KubeSpawner.image_pull_policy = "Never"
c.KubeSpawner.cmd = [{python!r}, "-c", {start!r}]
c.KubeSpawner.uid = c.KubeSpawner.fs_gid = {user}
c.KubeSpawner.working_dir = {home!r}
c.KubeSpawner.storage_pvc_ensure = False
c.KubeSpawner.extra_pod_config = {{"dnsPolicy": "Default"}}
c.KubeSpawner.volumes = {volumes!r}
c.KubeSpawner.volume_mounts = {mounts!r}


def without_gpus(spawner, pod):
    # the tests' cluster has no scheduler of its own, which would place the servers that have no GPUs
    if pod.spec.scheduler_name is None:
        pod.spec.node_name = {node!r}
    return pod


c.KubeSpawner.modify_pod_hook = without_gpus
"""

SCHEDULER = """
c.RunaiService.engine = "kubernetes"
c.Kubernetes.kubeconfig = {kubeconfig!r}
c.Kubernetes.namespace = {jobs!r}
c.Kubernetes.notebooks_namespace = {notebooks!r}
c.Kubernetes.url = "http://{host}:{port}/services/runai/"
c.Kubernetes.image = {image!r}
c.Kubernetes.pod_template = {template!r}
c.Kubernetes.gpu_parts = {{"nvidia.com/gpu.shared": 2}}
"""


class KubeHub(Hub):
    """The hub of `running_hub`. `notebooks` and `jobs` are the namespaces of its pods."""

    def __init__(
        self,
        folder: Path,
        cluster: Cluster,
        build: Node,
        train: Node,
        notebooks: str,
        jobs: str,
        *,
        port: int | None = None,
        password: str = PASSWORD,
        more: str = "",
    ) -> None:
        super().__init__(folder, spawner="runai-kube", port=port, password=password)
        self.cluster, self.build, self.notebooks, self.jobs = cluster, build, notebooks, jobs
        self.ports = [self.hub_port, any_free()]
        (folder / "pool.yaml").write_text(POOL)
        (folder / "pool").mkdir(mode=0o700)
        (folder / "pool" / "hub-port").write_text(str(self.ports[1]))  # used by `configure`
        libraries = f"/lib/{sysconfig.get_config_var('MULTIARCH')}"
        folders = {"venv": sys.prefix, "python": sys.base_prefix, "ours": str(ROOT), "libraries": libraries}
        volumes = [{"name": name, "hostPath": {"path": path}} for name, path in folders.items()]
        mounts = [{"name": name, "mountPath": path, "readOnly": True} for name, path in folders.items()]
        with (folder / "jupyterhub_config.py").open("a") as config:
            config.write(
                HUB.format(
                    config=str(folder / "config"),
                    host=build.host,
                    hub=self.hub_port,
                    home=HOME,
                    path=f"{Path(sys.executable).parent}:{COMMANDS_AT}",
                    namespace=notebooks,
                    image=PYTHON,
                    python=sys.executable,
                    start=START,
                    user=USER,
                    volumes=[*volumes, {"name": "home", "emptyDir": {}}],
                    mounts=[*mounts, {"name": "home", "mountPath": HOME}],
                    node=build.name,
                )
            )
            config.write(more)
        worker = {"name": "worker", "imagePullPolicy": "Never"}
        (folder / "config").mkdir()
        (folder / "config" / "jupyter_runai_config.py").write_text(
            SCHEDULER.format(
                kubeconfig=str(cluster.kubeconfig),
                jobs=jobs,
                notebooks=notebooks,
                host=train.host,
                port=self.ports[1],
                image="tests.local/of-no-notebook:1",
                template={"spec": {"containers": [worker]}},
            )
        )
        self.environment = {"KUBECONFIG": str(cluster.kubeconfig)}

    def pods(self, namespace: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.cluster.api.get(f"/api/v1/namespaces/{namespace}/pods").json()["items"]
        return items


@contextlib.contextmanager
def running_hub(
    folder: Path,
    cluster: Cluster,
    build: Node,
    train: Node,
    *,
    port: int | None = None,
    password: str = PASSWORD,
    more: str = "",
) -> Iterator[KubeHub]:
    """A running hub, removed at the end. `more` is added to its configuration."""
    with contextlib.ExitStack() as stack:
        notebooks, jobs = (stack.enter_context(cluster.namespace(f"{name}-")) for name in ("notebooks", "jobs"))
        hub = KubeHub(folder, cluster, build, train, notebooks, jobs, port=port, password=password, more=more)
        for node in (build, train):
            label(cluster, node, "build" if node is build else "train")
            stack.callback(label, cluster, node, None)
            for each in hub.ports:
                stack.enter_context(forwarded(node.host, each, ("127.0.0.1", each)))
        try:
            hub.start()
            yield hub
        finally:
            hub.clean()
            for namespace in (notebooks, jobs):
                cluster.kubectl("delete", "pods", "--all", "-n", namespace, "--grace-period=1")


def label(cluster: Cluster, node: Node, pool: str | None) -> None:
    """Assign a node to a node pool."""
    labels = {"metadata": {"labels": {"runai.jupyter.org/node-pool": pool}}}
    kind = {"Content-Type": "application/merge-patch+json"}
    assert cluster.api.patch(node.path, json=labels, headers=kind).is_success
