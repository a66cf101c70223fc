"""A worker's state, fault and sentence from its pod, as written by kubelets and the control plane."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from scheduler.engines.base import WorkerState
from scheduler.engines.kubernetes.api import ApiError
from scheduler.engines.kubernetes.podstates import CONTAINER, pod_status
from scheduler.engines.kubernetes.refusals import Exceeded, exceeded, refusal
from scheduler.model import Fault

PENDING, PULLING, LOST = WorkerState.PENDING, WorkerState.PULLING, WorkerState.LOST


def pod(phase: str = "Pending", *, node: str = "n1", deleting: bool = False, **status: Any) -> dict[str, Any]:
    metadata = {"name": "p", **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {})}
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase, **status}}


def waiting(reason: str, message: str = "", image: str = "team/train:1") -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"containerStatuses": [{"name": CONTAINER, "image": image, "state": state}]}


def terminated(code: int, reason: str = "Error", message: str = "") -> dict[str, Any]:
    state = {"terminated": {"exitCode": code, "reason": reason, "message": message}}
    return {"containerStatuses": [{"name": CONTAINER, "image": "any", "state": state}]}


def delegated(*conditions: dict[str, str], deleting: bool = False, scheduler: str = "kai-scheduler") -> dict[str, Any]:
    """A pod that KAI, or the default scheduler after Kueue, places."""
    found = pod(node="", deleting=deleting, conditions=[{"status": "True", **each} for each in conditions])
    return {**found, "spec": {"schedulerName": scheduler}}


def disrupted(reason: str) -> dict[str, Any]:
    return {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason}]}


@pytest.mark.parametrize(
    ("found", "state", "fault", "words"),
    [
        (pod(node=""), PENDING, None, "bound"),
        (pod(), PENDING, None, ""),
        (delegated(), PENDING, None, ""),
        (
            delegated({"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "gated"}),
            *(PENDING, None, ""),
        ),
        (
            delegated({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/4 fit"}),
            *(PENDING, None, "0/4 fit."),
        ),
        (
            delegated({"type": "TerminationTarget", "message": "Preempted to accommodate b"}, deleting=True),
            *(PENDING, Fault.OTHERS, "Kueue stopped it: Preempted to accommodate b."),
        ),
        (
            delegated(
                {"type": "DisruptionTarget", "reason": "PreemptionByScheduler", "message": "reclaimed by b"},
                deleting=True,
            ),
            *(PENDING, Fault.OTHERS, "kai-scheduler stopped it: reclaimed by b."),
        ),
        (delegated(deleting=True), PENDING, Fault.OTHERS, "deleted, as kai-scheduler does to make room"),
        (delegated(deleting=True, scheduler="default-scheduler"), PENDING, Fault.PLACE, "its pod was deleted"),
        (pod(**waiting("ContainerCreating")), PULLING, None, "image is being pulled"),
        (pod(**waiting("PodInitializing")), PULLING, None, "image is being pulled"),
        (pod(**waiting("ErrImagePull", 'failed to pull "x": not found')), LOST, Fault.JOB, "cannot be pulled"),
        (pod(**waiting("ImagePullBackOff", "pull access denied")), LOST, Fault.JOB, "'team/train:1' cannot be pulled"),
        (pod(**waiting("ErrImagePull", "i/o timeout")), PULLING, None, "keeps trying: i/o timeout."),
        (pod(**waiting("InvalidImageName", image="No!")), LOST, Fault.JOB, "'No!' is not the name of an image."),
        (pod(**waiting("ErrImageNeverPull")), LOST, Fault.PLACE, "does not have the image"),
        (
            pod(**waiting("CreateContainerConfigError", "container has runAsNonRoot and image will run as root")),
            *(LOST, Fault.JOB, "runs as root"),
        ),
        (pod(**waiting("CreateContainerConfigError", "secret x")), LOST, Fault.JOB, "cannot be configured: secret x."),
        (
            pod(**waiting("RunContainerError", 'exec: "python3": executable file not found in $PATH')),
            *(LOST, Fault.JOB, "has no python3"),
        ),
        (pod(**waiting("CreateContainerError", "runc: no device")), LOST, Fault.PLACE, "could not start its container"),
        (pod("Running", containerStatuses=[{"name": CONTAINER, "state": {"running": {}}}]), PULLING, None, "started"),
        (
            pod("Failed", **terminated(128, "StartError", 'exec: "python3": executable file not found in $PATH')),
            *(LOST, Fault.JOB, "has no python3"),
        ),
        (pod("Failed", **terminated(137, "OOMKilled")), LOST, Fault.JOB, "ran out of memory"),
        (pod("Failed", **terminated(137)), LOST, None, "exit code 137"),
        (pod("Failed"), LOST, None, "its pod ended"),
        (pod("Failed", reason="OutOfnvidia.com/gpu"), LOST, Fault.PLACE, "refused it (OutOfnvidia.com/gpu)."),
        (pod("Failed", reason="UnexpectedAdmissionError", message="no devices"), LOST, Fault.PLACE, "no devices."),
        (pod("Failed", reason="NodeAffinity"), LOST, Fault.PLACE, "refused it (NodeAffinity)."),
        (pod("Failed", reason="Evicted", message="The node was low on memory."), LOST, Fault.PLACE, "ran short"),
        (
            pod("Failed", reason="Evicted", message='Usage of EmptyDir volume "runai-home" exceeds the limit "1Gi".'),
            *(LOST, Fault.JOB, "exceeded its disk limit"),
        ),
        (pod("Failed", reason="DeadlineExceeded"), LOST, Fault.JOB, "deadline"),
        (pod("Failed", reason="NewInTheNextRelease"), LOST, Fault.PLACE, "ended it (NewInTheNextRelease)."),
        (pod("Failed", **disrupted("DeletionByPodGC")), LOST, Fault.PLACE, "its node is gone."),
        (pod("Running", deleting=True), PENDING, Fault.PLACE, "its pod was deleted."),
        (pod("Running", deleting=True, **disrupted("DeletionByTaintManager")), PENDING, Fault.PLACE, "unreachable"),
        (pod("Running", deleting=True, **disrupted("EvictionByEvictionAPI")), PENDING, Fault.PLACE, "drain"),
        (pod("Running", deleting=True, **disrupted("PreemptionByScheduler")), PENDING, Fault.PLACE, "preempted"),
        (pod("Failed", **disrupted("TerminationByKubelet")), LOST, Fault.PLACE, "lack of resources"),
    ],
)  # fmt: skip
def test_the_status_of_a_worker_follows_from_its_pod(
    found: dict[str, Any], state: WorkerState, fault: Fault | None, words: str
) -> None:
    said = pod_status(found)
    assert (said.state, said.fault) == (state, fault)
    assert words in said.reason
    assert not said.reason or said.reason[-1] in ".…"


def test_an_init_container_that_cannot_start_is_told_of_before_the_worker_that_waits_for_it() -> None:
    init = {
        "name": "fetch",
        "image": "nowhere/fetch",
        **waiting("ErrImagePull", "manifest unknown")["containerStatuses"][0],
    }
    found = pod(initContainerStatuses=[{**init, "image": "nowhere/fetch"}], **waiting("PodInitializing"))
    assert "'nowhere/fetch' cannot be pulled" in pod_status(found).reason


def test_the_termination_message_of_a_container_is_kept() -> None:
    assert (
        pod_status(pod("Succeeded", **terminated(0, "Completed", '{"state": "exited"}'))).message
        == '{"state": "exited"}'
    )
    assert pod_status(pod("Running", **terminated(1, "Error", "why"))).message == "why"


def test_a_message_of_the_cluster_is_one_line_of_bounded_length() -> None:
    reason = pod_status(pod(**waiting("CreateContainerError", "one\n two " * 1000))).reason
    assert "\n" not in reason
    assert len(reason) < 400


QUOTA = 'pods "p" is forbidden: exceeded quota: team, requested: requests.nvidia.com/gpu=1, used: 4, limited: 4'


@pytest.mark.parametrize(
    ("status", "message", "fault", "words"),
    [
        (403, QUOTA, Fault.ENGINE, "the quota team of its namespace"),
        (403, 'pods "p" is forbidden: violates PodSecurity "restricted:latest"', Fault.ENGINE, "pod security"),
        (403, "unable to create new content in namespace x because it is being terminated", Fault.ENGINE, "deleted"),
        (403, 'User "x" cannot create resource "pods"', Fault.ENGINE, "does not allow it"),
        (404, 'namespaces "x" not found', Fault.ENGINE, "does not exist"),
        (404, 'pods "p" not found', Fault.ENGINE, "was deleted before"),
        (422, 'Pod "p" is invalid: spec.containers[0].image: Required value', Fault.JOB, "not valid"),
        (409, "pod p is already assigned to node", Fault.PLACE, "could not be bound"),
        (418, "", Fault.ENGINE, "HTTP status 418"),
    ],
)
def test_an_error_of_the_api_server_is_reported_with_its_fault(
    status: int, message: str, fault: Fault, words: str
) -> None:
    sentence, whose = refusal(ApiError(status, "", message))
    assert whose is fault
    assert words in sentence
    assert sentence.endswith(".")


@pytest.mark.parametrize("status", [0, 408, 429, 500, 503])
def test_temporary_errors_are_retried(status: int) -> None:
    assert ApiError(status, "", "").passing


def test_a_refusal_by_a_quota_says_what_does_not_suffice() -> None:
    said = 'pods "p" is forbidden: exceeded quota: team, requested: pods=1,requests.cpu=500m, used: a=1, limited: a=1'
    found = exceeded(ApiError(403, "Forbidden", said))
    assert found is not None
    assert found.times(4) == Exceeded("team", {"pods": Fraction(4), "requests.cpu": Fraction(2)})
    assert exceeded(ApiError(403, "Forbidden", "pods is forbidden: not allowed")) is None


def test_quota_conflicts_are_retried() -> None:
    said = 'Operation cannot be fulfilled on resourcequotas "team": the object has been modified; please apply'
    assert ApiError(409, "Conflict", said).passing


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422])
def test_permanent_errors_are_not_retried(status: int) -> None:
    assert not ApiError(status, "", "").passing
