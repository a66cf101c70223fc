"""The running service on a real cluster: its jobs are pods on a node with a real kubelet."""

from __future__ import annotations

import getpass
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from scheduler.errors import Invalid
from scheduler.schema import ArrayMember, ArraySubmit, JobSubmit, JobView
from tests.app.conftest import until
from tests.jupyter_ext.pool import Kernel
from tests.kubernetes.chart import define_resources
from tests.kubernetes.images import PYTHON
from tests.kubernetes.kwok import Kwok
from tests.kubernetes.node import Node
from tests.kubernetes.service import PATIENCE, KubernetesService

ROOT = Path(__file__).parents[2]

STUBBORN = (
    "import os, pathlib, signal, sys, time\n"
    "state = pathlib.Path(os.environ['RUNAI_CHECKPOINT_DIR'], 'state')\n"
    "print('again' if state.exists() else 'first', flush=True)\n"
    "if state.exists(): sys.exit(0)\n"
    "def stop(*_):\n"
    "    state.write_text('saved')\n"
    "    sys.exit(3)\n"
    "signal.signal(signal.SIGTERM, stop)\n"
    "while True: time.sleep(0.01)\n"
)
"""Saves its state when stopped; after a restart, it is done."""


def python(code: str) -> list[str]:
    return ["python3", "-c", code]


def test_a_job_is_a_pod_and_leaves_nothing(service: KubernetesService) -> None:
    service.start()
    code = "import os, time; print('GPUs', os.environ['RUNAI_GPUS'], flush=True); time.sleep(1)"
    jobs = [service.submit(*python(code), gpus=2) for _ in range(2)]
    for job in jobs:
        assert service.ended(job).state == "succeeded", service.log.read_text()
        assert service.log_of(job) == "GPUs 0,1\n", "the device plugin picks which, and shows a pod no others"
    service.leaves_nothing()


