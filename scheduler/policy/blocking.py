"""What blocks a workload: one dataclass for each kind, shown as JSON and as a sentence.

A blocker names what must change: the project at its limit, the missing GPUs, the type that no node has. `AfterJobs`,
`ArrayFull`, `RetryPause` and `Delegated` are the controller's, which holds those jobs back from the policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.model import ONE, ArrayId, GpuType, JobId, Milli, NodeName, ProjectName, UserName, gpu_count, number
from scheduler.policy.blockkinds import BlockKind
from scheduler.policy.intheway import InTheWay
from scheduler.policy.projects import Resource
from scheduler.policy.quotas import REMAINDER, PartitionKey, in_words


@dataclass(frozen=True, slots=True)
class AtLimit:
    """The project would exceed its limit."""

    kind: ClassVar = BlockKind.LIMIT
    project: ProjectName
    limit: Milli
    allocated: Milli
    asked: Milli
    partition: PartitionKey = REMAINDER


@dataclass(frozen=True, slots=True)
class OutsideGuarantee:
    """A job that can't be preempted would leave its project's guarantee. `allocated` is what such jobs have already."""

    kind: ClassVar = BlockKind.GUARANTEE
    project: ProjectName
    guaranteed: Milli
    allocated: Milli
    asked: Milli
    partition: PartitionKey = REMAINDER


@dataclass(frozen=True, slots=True)
class AtResourceLimit:
    """The project would exceed its limit of CPUs (thousandths) or memory (MiB)."""

    kind: ClassVar = BlockKind.LIMIT
    project: ProjectName
    resource: Resource
    limit: int
    allocated: int
    asked: int


@dataclass(frozen=True, slots=True)
class OutsideResourceGuarantee:
    """As `OutsideGuarantee`, of CPUs or memory."""

    kind: ClassVar = BlockKind.GUARANTEE
    project: ProjectName
    resource: Resource
    guaranteed: int
    allocated: int
    asked: int


@dataclass(frozen=True, slots=True)
class NoGpuOfType:
    """`wants` says in words what is asked for; `exists` whether any node has GPUs of these types."""

    kind: ClassVar = BlockKind.GPU_TYPE
    wants: str
    gpu_types: tuple[GpuType, ...]
    exists: bool


@dataclass(frozen=True, slots=True)
class NoDomain:
    """No domain of the required level has enough free GPUs; `ever` says whether one would have them if it were idle."""

    kind: ClassVar = BlockKind.TOPOLOGY
    wants: str
    level: str
    asked: Milli
    ever: bool


@dataclass(frozen=True, slots=True)
class NeverFits:
    """The eligible nodes are too small or too few, even idle."""

    kind: ClassVar = BlockKind.CAPACITY
    wants: str
    asked: Milli


@dataclass(frozen=True, slots=True)
class AvoidsNodes:
    """Without `nodes`, which could not run it and are avoided for a while, the eligible nodes are too small or few."""

    kind: ClassVar = BlockKind.CAPACITY
    wants: str
    asked: Milli
    nodes: tuple[NodeName, ...]


@dataclass(frozen=True, slots=True)
class NoCapacity:
    """Too few GPUs are free, and no running job can be stopped for it. `one_node`: all GPUs must be on one node."""

    kind: ClassVar = BlockKind.CAPACITY
    wants: str
    asked: Milli
    free: Milli
    one_node: bool


@dataclass(frozen=True, slots=True)
class NoBuildGpu:
    """Too few GPUs are free for a session."""

    kind: ClassVar = BlockKind.CAPACITY
    wants: str
    asked: Milli
    free: Milli


@dataclass(frozen=True, slots=True)
class Reserved:
    """The suitable free GPUs are reserved for the job `holder`."""

    kind: ClassVar = BlockKind.RESERVATION
    wants: str
    holder: str
    asked: Milli
    free: Milli


@dataclass(frozen=True, slots=True)
class AboveShare:
    """The project has its fair share, and too few GPUs are idle for more."""

    kind: ClassVar = BlockKind.FAIR_SHARE
    wants: str
    project: ProjectName
    fair_share: Milli
    allocated: Milli
    asked: Milli
    free: Milli
    partition: PartitionKey = REMAINDER


@dataclass(frozen=True, slots=True)
class OverBuildQuota:
    """A session would exceed its user's fixed quota."""

    kind: ClassVar = BlockKind.QUOTA
    user: UserName
    quota: Milli
    allocated: Milli
    asked: Milli


@dataclass(frozen=True, slots=True)
class NoQueue:
    """The project is unknown, or only its children take jobs."""

    kind: ClassVar = BlockKind.PROJECT
    project: ProjectName


