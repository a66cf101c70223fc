"""Lists of jobs: what is asked for, in which order, and where a page begins."""

from __future__ import annotations

import json
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from scheduler.errors import Invalid
from scheduler.model import ArrayId, Job, JobKey, JobState, ProjectName, ScheduleId, UserName
from scheduler.store import JobOrder

_LATER: TypeAdapter[tuple[float, float | str, str]] = TypeAdapter(tuple[float, float | str, str])
"""The instant of the first page, and the key and id of the last job."""


class JobQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    state: list[JobState] = Field(default_factory=list, description="only jobs in this state; may be repeated")
    project: ProjectName | None = None
    user: UserName | None = Field(None, description="only jobs of this user")
    mine: bool = Field(False, description="only the caller's own jobs")
    array: ArrayId | None = Field(None, max_length=64, description="only the jobs of this array")
    schedule: ScheduleId | None = Field(None, max_length=64, description="only the runs of this schedule")
    find: str = Field(
        "", max_length=200, description="only jobs whose name, user, project, state or id contain each of these words"
    )
    limit: int = Field(100, ge=1, le=500)
    after: str | None = Field(None, description="`next` of the previous page, whose `sort` and `order` were the same")
    sort: JobKey = Field(
        JobKey.SUBMITTED,
        description="`started`: the first start; jobs that never started are last. `waiting`: the time from the "
        "submission to the first start, or until now. `gpus`: those requested for all workers. Both times are those "
        "at the first page.",
    )
    order: Literal["desc", "asc"] = Field("desc", description="`desc`: the newest, largest or last first")


def order_of(query: JobQuery, now: float) -> JobOrder:
    """Raises `Invalid` where `after` is not of a page in this order."""
    order = JobOrder(query.sort, query.order == "desc", now)
    if query.after is None:
        return order
    try:
        if order == JobOrder(now=now):
            submitted, _, id = query.after.partition("_")
            return JobOrder(now=now, after=(float(submitted), id))
        now, key, id = _LATER.validate_json(query.after)
    except (ValueError, ValidationError):
        raise _not_of_this() from None
    if isinstance(key, str) is not query.sort.is_text:
        raise _not_of_this()
    return JobOrder(order.by, order.descending, now, (key, id))


def next_page(order: JobOrder, last: Job) -> str:
    """`after` of the page that follows `last`."""
    if order.by is JobKey.SUBMITTED and order.descending:
        return f"{last.submitted!r}_{last.id}"  # as before there were other orders
    return json.dumps([order.now, order.key(last), last.id], ensure_ascii=False)


def _not_of_this() -> Invalid:
    return Invalid("after: pass the `next` of the previous page, with the same sort and order.", field="after")
