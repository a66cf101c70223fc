"""The scheduler as the chart installs it: a pod in a restricted namespace, with its own rights, whose jobs are pods."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from hub_spawner.ports import any_free
from scheduler.client import Client
from scheduler.schema import JobSubmit
from tests.kubernetes.chart import CHART, helm
from tests.kubernetes.cluster import HOST, Cluster
from tests.kubernetes.forwarding import forwarded
from tests.kubernetes.images import PYTHON, environment_image
from tests.kubernetes.node import Node
from tests.kubernetes.programs import PATIENCE, eventually

ROOT = Path(__file__).parents[2]
CONTAINERFILE = ROOT / "deploy" / "Containerfile"
IMAGE = "tests.local/scheduler"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


@pytest.fixture(scope="module")
def image(node: Node) -> str:
    """Install the packages of `deploy/Containerfile` on the node."""
    (step,) = re.findall(r"^RUN (python3 -m venv .*\n(?: .*\n)*)", CONTAINERFILE.read_text(), re.MULTILINE)
    uv = Path(sys.executable).with_name("uv")
    with TemporaryDirectory(dir="/var/tmp") as folder:  # in the pod /tmp is a volume
        step = step.replace("/opt/runai", f"{folder}/runai").replace("dist/", f"{folder}/")
        step = step.replace("python3", sys.executable).replace(".venv/bin/uv", str(uv))
        wheel = f"{uv} build --quiet --wheel --no-build-isolation --python={sys.executable} --out-dir={folder} ."
        path = f"{uv.parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-euc", f"{wheel}\n{step}"],
            cwd=ROOT, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        node.load(environment_image(Path(folder), f"{IMAGE}:1", Path(folder, "runai")))
    return IMAGE


@pytest.fixture
def volume(cluster: Cluster, tmp_path: Path) -> Iterator[str]:
    """The storage class of one volume."""
    folder = tmp_path / "volume"
    folder.mkdir()
    folder.chmod(0o777)
    name = re.sub("[^a-z0-9]", "-", tmp_path.name.lower()).strip("-")
    spec = {
        "capacity": {"storage": "50Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": name,
        "hostPath": {"path": str(folder)},
    }
    cluster.create("/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec})
    yield name
    cluster.api.delete(f"/api/v1/persistentvolumes/{name}")


def test_it_runs_jobs_with_its_own_permissions(
    cluster: Cluster, node: Node, image: str, volume: str, tmp_path: Path
) -> None:
    api_port, jobs_port = any_free(), any_free()
    values = {
        "image": {"repository": image, "tag": "1", "pullPolicy": "Never"},
        "jobs": {"image": PYTHON, "options": {"url": f"http://{HOST}:{jobs_port}/"}},
        "persistence": {"storageClass": volume},
        "extraEnv": [  # there is no kube-proxy between pods and the API server
            {"name": "KUBERNETES_SERVICE_HOST", "value": HOST},
            {"name": "KUBERNETES_SERVICE_PORT", "value": str(api_port)},
        ],
        "pool": {
            "node_pools": [{"name": "train", "environment": "train"}],
            "projects": [{"name": "default", "members": ["*"]}],
        },
    }
    own = ("127.0.0.1", int(cluster.url.rpartition(":")[2]))
    with cluster.namespace("installed-", RESTRICTED) as namespace, forwarded(HOST, api_port, own):
        pods = f"/api/v1/namespaces/{namespace}/pods"
        try:
            helm(tmp_path, "install", "runai", str(CHART), f"--namespace={namespace}", values=values, cluster=cluster)
            eventually("it has a pod", lambda: cluster.api.get(pods).json()["items"])
            (pod,) = cluster.api.get(pods).json()["items"]
            name = pod["metadata"]["name"]
            target = {"kind": "Node", "name": node.name}
            cluster.create(f"{pods}/{name}/binding", {"metadata": {"name": name}, "target": target})
            eventually("it is ready", lambda: _is_ready(cluster, f"{pods}/{name}"), 2 * PATIENCE)
            address = cluster.api.get(f"{pods}/{name}").json()["status"]["podIP"]
            token = cluster.kubectl("exec", "-n", namespace, "deployment/runai", "--", "cat", "/srv/runai/state/token")
            with (
                forwarded(HOST, jobs_port, (address, 8000)),
                Client(f"http://{address}:8000/", token.strip()) as client,
            ):
                code = "import os; print('GPUs', os.environ['RUNAI_GPUS'])"
                job = client.submit(JobSubmit(command=["python3", "-c", code], gpus=2))
                ended = client.wait(job.id, PATIENCE)
                assert ended.state == "succeeded", ended.reason
                assert client.log(job.id) == b"GPUs 0,1\n"
            helm(tmp_path, "uninstall", "runai", f"--namespace={namespace}", cluster=cluster)
            eventually("its pod has ended", lambda: not cluster.api.get(pods).json()["items"])
        finally:
            cluster.api.delete(f"/api/v1/namespaces/{namespace}-jobs")


def _is_ready(cluster: Cluster, pod: str) -> bool:
    status = cluster.api.get(pod).json()["status"]
    containers = status.get("containerStatuses", ())
    assert not any(container["restartCount"] for container in containers), cluster.api.get(
        f"{pod}/log", params={"previous": "true"}
    ).text
    return any(container["ready"] for container in containers)
