"""Why a workload waits: the sentence for people, and the same for programs.

A reason names who must change what: the project at its limit, the GPUs that are missing, the type that no node has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scheduler.model import ONE, Milli
from scheduler.policy.accounts import Account, Cap
from scheduler.policy.quotas import REMAINDER, PartitionKey, in_words
from scheduler.policy.work import Ask


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


def wants(ask: Ask) -> str:
    """ "8 GPUs", "4 workers of 8 GPUs", "16 GiB of GPU memory"; of several groups each."""
    if ask.groups:
        return " and ".join([wants(group) for group in ask.groups])
    if ask.need.gpu_memory:
        each = f"{ask.need.gpu_memory / 1024:g} GiB of GPU memory"
    elif ask.each:
        each = count_of(ask.each)
    else:
        each = f"{gpus(ask.need.cpus)} CPUs" if ask.need.cpus else "a place"
    return each if ask.gang == 1 else f"{ask.gang} workers of {each} each"


def _named(key: PartitionKey) -> dict[str, Any]:
    return {} if key == REMAINDER else {"node_pool": key[0], "gpu_type": key[1]}


def at_limit(account: Account, asked: Milli) -> Blocked:
    return _at_limit(account, account.partition, account.held, account.limit, asked)


def at_cap(account: Account, cap: Cap, asked: Milli) -> Blocked:
    return _at_limit(account, (cap.quota.node_pool, cap.quota.gpu_type), cap.held, cap.limit, asked)


def _at_limit(account: Account, key: PartitionKey, held: Milli, limit: Milli, asked: Milli) -> Blocked:
    return Blocked(
        f"Project {account.name} holds {gpus(held)} of at most {count_of(limit)}{in_words(key)}, "
        f"and this needs {gpus(asked)} more.",
        {"kind": "limit", "project": account.name, "limit": gpus(limit), "allocated": gpus(held), "asked": gpus(asked),
         **_named(key)},
    )  # fmt: skip


def outside_guarantee(account: Account, asked: Milli) -> Blocked:
    return Blocked(
        f"What can't be preempted must stay inside the guarantee: project {account.name} was guaranteed "
        f"{count_of(account.guarantee)}{in_words(account.partition)}, {gpus(account.firm)} of them are held so, and this "
        f"needs {gpus(asked)}.",
        {"kind": "guarantee", "project": account.name, "guaranteed": gpus(account.guarantee),
         "allocated": gpus(account.firm), "asked": gpus(asked), **_named(account.partition)},
    )  # fmt: skip


def no_such_type(ask: Ask, *, anywhere: bool) -> Blocked:
    types = " or ".join(ask.request.gpu_types or ())
    sentence = (
        f"Needs {wants(ask)} of type {types}; all of that type are taken."
        if anywhere
        else f"Needs GPUs of type {types}, and no node that it may use has them."
    )
    return Blocked(sentence, {"kind": "gpu_type", "gpu_types": list(ask.request.gpu_types or ())})


def no_domain(ask: Ask, level: str, *, ever: bool = True) -> Blocked:
    where = "one node" if level == "node" else f"one {level}"
    what = "has that free" if ever else "is that large"
    return Blocked(
        f"Needs {wants(ask)} within {where}, and no {level} {what}.",
        {"kind": "topology", "level": level, "asked": gpus(ask.least), "ever": ever},
    )


def never_fits(ask: Ask) -> Blocked:
    return Blocked(
        f"Needs {wants(ask)}, which the nodes that it may use could not give even if they were empty.",
        {"kind": "capacity", "asked": gpus(ask.least), "ever": False},
    )


def no_capacity(ask: Ask, free: Milli) -> Blocked:
    where = " on one node" if ask.gang == 1 and ask.need.whole > 1 else ""
    but = (
        ", but not together or not with the CPUs and memory it needs;"
        if free >= ask.least
        else " in all, and"
    )
    return Blocked(
        f"Needs {wants(ask)}{where}; {are(free)} free{but} nobody holds GPUs that could be taken back for it.",
        {"kind": "capacity", "asked": gpus(ask.least), "free": gpus(free)},
    )


def reserved(ask: Ask, holder: str, free: Milli) -> Blocked:
    return Blocked(
        f"Needs {wants(ask)}; {are(free)} free, but what would do is kept for {holder}, which was first in line and needs "
        "more than is free yet.",
        {"kind": "reservation", "for": holder, "asked": gpus(ask.least), "free": gpus(free)},
    )


def above_share(account: Account, ask: Ask, free: Milli) -> Blocked:
    return Blocked(
        f"Needs {wants(ask)}, and {are(free)} free. Project {account.name} holds {gpus(account.held)} of its fair share "
        f"of {gpus(account.share)}{in_words(account.partition)}; what goes beyond that it "
        "gets only of what others leave idle.",
        {"kind": "fair_share", "project": account.name, "fair_share": gpus(account.share),
         "allocated": gpus(account.held), "asked": gpus(ask.least), "free": gpus(free), **_named(account.partition)},
    )  # fmt: skip


def over_quota(user: str, quota: Milli, held: Milli, asked: Milli) -> Blocked:
    return Blocked(
        f"{user or 'This user'} has a fixed quota of {count_of(quota)} for building and holds {gpus(held)}; this session "
        f"needs {gpus(asked)}. Close another session or ask for less.",
        {"kind": "quota", "user": user, "quota": gpus(quota), "allocated": gpus(held), "asked": gpus(asked)},
    )  # fmt: skip


def no_build_gpu(ask: Ask, free: Milli) -> Blocked:
    return Blocked(
        f"No build GPU is free: this session needs {wants(ask)}, and {count_of(free)} of the build environment are free.",
        {"kind": "capacity", "asked": gpus(ask.least), "free": gpus(free)},
    )


def homeless(project: str) -> Blocked:
    return Blocked(
        f"Project {project} takes no jobs: it is unknown or has projects below it. Submit to another.",
        {"kind": "project", "project": project},
    )
