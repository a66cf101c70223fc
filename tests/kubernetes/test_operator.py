"""Custom resources on a real API server: resources created by `kubectl` become jobs and projects, and show their
state."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from scheduler.engines.agents.tokens import Tokens, Worker
from scheduler.model import JobId
from scheduler.operator.crds import definitions
from scheduler.schema import AttemptView, JobView, ProjectEntry
from tests.app.conftest import Service, end_all, until
from tests.kubernetes.chart import CRDS, NEEDED, define_resources, rendered
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.kwok import Kwok
from tests.kubernetes.programs import eventually

RESOURCE = "tests.local/gpu"
OURS = ("--selector", "app.kubernetes.io/managed-by=jupyter-runai")
API = "apiVersion: runai.jupyter.org/v1alpha1\n"


class Operated(Service):
    """A scheduler that follows the custom resources, and kubectl beside it."""

    def __init__(self, folder: Path, cluster: Cluster, namespace: str, kubeconfig: Path) -> None:
        config = folder / "config.py"
        config.write_text(
            "c.RunaiService.operator = True\n"
            f"c.Kubernetes.kubeconfig = {str(kubeconfig)!r}\n"
            f"c.Kubernetes.namespace = {namespace!r}\n"
            "c.Kubernetes.image = 'any'\n"
            "c.Kubernetes.url = 'http://there/'\n"
            f"c.Kubernetes.gpu_resource = {RESOURCE!r}\n"
        )
        super().__init__(folder, "--engine=kubernetes", f"--config={config}")
        self.cluster = cluster
        self.namespace = namespace

    def annotate(self, user: str, namespace: str = "") -> None:
        of = namespace or self.namespace
        self.cluster.kubectl("annotate", "--overwrite", "namespace", of, f"runai.jupyter.org/user={user}")

    def apply(self, name: str, spec: str = "command: [python3, train.py]", namespace: str = "") -> None:
        head = f"{API}kind: TrainJob\nmetadata: {{name: {name}, namespace: {namespace or self.namespace}}}\n"
        self.cluster.kubectl("apply", "-f", "-", stdin=f"{head}spec:\n  {spec}\n")

    def apply_project(self, name: str, spec: str) -> None:
        self.cluster.kubectl(
            "apply", "-f", "-", stdin=f"{API}kind: Project\nmetadata: {{name: {name}}}\nspec: {spec}\n"
        )

    def get(self, *what: str) -> dict[str, Any] | None:
        """A resource; `None` if deleted."""
        found = self.cluster.kubectl("get", *what, "-n", self.namespace, "-o", "json", "--ignore-not-found")
        return json.loads(found) if found else None

    def status(self, *what: str) -> dict[str, Any]:
        status: dict[str, Any] = (self.get(*what) or {}).get("status", {})
        return status

    def condition(self, type_: str, *what: str) -> dict[str, Any] | None:
        """A condition for the resource's current generation."""
        found = self.get(*what) or {}
        generation = found.get("metadata", {}).get("generation")
        conditions = found.get("status", {}).get("conditions", ())
        about = (each for each in conditions if each["type"] == type_ and each["observedGeneration"] == generation)
        return next(about, None)

    def delete(self, *what: str, wait: bool = True) -> None:
        self.cluster.kubectl("delete", *what, "-n", self.namespace, f"--wait={str(wait).lower()}", "--timeout=60s")

    def jobs(self) -> list[JobView]:
        with self.client() as client:
            return list(client.jobs().jobs)

    def states(self) -> dict[str, str]:
        """Of the jobs, each of which runs once its pod has started: KWOK's pods have no agents."""
        endpoint, tokens = self.folder.endpoint(), Tokens(self.folder)
        assert endpoint is not None
        jobs = self.jobs()
        for job in jobs:
            if job.state == "starting":
                token = tokens.of(Worker(JobId(job.id), job.attempts[-1].number, 0))
                said = {"agent": "a" * 32, "state": "running", "started": time.time()}
                headers = {"Authorization": f"Bearer {token}"}
                httpx.post(f"{endpoint.url}api/v1/agent/state", json=said, headers=headers)
        return {job.name: job.state for job in jobs}


@pytest.fixture(scope="module")
def defined(cluster: Cluster) -> Iterator[Cluster]:
    """With an unschedulable node, so that jobs stay in the queue."""
    define_resources(cluster)
    amounts = {RESOURCE: "8", "cpu": "8", "memory": "64Gi", "pods": "9"}
    ready = [{"type": "Ready", "status": "True"}]
    node = {"metadata": {"name": "cordoned"}, "spec": {"unschedulable": True}}
    cluster.create(
        "/api/v1/nodes", {**node, "status": {"allocatable": amounts, "capacity": amounts, "conditions": ready}}
    )
    yield cluster
    cluster.api.delete("/api/v1/nodes/cordoned")