@dataclass(frozen=True, slots=True)
class AfterJobs:
    """The job comes after others that have not ended."""

    kind: ClassVar = BlockKind.AFTER
    jobs: tuple[JobId, ...]


@dataclass(frozen=True, slots=True)
class ArrayFull:
    """The maximum number of jobs of its array already run."""

    kind: ClassVar = BlockKind.ARRAY
    array: ArrayId
    max_parallel: int


@dataclass(frozen=True, slots=True)
class RetryPause:
    """The job failed and will be retried at a given time."""

    kind: ClassVar = BlockKind.RETRY
    at: float


@dataclass(frozen=True, slots=True)
class Delegated:
    """Its placement is delegated: another scheduler, of this name, decides when it starts."""

    kind: ClassVar = BlockKind.DELEGATED
    scheduler: str


PolicyBlocker = (
    AtLimit
    | OutsideGuarantee
    | AtResourceLimit
    | OutsideResourceGuarantee
    | NoGpuOfType
    | NoDomain
    | NeverFits
    | AvoidsNodes
    | NoCapacity
    | NoBuildGpu
    | Reserved
    | AboveShare
    | OverBuildQuota
    | NoQueue
    | InTheWay
)
Blocker = PolicyBlocker | AfterJobs | ArrayFull | RetryPause | Delegated


@dataclass(frozen=True, slots=True)
class Blocked:
    """What a workload waits for, with its sentence; shared by all jobs that wait for the same."""

    by: PolicyBlocker
    sentence: str


def blocked(by: PolicyBlocker) -> Blocked:
    return Blocked(by, sentence(by))


def as_json(blocker: Blocker) -> dict[str, Any]:
    """The blocker as JSON: its `kind`, and amounts in GPUs."""
    return {"kind": blocker.kind.value, **_details(blocker)}


def _details(blocker: Blocker) -> dict[str, Any]:
    match blocker:
        case AtLimit(project, limit, allocated, asked, partition):
            amounts = _gpus(limit=limit, allocated=allocated, asked=asked)
            return {"project": project, **amounts, **_named(partition)}
        case OutsideGuarantee(project, guaranteed, allocated, asked, partition):
            amounts = _gpus(guaranteed=guaranteed, allocated=allocated, asked=asked)
            return {"project": project, **amounts, **_named(partition)}
        case AtResourceLimit(project, resource, limit, allocated, asked):
            found = {"limit": limit, "allocated": allocated, "asked": asked}
            return {"project": project, "resource": resource.value, **resource.in_units(found)}
        case OutsideResourceGuarantee(project, resource, guaranteed, allocated, asked):
            found = {"guaranteed": guaranteed, "allocated": allocated, "asked": asked}
            return {"project": project, "resource": resource.value, **resource.in_units(found)}
        case NoGpuOfType(_, gpu_types, _):
            return {"gpu_types": list(gpu_types)}
        case NoDomain(_, level, asked, ever):
            return {"level": level, **_gpus(asked=asked), "ever": ever}
        case NeverFits(_, asked):
            return {**_gpus(asked=asked), "ever": False}
        case AvoidsNodes(_, asked, nodes):
            return {**_gpus(asked=asked), "avoids": list(nodes)}
        case NoCapacity(_, asked, free, _) | NoBuildGpu(_, asked, free):
            return {**_gpus(asked=asked, free=free)}
        case Reserved(_, holder, asked, free):
            return {"for": holder, **_gpus(asked=asked, free=free)}
        case AboveShare(_, project, fair_share, allocated, asked, free, partition):
            amounts = _gpus(fair_share=fair_share, allocated=allocated, asked=asked, free=free)
            return {"project": project, **amounts, **_named(partition)}
        case OverBuildQuota(user, quota, allocated, asked):
            return {"user": user, **_gpus(quota=quota, allocated=allocated, asked=asked)}
        case NoQueue(project):
            return {"project": project}
        case InTheWay(project, _, at, guaranteed, asked):
            return {"project": project, "at": at, **_gpus(guaranteed=guaranteed, asked=asked)}
        case AfterJobs(jobs):
            return {"jobs": list(jobs)}
        case ArrayFull(array, max_parallel):
            return {"array": array, "max_parallel": max_parallel, "at_once": max_parallel}  # its former name
        case RetryPause(at):
            return {"at": at}
        case Delegated(scheduler):
            return {"scheduler": scheduler}