def test_the_settings_say_which_cluster_which_nodes_and_what_pods_are_like(
    service: KubernetesService, namespace: str, kwok: Kwok
) -> None:
    """On a KWOK node, where a pod only appears to run."""
    path, amounts = "/api/v1/nodes/special", {"example.com/gpu": "4", "cpu": "8", "memory": "64Gi", "pods": "9"}
    taint = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}
    tolerations = [{"key": "dedicated", "operator": "Exists"}]
    options = {
        "kubeconfig": str(service.cluster.kubeconfig),
        "context": "tests",
        "namespace": namespace,
        "instance": "mine",
        "url": "http://there/",
        "image": "team/train:1",
        "gpu_resource": "example.com/gpu",
        "topology_labels": {"rack": "example.com/rack"},
        "tolerations": tolerations,
        "pod_template": {"spec": {"priorityClassName": "system-node-critical"}},
        "upload_seconds": 7,
    }
    service.config.write_text("".join(f"c.Kubernetes.{name} = {value!r}\n" for name, value in options.items()))
    labels = {"type": "kwok", "example.com/rack": "r7"}
    metadata = {"name": "special", "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}}
    status = {"allocatable": amounts, "capacity": amounts}
    service.cluster.create("/api/v1/nodes", {"metadata": metadata, "spec": {"taints": [taint]}, "status": status})
    try:
        service.start()
        until(lambda: [n for n in service.nodes() if n.get("schedulable", True)])
        (node,) = service.nodes()
        assert (node["name"], node["gpus"], node["labels"]) == ("special", 4, {"rack": "r7"})
        job = service.submit("true", gpus=2, grace=5)
        (pod,) = until(lambda: [pod for pod in service.objects("pods") if "nodeName" in pod["spec"]])
        assert pod["metadata"]["labels"]["runai.jupyter.org/instance"] == "mine"
        spec, (container,) = pod["spec"], pod["spec"]["containers"]
        assert (spec["nodeName"], spec["terminationGracePeriodSeconds"]) == ("special", 5 + 7)
        assert spec["priorityClassName"] == "system-node-critical"
        assert tolerations[0] in spec["tolerations"]
        assert container["image"] == "team/train:1"
        assert container["resources"]["limits"] == {"example.com/gpu": "2"}
        assert {"name": "RUNAI_AGENT_URL", "value": "http://there/"} in container["env"]
        with service.client() as client:
            client.cancel(job.id)
        assert service.ended(job).state == "cancelled"
        service.leaves_nothing()
    finally:
        service.cluster.api.delete(path)


def test_a_cell_comes_back_from_a_pod(service: KubernetesService, tmp_path: Path) -> None:
    """In an image with the notebook's environment at the same paths."""
    service.mount({"venv": sys.prefix, "python": sys.base_prefix, "ours": str(ROOT)})
    service.start()
    (tmp_path / "notebook").mkdir()
    kernel = Kernel(tmp_path / "notebook", service.environment)
    try:
        kernel.run("%load_ext jupyter_ext")
        kernel.run("n = 20")
        shown = kernel.run(
            "%%runai_train --gpus 1 --out answer,host\nimport socket\nhost = socket.gethostname()\n"
            "answer = n * 2 + 2\nprint('in a pod')\nanswer",
            timeout=PATIENCE,
        )
        assert shown.error is None, (shown, service.log.read_text())
        assert "in a pod\n" in shown.stdout
        assert kernel.value("answer") == "42"
        assert kernel.value("host").strip("'").startswith("runai-j-")
    finally:
        kernel.close()


def test_a_job_goes_on_while_its_scheduler_is_killed_and_is_adopted(service: KubernetesService, tmp_path: Path) -> None:
    service.start()
    code = "import time\nfor i in range(60):\n    print(i, flush=True)\n    time.sleep(0.1)"
    job = service.submit(*python(code))
    service.runs(job)
    service.kill()
    service.start()
    ended = service.ended(job)
    assert (ended.state, len(ended.attempts)) == ("succeeded", 1)
    assert service.log_of(job) == "".join(f"{i}\n" for i in range(60))
    service.leaves_nothing()


def test_an_unknown_pod_is_removed_at_start(service: KubernetesService, node: Node) -> None:
    labels = {
        "app.kubernetes.io/managed-by": "jupyter-runai",
        "runai.jupyter.org/instance": "default",
        "runai.jupyter.org/job": "j-forgotten",
        "runai.jupyter.org/attempt": "1",
        "runai.jupyter.org/rank": "0",
    }
    container = {"name": "worker", "image": PYTHON, "imagePullPolicy": "Never", "command": ["sleep", "1000"]}
    spec = {"nodeName": node.name, "containers": [container]}
    service.cluster.create(f"{service.path}/pods", {"metadata": {"name": "forgotten", "labels": labels}, "spec": spec})
    service.start()
    service.leaves_nothing()


def begun(service: KubernetesService) -> JobView:
    """A job that does not stop before it has saved its state."""
    job = service.submit(*python(STUBBORN))
    service.runs(job)
    until(lambda: "first" in service.log_of_now(job))
    return job


def paused(service: KubernetesService) -> JobView:
    job = begun(service)
    with service.client() as client:
        client.pause(job.id)
        until(lambda: client.job(job.id).state == "paused")
    return job


def resumes(service: KubernetesService, job: JobView) -> None:
    with service.client() as client:
        client.resume(job.id)
    assert service.ended(job).state == "succeeded"
    assert service.log_of(job) == "again\n"


def test_a_stopped_job_saves_its_state_and_resumes(service: KubernetesService) -> None:
    service.start()
    job = paused(service)
    service.leaves_nothing()
    resumes(service, job)


def test_checkpoint_volume_keeps_the_checkpoints_of_each_job_and_only_their_time_is_uploaded(
    service: KubernetesService, tmp_path: Path
) -> None:
    volume = tmp_path / "checkpoints"
    volume.mkdir()
    volume.chmod(0o777)
    with service.config.open("a") as config:
        config.write(f"c.Kubernetes.checkpoint_volume = {{'hostPath': {{'path': {str(volume)!r}}}}}\n")
    service.start()
    job = paused(service)
    state = volume / job.id / "state"
    assert [path.name for path in volume.iterdir()] == [job.id]
    assert state.read_text() == "saved"
    (mark,) = (service.folder.path / "jobs" / job.id / "checkpoint").iterdir()
    assert json.loads(mark.read_text()) == {"files": 1, "bytes": 5}
    assert abs(mark.stat().st_mtime - state.stat().st_mtime) < 1e-3
    resumes(service, job)


def test_a_job_whose_pod_is_evicted_by_others_is_queued_again_and_loses_nothing(
    service: KubernetesService, node: Node
) -> None:
    service.start()
    job = begun(service)
    (pod,) = service.objects("pods")
    name = pod["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    service.cluster.create(f"{service.path}/pods/{name}/eviction", eviction)
    first = until(lambda: next((a for a in service.job(job).attempts if a.ended is not None), None))
    assert "evicted" in first.reason
    assert f"{node.name} could not run it and is avoided for a while" in until(lambda: _waits(service.job(job))).reason
    with service.client() as client:
        assert client.job(job.id).state == "queued"
        client.cancel(job.id)
    service.leaves_nothing()


def _waits(job: JobView) -> JobView | None:
    """A job that has been planned."""
    return job if job.state == "queued" and "Needs" in job.reason else None


def test_a_job_runs_in_the_image_that_it_names(service: KubernetesService) -> None:
    with service.config.open("a") as config:
        config.write("c.Kubernetes.image = 'tests.local/nowhere:1'\n")
    service.start()
    job = service.submit(*python("print('here')"), image=PYTHON)
    assert service.ended(job).state == "succeeded", service.log.read_text()
    with service.config.open("a") as config:
        config.write("c.Kubernetes.pod_template['spec']['containers'][0]['image'] = 'tests.local/nowhere:1'\n")
    service.kill()
    service.start()
    with pytest.raises(Invalid, match="cannot choose an image"):
        service.submit(*python("pass"), image=PYTHON)
    service.leaves_nothing()


def test_a_job_runs_in_the_image_of_its_notebook_with_the_volumes_that_any_node_can_mount(
    service: KubernetesService, namespace: str, node: Node, tmp_path: Path
) -> None:
    with service.config.open("a") as config:
        config.write("c.Kubernetes.image = 'tests.local/nowhere:1'\n")
        config.write(f"c.Kubernetes.notebooks_namespace = {namespace!r}\n")
    for name in ("host", "claimed"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "name").write_text(name)
    claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    amount = {"storage": "1Mi"}
    volume = f"claimed-{namespace}"
    own = {"storageClassName": "", "accessModes": ["ReadWriteOnce"], "resources": {"requests": amount}}
    shared = {**own, "accessModes": ["ReadWriteMany"], "volumeName": volume}
    service.cluster.create("/api/v1/persistentvolumes", {
        "metadata": {"name": volume},
        "spec": {"capacity": amount, "accessModes": ["ReadWriteMany"], "hostPath": {"path": f"{tmp_path / 'claimed'}"}},
    })  # fmt: skip
    try:
        service.cluster.create(claims, {"metadata": {"name": "own"}, "spec": own})
        service.cluster.create(claims, {"metadata": {"name": "shared"}, "spec": shared})
        kinds: dict[str, dict[str, Any]] = {
            "host": {"hostPath": {"path": f"{tmp_path / 'host'}"}},
            "claimed": {"persistentVolumeClaim": {"claimName": "shared"}},
            "own": {"persistentVolumeClaim": {"claimName": "own"}},
        }
        mounts = [{"name": name, "mountPath": f"/volumes/{name}"} for name in kinds]
        for user in (getpass.getuser(), "another"):
            service.cluster.create(f"/api/v1/namespaces/{namespace}/pods", {
                "metadata": {"name": f"jupyter-{user}", "annotations": {"hub.jupyter.org/username": user}},
                "spec": {
                    "schedulerName": "nobody",
                    "containers": [{"name": "notebook", "image": PYTHON, "volumeMounts": mounts}],
                    "volumes": [{"name": name, **kind} for name, kind in kinds.items()],
                },
            })  # fmt: skip
        code = "import glob; print([open(name).read() for name in sorted(glob.glob('/volumes/*/name'))])"
        service.start()
        for seen in (["claimed", "host"], []):
            with service.client(notebook=f"jupyter-{getpass.getuser()}") as client:
                jobs = [client.submit(JobSubmit(command=python(code)))]
                array = ArraySubmit(job=JobSubmit(command=python(code)), members=[ArrayMember(index=0)])
                jobs += client.submit_array(array).jobs
                for job in jobs:
                    assert service.ended(job).state == "succeeded", service.log.read_text()
                    assert service.log_of(job) == f"{seen}\n"
            with service.config.open("a") as config:
                config.write("c.Kubernetes.notebook_volumes = False\n")
            service.kill()
            service.start()
        for stranger in ("jupyter-another", "gone", "../secrets"):
            with service.client(notebook=stranger) as client, pytest.raises(Invalid, match="unset"):
                client.submit(JobSubmit(command=["true"]))
        service.leaves_nothing()
    finally:
        service.cluster.api.delete(f"/api/v1/persistentvolumes/{volume}")


def test_an_image_that_is_not_there_fails_the_job_and_says_so(service: KubernetesService) -> None:
    with service.config.open("a") as config:
        config.write("c.Kubernetes.image = 'tests.local/No Image'\n")
    service.start()
    ended = service.ended(service.submit(*python("pass")))
    assert ended.state == "failed"
    assert "image" in ended.reason
    service.leaves_nothing()


def test_a_pod_that_does_not_start_in_time_gives_its_gpus_back(service: KubernetesService, node: Node) -> None:
    with service.config.open("a") as config:
        config.write("c.Kubernetes.image = '127.0.0.1:1/nobody/answers'\nc.Kubernetes.start_seconds = 2\n")
        config.write("c.Kubernetes.pod_template['spec']['containers'][0]['imagePullPolicy'] = 'Always'\n")
    service.start()
    job = service.submit(*python("pass"))
    first = until(lambda: next((a for a in service.job(job).attempts if a.ended is not None), None))
    assert "did not start within 2 s" in first.reason
    assert f"{node.name} could not run it and is avoided for a while" in until(lambda: _waits(service.job(job))).reason
    with service.client() as client:
        client.cancel(job.id)
    service.leaves_nothing()


def test_a_trainjob_runs_in_a_pod_and_says_that_it_has_succeeded(service: KubernetesService, namespace: str) -> None:
    with service.config.open("a") as config:
        config.write("c.RunaiService.operator = True\n")
    define_resources(service.cluster)
    service.cluster.kubectl("annotate", "namespace", namespace, "runai.jupyter.org/user=ann")
    service.start()
    path = f"/apis/runai.jupyter.org/v1alpha1/namespaces/{namespace}/trainjobs"
    service.cluster.create(path, {
        "apiVersion": "runai.jupyter.org/v1alpha1", "kind": "TrainJob",
        "metadata": {"name": "one"}, "spec": {"command": python("print('done')")},
    })  # fmt: skip
    service.cluster.kubectl(
        "wait", "trainjob/one", "-n", namespace, "--for=condition=Succeeded", f"--timeout={PATIENCE:g}s"
    )
    status = service.cluster.api.get(f"{path}/one").json()["status"]
    assert (status["state"], status["attempts"]) == ("succeeded", 1)
    assert status["startTime"] <= status["completionTime"]
    service.cluster.api.delete(f"{path}/one")
    service.leaves_nothing()