@pytest.fixture
def service(tmp_path: Path, defined: Cluster, namespace: str) -> Iterator[Operated]:
    """With exactly the rights that the chart grants."""
    values = {**NEEDED, "operator": {"enabled": True}, "jobs": {"image": "any", "namespace": namespace}}
    manifests = rendered(tmp_path, values, namespace)
    kinds = ("ServiceAccount/", "ClusterRole", "Role")
    rights = [manifest for name, manifest in manifests.items() if name.startswith(kinds)]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": rights})
    defined.kubectl("apply", "-n", namespace, "-f", "-", stdin=text)
    user = {"token": defined.token_of(namespace, "runai")}
    found = Operated(tmp_path, defined, namespace, defined.write_kubeconfig(namespace, user))
    yield found
    end_all(tmp_path)
    for process in found.spawned:
        process.wait()


def test_the_definitions_are_those_of_the_schema() -> None:
    """If this fails: python -m scheduler.operator.crds > deploy/chart/files/crds.yaml"""
    assert CRDS.read_text() == definitions()


@pytest.mark.parametrize(
    ("path", "description"),
    [
        ("trainjob", "the user in the annotation runai.jupyter.org/user"),
        ("trainjob.spec.retries", "number of times to try again after a failure"),
        ("trainjob.status.conditions", "Unknown until the job has ended"),
        ("projects.runai.jupyter.org.spec.groups", "JupyterHub groups"),
    ],
)
def test_kubectl_explains_every_key(defined: Cluster, path: str, description: str) -> None:
    def explained() -> str:
        with suppress(AssertionError):  # the API server describes new resources a moment later
            return " ".join(defined.kubectl("explain", path).split())
        return ""

    assert description in eventually("kubectl explains it", explained)


def test_a_trainjob_becomes_a_job_of_the_user_of_its_namespace(service: Operated) -> None:
    """With the setting `operator`."""
    service.start()
    service.apply("digits", "{command: [python3, train.py], gpus: 2, retries: 3}")
    refused = until(lambda: service.condition("Accepted", "tj/digits"))
    assert (refused["status"], refused["reason"]) == ("False", "Forbidden")
    assert f"kubectl annotate namespace {service.namespace} runai.jupyter.org/user=" in refused["message"]
    service.annotate("ann")
    status = until(lambda: (found := service.status("tj/digits")).get("state") == "queued" and found)
    (job,) = service.jobs()
    assert (status["jobId"], status["user"], status["project"]) == (job.id, "ann", job.project)
    assert (job.name, job.user, job.gpus) == ("digits", "ann", 2)
    accepted = until(lambda: service.condition("Accepted", "tj/digits"))
    assert accepted["status"] == "True"
    columns = service.cluster.kubectl("get", "tj", "-n", service.namespace).splitlines()
    assert columns[0].split() == ["NAME", "USER", "PROJECT", "STATE", "ATTEMPTS", "AGE"]
    assert columns[1].split()[:4] == ["digits", "ann", job.project, "queued"]
    with service.client() as client:
        client.cancel(job.id)
    ended = until(
        lambda: (found := service.condition("Succeeded", "tj/digits")) and found["status"] == "False" and found
    )
    assert ended["reason"] == "Cancelled"


def test_what_is_wrong_is_a_sentence_in_a_condition_and_can_be_mended(service: Operated) -> None:
    service.start()
    service.annotate("ann")
    with pytest.raises(AssertionError, match=r"spec\.workers"):
        service.apply("wrong", "{command: [train], workers: many}")
    with pytest.raises(AssertionError, match="gpu_number"):
        service.apply("wrong", "{command: [train], gpu_number: 1}")
    service.apply("wrong", "{command: [train], project: nowhere}")
    refused = until(lambda: service.condition("Accepted", "tj/wrong"))
    assert refused["status"] == "False"
    assert "nowhere" in refused["message"]
    service.apply_project("nowhere", "{guaranteed: 1, members: [ann]}")
    try:
        until(lambda: service.status("tj/wrong").get("state") == "queued")
    finally:
        service.delete("projects.runai.jupyter.org", "nowhere")
    service.apply("wrong", "{command: [other], project: nowhere}")
    changed = until(lambda: service.condition("Accepted", "tj/wrong"))
    assert changed["reason"] == "SpecChanged"


