"""Custom resources on a real API server: resources created by `kubectl` become jobs and projects, and show their
state."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest

from scheduler.operator.crds import definitions
from scheduler.schema import AttemptView, ProjectEntry
from tests.app.conftest import until
from tests.kubernetes.chart import CRDS
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.kwok import Kwok
from tests.kubernetes.operated import RESOURCE, Operated
from tests.kubernetes.programs import eventually

OURS = ("--selector", "app.kubernetes.io/managed-by=jupyter-runai")


@pytest.fixture
def service(operated: Operated) -> Operated:
    return operated


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