def _gpus(**amounts: Milli) -> dict[str, float]:
    return {name: amount // ONE if amount % ONE == 0 else amount / ONE for name, amount in amounts.items()}


def _named(partition: PartitionKey) -> dict[str, Any]:
    return {} if partition == REMAINDER else {"node_pool": partition[0], "gpu_type": partition[1]}


def sentence(blocker: PolicyBlocker) -> str:
    """What the workload waits for, for people."""
    match blocker:
        case AtLimit(project, limit, allocated, asked, partition):
            return (
                f"Project {project} uses {gpu_count(allocated)}{in_words(partition)}; its limit is {_number(limit)}. "
                f"This job needs {_number(asked)} more."
            )
        case OutsideGuarantee(project, guaranteed, allocated, asked, partition):
            return (
                "Jobs that can't be preempted must stay inside their project's guarantee. Project "
                f"{project} is guaranteed {gpu_count(guaranteed)}{in_words(partition)}; such jobs use "
                f"{_number(allocated)} of them, and this job needs {_number(asked)}."
            )
        case AtResourceLimit(project, resource, limit, allocated, asked):
            return (
                f"Project {project} uses {resource.in_words(allocated)}; its limit is "
                f"{resource.in_words(limit)}. This job needs {resource.in_words(asked)} more."
            )
        case OutsideResourceGuarantee(project, resource, guaranteed, allocated, asked):
            return (
                "Jobs that can't be preempted must stay inside their project's guarantee. Project "
                f"{project} is guaranteed {resource.in_words(guaranteed)}; such jobs use "
                f"{resource.in_words(allocated)}, and this job needs {resource.in_words(asked)}."
            )
        case NoGpuOfType(wants, gpu_types, exists):
            types = " or ".join(gpu_types)
            if not exists:
                return f"Needs GPUs of type {types}. No node that this job may use has them."
            return f"Needs {wants} of type {types}. All GPUs of this type are in use."
        case NoDomain(wants, level, _, ever):
            where = "on one node" if level == "node" else f"in one {level}"
            return f"Needs {wants} {where}. No {level} {'has that much free' if ever else 'is large enough'}."
        case NeverFits(wants, _):
            return f"Needs {wants}. The nodes that this job may use are too small or too few, even when idle."
        case AvoidsNodes(wants, _, nodes):
            return (
                f"Needs {wants}. {names(nodes)} could not run it and {'is' if len(nodes) == 1 else 'are'} avoided for "
                "a while; the other nodes that it may use are too small or too few."
            )
        case NoCapacity(wants, asked, free, one_node):
            where = " on one node" if one_node else ""
            return f"Needs {wants}{where}. {_too_little(asked, free)}, and no running job can be stopped for it."
        case NoBuildGpu(wants, _, free):
            return f"This session needs {wants}. {_are(free)} free in the build environment."
        case Reserved(wants, holder, _, free):
            return (
                f"Needs {wants}. {_are(free)} free, but the suitable ones are reserved for {holder}, which is ahead in "
                "the queue and waits for more GPUs."
            )
        case AboveShare(wants, project, fair_share, allocated, _, free, partition):
            return (
                f"Needs {wants}. {_are(free)} free. Project {project} uses "
                f"{gpu_count(allocated)}{in_words(partition)}; "
                f"its fair share is {_number(fair_share)}. Beyond it, it may only use idle GPUs."
            )
        case OverBuildQuota(user, quota, allocated, asked):
            return (
                f"{user or 'This user'} has a fixed quota of {gpu_count(quota)} for notebooks and uses "
                f"{_number(allocated)}; this session needs {_number(asked)}. Close another session or ask for less."
            )
        case NoQueue(project):
            return (
                f"Project {project} takes no jobs: it does not exist or has projects below it. Submit to another one."
            )
        case InTheWay():
            return blocker.sentence


def _number(amount: Milli) -> str:
    return number(amount / ONE)


def _too_little(asked: Milli, free: Milli) -> str:
    if not asked:
        return "No node that it may use has enough CPUs and memory free"
    if free < asked:
        return f"{_are(free)} free"
    return f"{_are(free)} free, but not together or not with the CPUs and memory it needs"


def _are(amount: Milli) -> str:
    """ "1 GPU is", "2 GPUs are", "None are"."""
    return f"{gpu_count(amount)} {'is' if amount == ONE else 'are'}" if amount else "None are"


def names(ids: Sequence[str]) -> str:
    """A few names in a sentence."""
    if len(ids) <= 3:
        return " and ".join(filter(None, [", ".join(ids[:-1]), ids[-1]]))
    return f"{ids[0]}, {ids[1]} and {len(ids) - 2} others"
