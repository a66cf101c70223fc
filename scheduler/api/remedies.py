"""What would have to happen for a job to start: one sentence for each thing that would bring it nearer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from scheduler.model import ONE, Job, JobState, gpu_count

if TYPE_CHECKING:
    from scheduler.policy import Decision

Details = Mapping[str, Any]


def would_help(job: Job, decision: Decision | None, *, others: bool) -> list[str]:
    """For a job that has not ended; nothing where it runs. `others`: other projects hold GPUs that it could use."""
    if job.state is JobState.PAUSED:
        return ["Resume it."]
    if job.state is not JobState.QUEUED or decision is None:
        return []
    if decision.after:
        count = len(decision.after)
        who = "the job that makes room" if count == 1 else f"the {count} that make room"
        return [f"It starts when {who} has released its GPUs. Nothing else is needed."]
    blocked = decision.details
    find = _REMEDIES.get(str(blocked.get("kind")))
    found = find(job, blocked) if find else []
    if blocked.get("kind") == "fair_share" and others:
        found += _from_others(blocked)
    return found


def _limit(job: Job, at: Details) -> list[str]:
    project, most = at["project"], at["allocated"] + at["asked"]
    return [
        f"Jobs of project {project} release {_gpus(most - at['limit'])}.",
        f"An administrator raises the limit of project {project} from {_gpus(at['limit'])} to {_gpus(most)}.",
    ]


def _guarantee(job: Job, at: Details) -> list[str]:
    project, most = at["project"], at["allocated"] + at["asked"]
    return [
        f"Jobs of project {project} that can't be preempted release {_gpus(most - at['guaranteed'])}.",
        "Submit it as preemptible; then it may use idle GPUs beyond the guarantee.",
        f"An administrator raises the guarantee of project {project} to {_gpus(most)}.",
    ]


def _capacity(job: Job, at: Details) -> list[str]:
    if at.get("ever") is False:
        return [
            "Submit it again with less per worker, or with fewer workers.",
            "Ask an administrator to add larger nodes.",
        ]
    if "avoids" in at:
        return [
            "It is tried again on the nodes that could not run it, once they have been avoided for a while.",
            "Other nodes come back, or an administrator adds some.",
        ]
    return [_given_back(at)]


def _topology(job: Job, at: Details) -> list[str]:
    where = "one node" if at["level"] == "node" else f"one {at['level']}"
    wish = f"Submit it again with {where} as a preference (--prefer) instead of a requirement."
    if at.get("ever") is False:
        return [wish, f"Submit it again for less, so that {where} is large enough."]
    return [f"{_gpus(at['asked'])} become free within {where}.", wish]


def _gpu_type(job: Job, at: Details) -> list[str]:
    types = " or ".join(at["gpu_types"])
    return [f"GPUs of type {types} are released or added.", "Submit it again and allow other types."]


def _fair_share(job: Job, at: Details) -> list[str]:
    return [_given_back(at)]


def _from_others(at: Details) -> list[str]:
    most = at["allocated"] + at["asked"]
    return [
        f"Jobs of project {at['project']} release GPUs: below its fair share it may reclaim GPUs from others.",
        f"An administrator raises the guarantee of project {at['project']} to {_gpus(most)}: that much it always "
        "gets back.",
    ]


def _reservation(job: Job, at: Details) -> list[str]:
    found = ["The first job in line starts.", _given_back(at)]
    if job.request.expected_runtime is None:
        found.append("Declare with --expected-runtime that it ends before the other job can start.")
    return found


def _after(job: Job, at: Details) -> list[str]:
    return ["The jobs that it depends on end as required."]


def _array(job: Job, at: Details) -> list[str]:
    return ["One of the jobs of its array ends."]


def _given_back(at: Details) -> str:
    missing = at["asked"] - at["free"]
    if missing > 0:
        return f"{_gpus(missing)} more {'is' if missing == 1 else 'are'} given back by those that hold them."
    return "Enough GPUs become free together, with the CPUs and memory it needs."


def _gpus(amount: float) -> str:
    return gpu_count(round(amount * ONE))


_REMEDIES: Mapping[str, Callable[[Job, Details], list[str]]] = {
    "limit": _limit,
    "guarantee": _guarantee,
    "capacity": _capacity,
    "topology": _topology,
    "gpu_type": _gpu_type,
    "fair_share": _fair_share,
    "reservation": _reservation,
    "after": _after,
    "array": _array,
}
