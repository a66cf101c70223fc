"""The state of one of our pods: the worker's state, the fault if it does not run, and a sentence for people.

Pure: a table of what kubelets, other schedulers and the control plane write into a pod. Sources: the API reference of
`PodStatus` and `ContainerStateWaiting`, `pkg/kubelet` (`images/types.go`, `lifecycle/predicate.go`, `eviction/`), and
the reasons of the condition `DisruptionTarget`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.engines.base import WorkerState
from scheduler.engines.kubernetes.names import KAI, SCHEDULER
from scheduler.model import Fault

CONTAINER = "worker"
"""The container that the agent runs in."""

ENDED = ("Succeeded", "Failed")
"""The phases of pods that have ended."""

_MISSING_IMAGE = re.compile(
    r"not found|manifest unknown|does not exist|unauthori[sz]ed|denied|authentication required|no such host in image"
    r"|no match for platform|invalid reference",
    re.IGNORECASE,
)
_OWN_LIMIT = re.compile(r"exceeds? the (total )?limit|exceeded its local", re.IGNORECASE)
_NO_COMMAND = re.compile(r"executable file not found|no such file or directory", re.IGNORECASE)

_DISRUPTIONS = {
    "PreemptionByScheduler": "its pod was preempted for a pod of another scheduler",
    "DeletionByTaintManager": "its node became unreachable or got a taint",
    "EvictionByEvictionAPI": "its pod was evicted, for example by a drain of its node",
    "DeletionByPodGC": "its node is gone",
    "TerminationByKubelet": "its node ended it, for lack of resources or at its own shutdown",
}


@dataclass(frozen=True, slots=True)
class PodStatus:
    """`state` is what the pod alone shows; the agent reports the state of the process in it.

    `fault` is set if the worker cannot run or cannot continue. `deleting`: the pod is being deleted. `message` is its
    container's termination message; `ended` the time of its end, in seconds since the epoch as text.
    """

    state: WorkerState
    reason: str = ""
    fault: Fault | None = None
    deleting: bool = False
    message: str = ""


def pod_status(pod: Mapping[str, Any]) -> PodStatus:
    """The state of a pod."""
    status = pod.get("status", {})
    containers: Iterable[Mapping[str, Any]] = status.get("containerStatuses") or ()
    container = next((each for each in containers if each.get("name") == CONTAINER), {})
    state = container.get("state") or {}
    deleting = "deletionTimestamp" in pod["metadata"]
    terminated = state.get("terminated")
    if status.get("phase") in ENDED:
        return _over(pod, terminated or {}, deleting)
    if terminated is not None:
        return _over(pod, terminated, deleting)
    if deleting:
        reason, fault = _disruption(pod) or ("its pod was deleted.", Fault.PLACE)
        return PodStatus(WorkerState.PENDING, reason, fault, deleting)
    if "running" in state:
        return PodStatus(WorkerState.PULLING, "its container has started and reports to the scheduler.")
    if not pod.get("spec", {}).get("nodeName"):
        return PodStatus(WorkerState.PENDING, _unplaced(pod))
    return _waiting(pod, _first_waiting(status))


def _first_waiting(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """Why the container waits, with init containers first."""
    every: Iterable[Mapping[str, Any]] = (
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    )
    waiting = [each for each in every if (each.get("state") or {}).get("waiting")]
    trouble = [each for each in waiting if each["state"]["waiting"].get("reason") not in _HARMLESS]
    first = next(iter(trouble or waiting), {})
    return {"image": first.get("image", ""), **(first.get("state", {}).get("waiting") or {})}


_HARMLESS = (None, "ContainerCreating", "PodInitializing")


def _waiting(pod: Mapping[str, Any], waiting: Mapping[str, Any]) -> PodStatus:
    reason, message = waiting.get("reason", ""), waiting.get("message", "")
    image = waiting.get("image", "")
    match reason:
        case "":
            return PodStatus(WorkerState.PENDING)
        case "ContainerCreating" | "PodInitializing":
            return PodStatus(WorkerState.PULLING, "its image is being pulled, or its volumes are being mounted.")
        case "InvalidImageName":
            return _failed(f"{image!r} is not the name of an image.", Fault.JOB)
        case "ErrImageNeverPull":
            return _failed(f"its node does not have the image {image!r} and may not pull it.", Fault.PLACE)
        case "ErrImagePull" | "ImagePullBackOff" | "RegistryUnavailable" | "ImageInspectError":
            if _MISSING_IMAGE.search(message):
                return _failed(f"the image {image!r} cannot be pulled: {short(message)}", Fault.JOB)
            sentence = f"the image {image!r} cannot be pulled yet; its node keeps trying: {short(message)}"
            return PodStatus(WorkerState.PULLING, sentence)
        case "CreateContainerConfigError":
            if "runAsNonRoot" in message or "run as root" in message:
                sentence = f"the image {image!r} runs as root, which is not allowed; set runAsUser in the pod template."
                return _failed(sentence, Fault.JOB)
            return _failed(f"its container cannot be configured: {short(message)}", Fault.JOB)
        case "CreateContainerError" | "RunContainerError" | "StartError":
            return _not_started(message, image)
        case _:
            return PodStatus(WorkerState.PENDING, f"{reason}: {short(message)}" if message else f"{reason}.")


def _over(pod: Mapping[str, Any], terminated: Mapping[str, Any], deleting: bool) -> PodStatus:
    """The status of a pod that has ended, or whose container has."""
    status = pod.get("status", {})
    message = terminated.get("message", "")
    how = terminated.get("reason", "")
    if found := _disruption(pod):
        return PodStatus(WorkerState.LOST, *found, deleting, message)
    if found := _of_the_pod(status):
        return PodStatus(WorkerState.LOST, *found, deleting, message)
    if how == "OOMKilled":
        sentence = "it ran out of memory: its container reached its limit."
        return PodStatus(WorkerState.LOST, sentence, Fault.JOB, deleting, message)
    if how in ("StartError", "ContainerCannotRun"):
        failed = _not_started(message, "")
        return PodStatus(WorkerState.LOST, failed.reason, failed.fault, deleting)
    code = terminated.get("exitCode")
    said = "its pod ended" if code is None else f"its agent ended with exit code {code}"
    return PodStatus(WorkerState.LOST, f"{said} and the result of the worker is unknown.", None, deleting, message)


def _of_the_pod(status: Mapping[str, Any]) -> tuple[str, Fault] | None:
    """Why a node has refused or ended a pod."""
    reason, message = status.get("reason", ""), short(status.get("message", ""))
    if reason == "Evicted":
        if _OWN_LIMIT.search(message):
            return f"it exceeded its disk limit: {message}", Fault.JOB
        return f"its node ran short of resources and ended it: {message}", Fault.PLACE
    if reason == "DeadlineExceeded":
        return "its pod exceeded its deadline (activeDeadlineSeconds).", Fault.JOB
    if reason.startswith("OutOf") or reason in (
        *("UnexpectedAdmissionError", "NodeAffinity", "NodeAdmission", "TopologyAffinityError", "NodeShutdown"),
        *("Terminated", "Shutdown", "Preempting", "Preempted", "NodeLost", "AdmissionFailed", "NodePorts"),
    ):
        return (
            f"its node refused it ({reason}): {message}" if message else f"its node refused it ({reason}).",
            Fault.PLACE,
        )
    if reason:
        return f"its node ended it ({reason}): {message}" if message else f"its node ended it ({reason}).", Fault.PLACE
    return None


def _disruption(pod: Mapping[str, Any]) -> tuple[str, Fault] | None:
    """The cause of an end that came neither from the pod nor from the scheduler."""
    scheduler = pod.get("spec", {}).get("schedulerName", SCHEDULER)
    if evicted := _condition(pod, "TerminationTarget"):
        return f"Kueue stopped it: {short(evicted.get('message', '')) or 'it does not say why.'}", Fault.OTHERS
    if disrupted := _condition(pod, "DisruptionTarget"):
        reason, message = disrupted.get("reason", ""), short(disrupted.get("message", ""))
        if reason == "PreemptionByScheduler" and scheduler != SCHEDULER:
            return f"{scheduler} stopped it: {message or 'it does not say why.'}", Fault.OTHERS
        return _DISRUPTIONS.get(reason, f"its pod was ended ({reason})") + ".", Fault.PLACE
    if scheduler == KAI and "deletionTimestamp" in pod["metadata"]:
        return f"its pod was deleted, as {KAI} does to make room.", Fault.OTHERS
    return None


def _unplaced(pod: Mapping[str, Any]) -> str:
    """What a pod without a node waits for; empty where another scheduler does not say it."""
    if pod.get("spec", {}).get("schedulerName", SCHEDULER) == SCHEDULER:
        return "its pod is being bound to its node."
    scheduled = _condition(pod, "PodScheduled", "False")
    if scheduled is None or scheduled.get("reason") == "SchedulingGated":
        return ""
    return short(scheduled.get("message", ""))


def _condition(pod: Mapping[str, Any], kind: str, status: str = "True") -> Mapping[str, Any] | None:
    conditions: Iterable[Mapping[str, Any]] = pod.get("status", {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == kind and each.get("status") == status), None)


def _not_started(message: str, image: str) -> PodStatus:
    if "python3" in message and _NO_COMMAND.search(message):
        named = f" {image!r}" if image else ""
        return _failed(f"the image{named} has no python3, which starts the worker.", Fault.JOB)
    return _failed(f"its node could not start its container: {short(message)}", Fault.PLACE)


def _failed(reason: str, fault: Fault) -> PodStatus:
    return PodStatus(WorkerState.LOST, reason, fault)


def short(message: str, most: int = 300) -> str:
    """A message of the cluster as one line that ends with a full stop."""
    line = " ".join(message.split())
    if not line:
        return ""
    line = line if len(line) <= most else f"{line[: most - 1]}…"
    return line if line.endswith((".", "…")) else f"{line}."