def test_a_trainjob_is_one_job_however_often_the_scheduler_is_killed(service: Operated) -> None:
    service.start()
    service.annotate("ann")
    for n in range(2):
        service.apply(f"job-{n}")
        service.kill()
        service.start()
    until(lambda: all(service.status(f"tj/job-{n}").get("state") == "queued" for n in range(2)))
    service.kill()
    # As if it had been killed before it could record its submission.
    path = f"/apis/runai.jupyter.org/v1alpha1/namespaces/{service.namespace}/trainjobs/job-0/status"
    merge = {"Content-Type": "application/merge-patch+json"}
    assert service.cluster.api.patch(path, json={"status": None}, headers=merge).is_success
    service.annotate("ben")
    service.start()
    status = until(lambda: (found := service.status("tj/job-0")).get("jobId") and found)
    assert status["user"] == "ann", "the job that there is"
    assert sorted(job.name for job in service.jobs()) == ["job-0", "job-1"]


def test_deleting_a_trainjob_cancels_its_job_and_never_hangs(service: Operated) -> None:
    service.start()
    service.annotate("ann")
    for name in ("one", "two", "three"):
        service.apply(name)
    until(lambda: len([job for job in service.jobs() if job.state == "queued"]) == 3)
    service.delete("tj/one")
    with service.client() as client:  # a job that no longer exists
        (two,) = [job for job in service.jobs() if job.name == "two"]
        client.cancel(two.id)
        client.wait(two.id)
        client.delete(two.id)
    service.delete("tj/two")
    service.kill()
    service.delete("tj/three")
    service.start()
    cancelled = dict.fromkeys(("one", "three"), "cancelled")
    until(lambda: {job.name: job.state for job in service.jobs()} == cancelled)


def test_a_namespace_that_is_deleted_cancels_the_jobs_of_its_trainjobs(service: Operated, cluster: Cluster) -> None:
    """The namespace differs from the scheduler's, which would otherwise lose its rights."""
    service.start()
    with cluster.namespace("team-") as team:
        service.annotate("ann", team)
        service.apply("one", namespace=team)
        until(lambda: [job for job in service.jobs() if job.state == "queued"])
        cluster.kubectl("delete", "namespace", team, "--timeout=60s")
    until(lambda: [(job.name, job.state) for job in service.jobs()] == [("one", "cancelled")])


def test_what_a_trainjob_has_goes_with_it_also_where_no_scheduler_runs(
    service: Operated, cluster: Cluster, kwok: Kwok
) -> None:
    def has() -> set[str]:
        kinds = ("pods", "secrets", "services")
        found = cluster.kubectl("get", ",".join(kinds), "-n", service.namespace, "-o", "name", *OURS)
        return {each.split("/")[0] for each in found.split()}

    with kwok.nodes(1, gpus=0) as (node,):
        amounts = {"allocatable": {RESOURCE: "8"}, "capacity": {RESOURCE: "8"}}
        cluster.kubectl("patch", "node", node, "--subresource=status", "-p", json.dumps({"status": amounts}))
        service.start()
        service.annotate("ann")
        service.apply("gang", "{command: [train], gpus: 1, workers: 3}")
        until(lambda: has() == {"pod", "secret", "service"})
        service.kill()
        service.delete("tj/gang")
        until(lambda: not has())
        service.start()
        until(lambda: [(job.name, job.state) for job in service.jobs()] == [("gang", "cancelled")])


def test_a_project_is_what_its_resource_says(service: Operated) -> None:
    service.start()
    project = ("projects.runai.jupyter.org", "vision")
    try:
        service.apply_project("vision", "{guaranteed: 4, limit: 2}")
        refused = until(lambda: service.condition("Applied", *project))
        assert refused["status"] == "False"
        assert "limit" in refused["message"]
        service.apply_project("vision", "{guaranteed: 4, limit: 8, members: [ann]}")
        until(lambda: (found := service.condition("Applied", *project)) and found["status"] == "True")
        with service.client() as client:
            view = client.project("vision")
            assert (view.guaranteed, view.limit, view.members) == (4, 8, ["ann"])
            client.project_put(ProjectEntry(name="vision", guaranteed=1))
            until(lambda: client.project("vision").guaranteed == 4)
            service.annotate("ann")
            service.apply("holds", "{command: [train], project: vision}")
            until(lambda: service.status("tj/holds").get("state") == "queued")
            service.delete(*project)
            assert client.project("vision").waiting == 1, "it has a job, so it stays, as a project like any other"
            service.delete("tj/holds")
            service.apply_project("vision", "{guaranteed: 3}")
            until(lambda: client.project("vision").guaranteed == 3)
            service.delete(*project)
            until(lambda: "vision" not in {each.name for each in client.projects()})
    finally:
        service.cluster.kubectl("delete", *project, "--ignore-not-found", "--timeout=60s")


