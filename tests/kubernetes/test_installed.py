"""The scheduler as the chart installs it: a pod in a restricted namespace, with its own rights, whose jobs are pods."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import psutil
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
from tests.telemetry.standin import gpus_file, library, reporting

__all__ = ["library"]

ROOT = Path(__file__).parents[2]
CONTAINERFILE = ROOT / "deploy" / "Containerfile"
IMAGE = "tests.local/scheduler"
SLEEPS = "import time; time.sleep(600)"
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


@pytest.fixture(scope="module")
def volume(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The storage class of one volume."""
    folder = tmp_path_factory.mktemp("volume")
    folder.chmod(0o777)
    name = re.sub("[^a-z0-9]", "-", f"{folder.parent.name}-{folder.name}".lower()).strip("-")
    spec = {
        "capacity": {"storage": "50Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": name,
        "hostPath": {"path": str(folder)},
    }
    cluster.create("/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec})
    yield name
    cluster.api.delete(f"/api/v1/persistentvolumes/{name}")


@dataclass
class Installed:
    """The chart, installed: a scheduler in a pod, with its `url` and `token`, and `agent`, the pod of a node agent."""

    namespace: str
    url: str
    token: str
    agent: str

    def client(self) -> Client:
        return Client(self.url, self.token)


@pytest.fixture(scope="module")
def installed(
    cluster: Cluster,
    node: Node,
    image: str,
    volume: str,
    library: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Installed]:
    helms = tmp_path_factory.mktemp("helm")
    api_port, jobs_port = any_free(), any_free()
    values = {
        "image": {"repository": image, "tag": "1", "pullPolicy": "Never"},
        "jobs": {"image": PYTHON, "options": {"url": f"http://{HOST}:{jobs_port}/"}},
        "persistence": {"storageClass": volume},
        "extraEnv": [  # there is no kube-proxy between pods and the API server
            {"name": "KUBERNETES_SERVICE_HOST", "value": HOST},
            {"name": "KUBERNETES_SERVICE_PORT", "value": str(api_port)},
        ],
        "nodeAgent": {
            "enabled": True,
            "driverFolder": str(library),
            "nodeSelector": {"nvidia.com/gpu.present": None, "kubernetes.io/hostname": node.name},
        },
        "pool": {
            "node_pools": [{"name": "train", "environment": "train"}],
            "projects": [{"name": "default", "members": ["*"]}],
        },
    }
    own = ("127.0.0.1", int(cluster.url.rpartition(":")[2]))
    library.chmod(0o755)  # the agent is not root
    (library / "gpus").write_text(gpus_file(*map(reporting, range(8))))
    with cluster.namespace("installed-", RESTRICTED) as namespace, forwarded(HOST, api_port, own):
        pods, agents = (f"/api/v1/namespaces/{name}/pods" for name in (namespace, f"{namespace}-nodes"))
        try:
            helm(helms, "install", "runai", str(CHART), f"--namespace={namespace}", values=values, cluster=cluster)
            name, agent = _bound(cluster, node, pods), _bound(cluster, node, agents)
            eventually("it is ready", lambda: _is_ready(cluster, f"{pods}/{name}"), 2 * PATIENCE)
            address = cluster.api.get(f"{pods}/{name}").json()["status"]["podIP"]
            token = cluster.kubectl("exec", "-n", namespace, "deployment/runai", "--", "cat", "/srv/runai/state/token")
            with forwarded(HOST, jobs_port, (address, 8000)):
                yield Installed(namespace, f"http://{address}:8000/", token.strip(), f"{agents}/{agent}")
            helm(helms, "uninstall", "runai", f"--namespace={namespace}", cluster=cluster)
            for path in (pods, agents):
                eventually("its pods have ended", lambda path=path: not cluster.api.get(path).json()["items"])  # type: ignore[misc]
        finally:
            (library / "gpus").unlink()
            for name in ("jobs", "nodes"):
                cluster.api.delete(f"/api/v1/namespaces/{namespace}-{name}")


def test_it_runs_jobs_with_its_own_permissions(installed: Installed) -> None:
    with installed.client() as client:
        code = "import os; print('GPUs', os.environ['RUNAI_GPUS'])"
        job = client.submit(JobSubmit(command=["python3", "-c", code], gpus=2))
        ended = client.wait(job.id, PATIENCE)
        assert ended.state == "succeeded", ended.reason
        assert client.log(job.id) == b"GPUs 0,1\n"


def test_its_node_agent_reports_whose_processes_use_which_gpus(
    installed: Installed, cluster: Cluster, node: Node, library: Path
) -> None:
    """The agent (`c.Kubernetes.node_agent`) in its pod, with NVML's stand-in: the job's process is on GPU 3."""
    with installed.client() as client:
        job = client.submit(JobSubmit(command=["python3", "-c", SLEEPS], gpus=1))
        pid = eventually("the job runs", lambda: _pid_on_node(job.id), 2 * PATIENCE) or 0
        gpus = [reporting(gpu, power=300.0, pid=pid if gpu == 3 else 0) for gpu in range(8)]
        (library / "gpus").write_text(gpus_file(*gpus))
        eventually("its process is known", lambda: client.node_gpus(node.name).gpus[3].processes)
        found = client.node_gpus(node.name)
        assert found.measured
        assert [gpu.power_watts for gpu in found.gpus] == [300.0] * 8
        (process,) = found.gpus[3].processes
        assert (process.kind, process.id, process.pid) == ("job", job.id, pid)
        (used,) = client.gpu_use(job.id).gpus
        assert (used.node, used.gpu) == (node.name, 3)
        assert used.points[-1].utilisation == 0.37
        headers = {"Authorization": f"Bearer {installed.token}"}
        metrics = httpx.get(f"{installed.url}metrics", headers=headers).text
        assert f'runai_gpu_power_watts{{gpu="3",node="{node.name}"}} 300.0' in metrics
        client.cancel(job.id)
        client.wait(job.id, PATIENCE)
        (used,) = client.gpu_use(job.id).gpus
        assert (used.gpu, bool(used.points)) == (3, True)

        gpus[5] = reporting(5, xid=79)
        (library / "gpus").write_text(gpus_file(*gpus))
        eventually("it fails", lambda: client.node_gpus(node.name).gpus[5].failure)
        failure = (
            "Xid 79: GPU has fallen off the bus. The device plugin still offers it, so the node gets no more work."
        )
        assert client.node_gpus(node.name).gpus[5].failure == failure
        waits = client.submit(JobSubmit(command=["true"], gpus=1))
        eventually("it says why it waits", lambda: client.job(waits.id).blocked_by)
        client.cancel(waits.id)

    body = {"run": "a" * 32, "samples": []}
    own = cluster.kubectl(
        *("exec", "-n", f"{installed.namespace}-nodes", installed.agent.rpartition("/")[2], "--"),
        *("cat", "/var/run/runai/token"),
    )
    refused = cluster.token_of(f"{installed.namespace}-nodes", "runai-node-agent")  # of the account, in no pod
    answers = [
        httpx.post(f"{installed.url}api/v1/node-samples", json=body, headers={"Authorization": f"Bearer {token}"})
        for token in (own, refused, installed.token)
    ]
    assert [answer.status_code for answer in answers] == [200, 401, 401]
    with cluster.client(own) as client:
        assert client.get("/api/v1/pods").status_code == 401  # it is for the scheduler alone


def _bound(cluster: Cluster, node: Node, pods: str) -> str:
    """The name of the one pod, bound to the node: this cluster has no scheduler of its own."""
    eventually("it has a pod", lambda: cluster.api.get(pods).json()["items"])
    (pod,) = cluster.api.get(pods).json()["items"]
    name: str = pod["metadata"]["name"]
    cluster.create(
        f"{pods}/{name}/binding", {"metadata": {"name": name}, "target": {"kind": "Node", "name": node.name}}
    )
    return name


def _pid_on_node(job: str) -> int | None:
    """The id of a job's process in the node's namespace of processes."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if SLEEPS in process.cmdline() and process.environ().get("RUNAI_JOB_ID") == job:
                status = Path(f"/proc/{process.pid}/status").read_text()
                (ids,) = re.findall(r"^NSpid:\s+(.*)$", status, re.MULTILINE)
                return int(ids.split()[1])
    return None


def _is_ready(cluster: Cluster, pod: str) -> bool:
    status = cluster.api.get(pod).json()["status"]
    containers = status.get("containerStatuses", ())
    assert not any(container["restartCount"] for container in containers), cluster.api.get(
        f"{pod}/log", params={"previous": "true"}
    ).text
    return any(container["ready"] for container in containers)
