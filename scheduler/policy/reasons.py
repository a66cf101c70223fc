"""Why a workload waits: the sentence for people, and the same for programs.

A reason names who must change what: the project at its limit, the GPUs that are missing, the type that no node has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scheduler.model import ONE, Milli
from scheduler.policy.projects import ProjectState, QuotaState
from scheduler.policy.quotas import REMAINDER, PartitionKey, in_words
from scheduler.policy.workloads import RequestClass


@dataclass(frozen=True, slots=True)
class Blocked:
    """What a workload waits for. `details["kind"]` is one of limit, guarantee, capacity, topology, gpu_type, fair_share,
    reservation, quota."""

    sentence: str
    details: dict[str, Any]


def gpus(amount: Milli) -> float | int:
    """An amount in GPUs, as people write it."""
    return amount // ONE if amount % ONE == 0 else amount / ONE


def count_of(amount: Milli) -> str:
    """ "1 GPU", "2.5 GPUs"."""
    return f"{gpus(amount)} GPU{'' if amount == ONE else 's'}"


def are(amount: Milli) -> str:
    """ "1 GPU is", "2 GPUs are", "none are"."""
    return f"{count_of(amount)} {'is' if amount == ONE else 'are'}" if amount else "none are"


def list_of(ids: tuple[str, ...]) -> str:
    """A few names in a sentence."""
    if len(ids) <= 3:
        return " and ".join(filter(None, [", ".join(ids[:-1]), ids[-1]]))
    return f"{ids[0]}, {ids[1]} and {len(ids) - 2} others"


def wants(request: RequestClass) -> str:
    """ "8 GPUs", "4 workers of 8 GPUs", "16 GiB of GPU memory"; of several groups each."""
    if request.groups:
        return " and ".join([wants(group) for group in request.groups])
    if request.demand.gpu_memory:
        each = f"{request.demand.gpu_memory / 1024:g} GiB of GPU memory"
    elif request.worker_amount:
        each = count_of(request.worker_amount)
    else:
        each = f"{gpus(request.demand.cpus)} CPUs" if request.demand.cpus else "a place"
    return each if request.gang_size == 1 else f"{request.gang_size} workers of {each} each"


def _named(key: PartitionKey) -> dict[str, Any]:
    return {} if key == REMAINDER else {"node_pool": key[0], "gpu_type": key[1]}


def at_limit(project: ProjectState, asked: Milli) -> Blocked:
    return _at_limit(project, project.partition, project.allocated, project.limit, asked)


def at_quota(project: ProjectState, quota: QuotaState, asked: Milli) -> Blocked:
    return _at_limit(
        project, (quota.quota.node_pool, quota.quota.gpu_type), quota.allocated, quota.limit, asked
    )


def _at_limit(project: ProjectState, key: PartitionKey, held: Milli, limit: Milli, asked: Milli) -> Blocked:
    return Blocked(
        f"Project {project.name} holds {gpus(held)} of at most {count_of(limit)}{in_words(key)}, "
        f"and this needs {gpus(asked)} more.",
        {"kind": "limit", "project": project.name, "limit": gpus(limit), "allocated": gpus(held), "asked": gpus(asked),
         **_named(key)},
    )  # fmt: skip


def outside_guarantee(project: ProjectState, asked: Milli) -> Blocked:
    return Blocked(
        f"What can't be preempted must stay inside the guarantee: project {project.name} was guaranteed "
        f"{count_of(project.guarantee)}{in_words(project.partition)}, {gpus(project.non_preemptible)} of them are held so, "
        f"and this needs {gpus(asked)}.",
        {"kind": "guarantee", "project": project.name, "guaranteed": gpus(project.guarantee),
         "allocated": gpus(project.non_preemptible), "asked": gpus(asked), **_named(project.partition)},
    )  # fmt: skip


def no_such_type(request: RequestClass, *, anywhere: bool) -> Blocked:
    types = " or ".join(request.spec.gpu_types or ())
    sentence = (
        f"Needs {wants(request)} of type {types}; all of that type are taken."
        if anywhere
        else f"Needs GPUs of type {types}, and no node that it may use has them."
    )
    return Blocked(sentence, {"kind": "gpu_type", "gpu_types": list(request.spec.gpu_types or ())})


def no_domain(request: RequestClass, level: str, *, ever: bool = True) -> Blocked:
    where = "one node" if level == "node" else f"one {level}"
    what = "has that free" if ever else "is that large"
    return Blocked(
        f"Needs {wants(request)} within {where}, and no {level} {what}.",
        {"kind": "topology", "level": level, "asked": gpus(request.gang_amount), "ever": ever},
    )


def never_fits(request: RequestClass) -> Blocked:
    return Blocked(
        f"Needs {wants(request)}, which the nodes that it may use could not give even if they were empty.",
        {"kind": "capacity", "asked": gpus(request.gang_amount), "ever": False},
    )


def no_capacity(request: RequestClass, free: Milli) -> Blocked:
    where = " on one node" if request.gang_size == 1 and request.demand.whole > 1 else ""
    but = (
        ", but not together or not with the CPUs and memory it needs;"
        if free >= request.gang_amount
        else " in all, and"
    )
    return Blocked(
        f"Needs {wants(request)}{where}; {are(free)} free{but} nobody holds GPUs that could be taken back for it.",
        {"kind": "capacity", "asked": gpus(request.gang_amount), "free": gpus(free)},
    )


def reserved(request: RequestClass, holder: str, free: Milli) -> Blocked:
    return Blocked(
        f"Needs {wants(request)}; {are(free)} free, but what would do is kept for {holder}, which was first in line and needs "
        "more than is free yet.",
        {"kind": "reservation", "for": holder, "asked": gpus(request.gang_amount), "free": gpus(free)},
    )


def above_share(project: ProjectState, request: RequestClass, free: Milli) -> Blocked:
    return Blocked(
        f"Needs {wants(request)}, and {are(free)} free. Project {project.name} holds {gpus(project.allocated)} of its fair "
        f"share of {gpus(project.share)}{in_words(project.partition)}; what goes beyond that it "
        "gets only of what others leave idle.",
        {"kind": "fair_share", "project": project.name, "fair_share": gpus(project.share),
         "allocated": gpus(project.allocated), "asked": gpus(request.gang_amount), "free": gpus(free),
         **_named(project.partition)},
    )  # fmt: skip


def over_quota(user: str, quota: Milli, held: Milli, asked: Milli) -> Blocked:
    return Blocked(
        f"{user or 'This user'} has a fixed quota of {count_of(quota)} for building and holds {gpus(held)}; this session "
        f"needs {gpus(asked)}. Close another session or request for less.",
        {"kind": "quota", "user": user, "quota": gpus(quota), "allocated": gpus(held), "asked": gpus(asked)},
    )  # fmt: skip


def no_build_gpu(request: RequestClass, free: Milli) -> Blocked:
    return Blocked(
        f"No build GPU is free: this session needs {wants(request)}, and {count_of(free)} of the build environment are free.",
        {"kind": "capacity", "asked": gpus(request.gang_amount), "free": gpus(free)},
    )


def homeless(project: str) -> Blocked:
    return Blocked(
        f"Project {project} takes no jobs: it is unknown or has projects below it. Submit to another.",
        {"kind": "project", "project": project},
    )
