"""The custom resources and their status. Pure.

What must hold: a status is a function of the resource and its outcome, so it can be rewritten at any time; a
condition's time changes only with its status.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from scheduler.errors import RunaiError
from scheduler.model import JobId, JobState
from scheduler.operator.crds import GROUP
from scheduler.schema import JobView

FINALIZER = f"{GROUP}/scheduler"

USER = f"{GROUP}/user"
"""The annotation of a namespace that names the user whose jobs its TrainJobs become."""

_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"

Resource = dict[str, Any]
Status = dict[str, Any]


class Condition(NamedTuple):
    status: bool | None
    reason: str
    message: str


def viewed(item: Mapping[str, Any]) -> Resource:
    """The part of a resource that is kept."""
    metadata = {name: value for name, value in item["metadata"].items() if name != "managedFields"}
    return {"metadata": metadata, "spec": item.get("spec") or {}, "status": item.get("status") or {}}


def job_id(uid: str) -> JobId:
    """The id of a TrainJob's job: the same at each submission, and unique to the TrainJob."""
    bits = int.from_bytes(hashlib.sha256(uid.encode()).digest()[:8])
    return JobId("j-" + "".join(_LETTERS[bits >> shift & 31] for shift in range(0, 60, 5)))


def of_job(item: Resource, job: JobView, now: float) -> Status:
    """The status of a TrainJob that has become a job."""
    generation = item["metadata"]["generation"]
    accepted = item["status"].get("acceptedGeneration", generation)
    word = job.state.value.capitalize()
    conditions = {
        "Accepted": Condition(True, "Queued", f"Job {job.id} of {job.user} in project {job.project}."),
        "Running": Condition(job.state is JobState.RUNNING, word, job.reason),
        "Succeeded": Condition(None, "NotFinished", "The job has not ended."),
    }
    if accepted != generation:
        said = "A change of the spec has no effect once the job is queued. Delete the TrainJob and create another one."
        conditions["Accepted"] = Condition(True, "SpecChanged", said)
    if job.state.final:
        conditions["Succeeded"] = Condition(job.state is JobState.SUCCEEDED, word, job.reason)
    return {
        "observedGeneration": generation,
        "acceptedGeneration": accepted,
        "jobId": job.id,
        "user": job.user,
        "project": job.project,
        "state": job.state.value,
        "message": job.reason,
        "attempts": len(job.attempts),
        **({} if job.started is None else {"startTime": _written(job.started)}),
        **({} if job.ended is None else {"completionTime": _written(job.ended)}),
        "conditions": with_conditions(item, conditions, now),
    }


def refused(item: Resource, error: RunaiError, now: float) -> Status:
    """The status of a TrainJob that cannot become a job."""
    return _without_job(item, "refused", Condition(False, _word(error.slug), error.sentence), now)


def deleted(item: Resource, now: float) -> Status:
    """The status of a TrainJob whose job was deleted."""
    if item["status"].get("completionTime"):
        return dict(item["status"])
    gone = Condition(False, "Deleted", f"Job {item['status']['jobId']} was deleted.")
    return {**_without_job(item, "deleted", gone, now), "jobId": item["status"]["jobId"]}


def _without_job(item: Resource, state: str, accepted: Condition, now: float) -> Status:
    rest = Condition(False, accepted.reason, accepted.message)
    conditions = {"Accepted": accepted, "Running": rest, "Succeeded": rest}
    return {
        "observedGeneration": item["metadata"]["generation"],
        "state": state,
        "message": accepted.message,
        "conditions": with_conditions(item, conditions, now),
    }


def of_project(item: Resource, error: RunaiError | None, now: float) -> Status:
    """The status of a Project that was applied, or refused."""
    applied = Condition(True, "Applied", "The pool has this project.")
    if error is not None:
        applied = Condition(False, _word(error.slug), error.sentence)
    generation = item["metadata"]["generation"]
    return {"observedGeneration": generation, "conditions": with_conditions(item, {"Applied": applied}, now)}


def is_applied(item: Resource) -> bool:
    """Whether a Project has become a project."""
    conditions = item["status"].get("conditions", ())
    return any(found["type"] == "Applied" and found["status"] == "True" for found in conditions)


def with_conditions(item: Resource, conditions: Mapping[str, Condition], now: float) -> list[dict[str, Any]]:
    before = {found["type"]: found for found in item["status"].get("conditions", ())}
    made = []
    for type_, (holds, reason, message) in conditions.items():
        status = "Unknown" if holds is None else str(holds)
        known = before.get(type_, {})
        since = known["lastTransitionTime"] if known.get("status") == status else _written(now)
        made.append(
            {
                "type": type_,
                "status": status,
                "reason": reason,
                "message": message,
                "observedGeneration": item["metadata"]["generation"],
                "lastTransitionTime": since,
            }
        )
    return made


def _word(slug: str) -> str:
    return "".join(part.capitalize() for part in slug.split("-"))


def _written(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