def test_jobs_run_and_wait_while_the_quota_of_their_namespace_changes(
    service: Operated, cluster: Cluster, kwok: Kwok
) -> None:
    path = f"/api/v1/namespaces/{service.namespace}/resourcequotas"

    def allow(gpus: str) -> None:
        cluster.kubectl("patch", "quota", "team", "-n", service.namespace, "-p", json.dumps(quota(gpus)))
        effective(gpus)

    def quota(gpus: str) -> dict[str, Any]:
        return {"metadata": {"name": "team"}, "spec": {"hard": {f"requests.{RESOURCE}": gpus}}}

    def effective(gpus: str) -> None:
        until(lambda: (service.status("quota/team").get("hard") or {}).get(f"requests.{RESOURCE}") == gpus)

    def attempts() -> list[AttemptView]:
        (job,) = [job for job in service.jobs() if job.name == "second"]
        return job.attempts if job.state in ("queued", "running") else []

    def waits() -> bool:
        told = service.condition("Running", "tj/second") or {}
        why = "quota team of its namespace does not allow its pod now"
        return (told.get("status"), told.get("reason")) == ("False", "Queued") and why in told["message"]

    with kwok.nodes(1, gpus=0) as (node,):
        amounts = {"allocatable": {RESOURCE: "4"}, "capacity": {RESOURCE: "4"}}
        cluster.kubectl("patch", "node", node, "--subresource=status", "-p", json.dumps({"status": amounts}))
        cluster.create(path, quota("4"))
        effective("4")
        service.start()
        service.annotate("ann")
        service.apply("first", "{command: [train], gpus: 2}")
        until(lambda: service.states()["first"] == "running")
        allow("1")  # less than is used
        service.apply("second", "{command: [train], gpus: 1}")
        until(waits)
        until(lambda: len(attempts()) == 3)  # the next one is due 20 s later
        assert service.states()["first"] == "running"
        allow("3")
        until(lambda: service.states() == {"first": "running", "second": "running"})
        *_, refused, started = attempts()
        assert started.created < (refused.ended or 0.0) + 20
        until(lambda: (service.condition("Running", "tj/second") or {}).get("status") == "True")


def test_a_lowered_guarantee_takes_gpus_back_and_the_conditions_say_so(
    service: Operated, cluster: Cluster, kwok: Kwok
) -> None:
    projects = [("projects.runai.jupyter.org", name) for name in ("vision", "speech")]
    with kwok.nodes(1, gpus=0) as (node,):
        amounts = {"allocatable": {RESOURCE: "4"}, "capacity": {RESOURCE: "4"}}
        cluster.kubectl("patch", "node", node, "--subresource=status", "-p", json.dumps({"status": amounts}))
        service.start()
        service.annotate("ann")
        try:
            service.apply_project("vision", "{guaranteed: 4, members: [ann]}")
            service.apply_project("speech", "{guaranteed: 0, members: [ann]}")
            for project in projects:
                until(lambda each=project: (service.condition("Applied", *each) or {}).get("status") == "True")  # type: ignore[misc]
            for name in ("v0", "v1", "v2", "v3"):
                service.apply(name, "{command: [train], project: vision}")
            until(lambda: list(service.states().values()) == ["running"] * 4)
            service.apply("s", "{command: [train], project: speech}")
            until(lambda: "its fair share is 0" in service.status("tj/s").get("message", ""))
            service.apply_project("vision", "{guaranteed: 2, members: [ann]}")
            until(lambda: service.states()["s"] == "running")
            (stopped,) = until(lambda: [name for name, state in service.states().items() if state == "queued"])
            until(
                lambda: (
                    "its fair share is 3" in (service.condition("Running", f"tj/{stopped}") or {}).get("message", "")
                )
            )
            told = service.condition("Running", f"tj/{stopped}") or {}
            assert (told["status"], told["reason"]) == ("False", "Queued")
            until(lambda: (service.condition("Running", "tj/s") or {}).get("status") == "True")
            (job,) = [job for job in service.jobs() if job.name == stopped]
            assert (job.attempts[0].reason, job.attempts[0].ending) == (
                "Project speech reclaims GPUs for s.",
                "preempted",
            )
            pods = cluster.kubectl("get", "pods", "-n", service.namespace, "-o", "name", *OURS).split()
            assert len(pods) == 4
        finally:
            for project in projects:
                cluster.kubectl("delete", *project, "--ignore-not-found", "--timeout=60s")
