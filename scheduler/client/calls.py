"""Every request of the client, as data: what is sent, and how the answer is read. Nothing here uses the network.

A function of this module is a method of `Client` and of `AsyncClient`, under the same name.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel

from scheduler.model import JobKey, JobState
from scheduler.schema import (
    Applied,
    ArraySubmit,
    ArrayView,
    AuditPage,
    BuildQuotaEntry,
    DisplayLine,
    DryRunView,
    Explanation,
    JobChange,
    JobGpuUse,
    JobPage,
    JobSubmit,
    JobView,
    LogTimes,
    Me,
    MetricsPage,
    OutputFile,
    OutputList,
    PoolFile,
    PoolView,
    ProjectEntry,
    ProjectList,
    ProjectView,
    StreamShows,
    UsageReport,
    UserList,
)

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request. `repeatable`: it is idempotent, so it may be retried after a broken connection.

    `patient`: the answer may take long, because something else must happen first.
    """

    method: str
    path: str
    read: Callable[[httpx.Response], T]
    params: Mapping[str, Any] = field(default_factory=dict)
    content: bytes | Path | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    patient: bool = False
    missing_is_fine: bool = False


def _view(model: type[M]) -> Callable[[httpx.Response], M]:
    return lambda response: model.model_validate_json(response.content)


def _nothing(response: httpx.Response) -> None:
    return None


def _json(body: BaseModel) -> dict[str, Any]:
    return {
        "content": body.model_dump_json(exclude_unset=True).encode(),
        "headers": {"Content-Type": "application/json"},
    }


def _given(**params: Any) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}


# -- the pool -----------------------------------------------------------------------------------------------


def me() -> Call[Me]:
    """The caller and their permissions."""
    return Call("GET", "me", _view(Me))


def pool() -> Call[PoolView]:
    """All GPUs and who holds them."""
    return Call("GET", "pool", _view(PoolView))


def pool_file() -> Call[PoolFile]:
    """The pool file that describes the current pool."""
    return Call("GET", "pool/file", _view(PoolFile))


def apply(file: PoolFile, preview: bool = False) -> Call[Applied]:
    """Apply a pool file; with `preview` only return what that would change."""
    params = {"preview": "true"} if preview else {}
    return Call("POST", "pool/apply", _view(Applied), params=params, **_json(file))


def snapshot() -> Call[dict[str, Any]]:
    """The current pool as the policy sees it, as a scenario for `jupyter runai plan`."""
    return Call("GET", "pool/snapshot", lambda response: dict(response.json()), patient=True)


def audit(**asked: Any) -> Call[AuditPage]:
    """A page of the changes of the pool and their authors, newest first, by the options of `GET /audit`; `next` of the
    page is `after` of the following one."""
    return Call("GET", "audit", _view(AuditPage), params=_given(**asked))


def usage(**asked: Any) -> Call[UsageReport]:
    """The use of the pool, by the options of `GET /usage`: `since`, `until`, `by`, `every`, `project` and so on."""
    return Call("GET", "usage", _view(UsageReport), params=_given(**asked))


def usage_table(**asked: Any) -> Call[str]:
    """The usage report as CSV."""
    return Call("GET", "usage.csv", lambda response: response.text, params=_given(**asked))


def record(since: float | None = None, until: float | None = None) -> Call[dict[str, Any]]:
    """The pool and the jobs that ran in a span of time, for a what-if simulation."""
    params = _given(since=since, until=until)
    return Call("GET", "usage/record", lambda response: dict(response.json()), params=params, patient=True)


def users(*, find: str | None = None, limit: int | None = None, after: str | None = None) -> Call[UserList]:
    """A page of the users known to the hub and to the pool, by name, with their build quotas and what they hold."""
    return Call("GET", "users", _view(UserList), params=_given(find=find, limit=limit, after=after))


def set_user_quota(user: str, gpus: float | None) -> Call[None]:
    """Give a user a build quota of their own; `None` removes it."""
    return _build_quota("users", user, gpus)


def set_group_quota(group: str, gpus: float | None) -> Call[None]:
    """Give each user of a group a build quota; `None` removes it."""
    return _build_quota("groups", group, gpus)


def _build_quota(kind: str, name: str, gpus: float | None) -> Call[None]:
    path, sent = f"{kind}/{quote(name, safe='')}/build-quota", {} if gpus is None else _json(BuildQuotaEntry(gpus=gpus))
    return Call("PUT" if sent else "DELETE", path, _nothing, repeatable=bool(sent), **sent)


def projects() -> Call[list[ProjectView]]:
    """All projects with their figures."""
    return Call("GET", "projects", lambda response: _view(ProjectList)(response).projects)


def project(name: str) -> Call[ProjectView]:
    return Call("GET", f"projects/{quote(name)}", _view(ProjectView))


def project_put(entry: ProjectEntry) -> Call[ProjectView]:
    """Add a project, or change the one of that name."""
    return Call("PUT", f"projects/{quote(entry.name)}", _view(ProjectView), **_json(entry))


def project_preview(entry: ProjectEntry) -> Call[Applied]:
    """The effects of adding or changing a project; nothing is changed."""
    return Call("POST", "pool/preview", _view(Applied), patient=True, **_json(entry))


def project_delete(name: str) -> Call[None]:
    return Call("DELETE", f"projects/{quote(name)}", _nothing, repeatable=False)


# -- jobs ---------------------------------------------------------------------------------------------------


def check(job: JobSubmit) -> Call[None]:
    """Refuse a job as `submit` would, before its files are uploaded. It queues nothing."""
    return Call("POST", "jobs/check", _nothing, **_json(job))


def dry_run(job: JobSubmit) -> Call[DryRunView]:
    """What would happen to a job if it were submitted now. It queues nothing."""
    return Call("POST", "jobs/dry-run", _view(DryRunView), patient=True, **_json(job))


def submit(job: JobSubmit, *, idempotency_key: str | None = None) -> Call[JobView]:
    """Submit a job. With an idempotency key, a repeated call returns the same job; without one, a key is generated for
    this call."""
    sent = _json(job)
    sent["headers"]["Idempotency-Key"] = idempotency_key or str(uuid.uuid4())
    return Call("POST", "jobs", _view(JobView), **sent)


def submit_array(array: ArraySubmit, *, idempotency_key: str | None = None) -> Call[ArrayView]:
    """Submit many jobs as one: all of them, or none."""
    sent = _json(array)
    sent["headers"]["Idempotency-Key"] = idempotency_key or str(uuid.uuid4())
    return Call("POST", "arrays", _view(ArrayView), **sent)


def jobs(
    *,
    state: Iterable[JobState] | None = None,
    project: str | None = None,
    array: str | None = None,
    mine: bool = False,
    find: str | None = None,
    limit: int | None = None,
    after: str | None = None,
    sort: JobKey | None = None,
    order: Literal["asc", "desc"] | None = None,
) -> Call[JobPage]:
    """A page of jobs, by default the newest first; `next` of the page is `after` of the following one.

    `order` is desc, unless it is given: the newest, largest or last first.
    """
    params = _given(project=project, array=array, mine="true" if mine else None, limit=limit, after=after)
    params |= _given(find=find, sort=sort and sort.value, order=order)
    if state is not None:
        params["state"] = [one.value for one in state]
    return Call("GET", "jobs", _view(JobPage), params=params)


def job(job_id: str) -> Call[JobView]:
    return Call("GET", f"jobs/{quote(job_id, safe='')}", _view(JobView))


def submission(job_id: str) -> Call[JobSubmit]:
    """A job of the caller's as it was submitted."""
    return Call("GET", f"jobs/{quote(job_id, safe='')}/submission", _view(JobSubmit))


def explain(job_id: str) -> Call[Explanation]:
    """Why a job is in its state, and what it waits for."""
    return Call("GET", f"jobs/{quote(job_id, safe='')}/explain", _view(Explanation))


def cancel(job_id: str) -> Call[JobView]:
    """Cancel a job."""
    return _verb(job_id, "cancel")


def pause(job_id: str) -> Call[JobView]:
    """Pause a job until it is resumed."""
    return _verb(job_id, "pause")


def resume(job_id: str) -> Call[JobView]:
    """Queue a paused job again."""
    return _verb(job_id, "resume")


def set_priority(job_id: str, priority: int) -> Call[JobView]:
    """Change the priority of a job that has not ended; the next plan uses it."""
    return Call("PATCH", f"jobs/{quote(job_id, safe='')}", _view(JobView), **_json(JobChange(priority=priority)))


def delete(job_id: str) -> Call[None]:
    """Delete a job that has ended, with its logs, outputs and checkpoints."""
    return Call("DELETE", f"jobs/{quote(job_id, safe='')}", _nothing, repeatable=False)


def _verb(job_id: str, verb: str) -> Call[JobView]:
    return Call("POST", f"jobs/{quote(job_id, safe='')}/{verb}", _view(JobView), repeatable=False)


def log(
    job_id: str, *, rank: int = 0, attempt: int | None = None, offset: int = 0, limit: int | None = None
) -> Call[bytes]:
    """A page of a worker's output, from byte `offset` on; empty where there is no more (yet)."""
    params = _given(rank=rank, attempt=attempt, offset=offset, limit=limit)
    return Call("GET", _logs(job_id), lambda response: response.content, params=params)


def gpu_use(job_id: str, *, attempt: int | None = None, points: int | None = None) -> Call[JobGpuUse]:
    """The use of the GPUs of a job while an attempt held them."""
    path = f"jobs/{quote(job_id, safe='')}/gpu-use"
    return Call("GET", path, _view(JobGpuUse), params=_given(attempt=attempt, points=points))


def log_times(job_id: str, *, rank: int = 0, attempt: int | None = None, offset: int = 0) -> Call[LogTimes]:
    """When a worker's log had which length, from byte `offset` on; all of them where there are fewer than 10,000."""
    path = f"jobs/{quote(job_id, safe='')}/log-times"
    return Call("GET", path, _view(LogTimes), params=_given(rank=rank, attempt=attempt, offset=offset))


def outputs(job_id: str) -> Call[list[OutputFile]]:
    """The output files of a job."""
    path = f"jobs/{quote(job_id, safe='')}/outputs"
    return Call("GET", path, lambda response: _view(OutputList)(response).files)


def metrics(job_id: str, *, offset: int = 0) -> Call[MetricsPage]:
    """A page of what a job has reported; `next` of the page is `offset` of the following one."""
    return Call("GET", f"jobs/{quote(job_id, safe='')}/metrics", _view(MetricsPage), params={"offset": offset})


# -- bundles ------------------------------------------------------------------------------------------------


def has_bundle(digest: str) -> Call[bool]:
    """Whether the caller has uploaded this bundle before."""
    return Call("HEAD", f"blobs/{digest}", lambda response: response.status_code != 404, missing_is_fine=True)


def put_bundle(digest: str, bundle: bytes | Path) -> Call[None]:
    """Upload a bundle; `upload_bundle` does so unless it is already there."""
    headers = {"Content-Type": "application/octet-stream"}
    return Call("PUT", f"blobs/{digest}", _nothing, content=bundle, headers=headers, patient=True)


def digest_of(bundle: bytes | Path) -> str:
    """SHA-256 of a bundle, in hexadecimal."""
    if isinstance(bundle, bytes):
        return hashlib.sha256(bundle).hexdigest()
    with bundle.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# -- streams ------------------------------------------------------------------------------------------------


def show(stream: str, jobs: Iterable[str]) -> Call[None]:
    """Set the jobs that a stream of `watch` shows from now on; `stream` is the subject of its `stream.begin`."""
    return Call("POST", f"events/{quote(stream, safe='')}", _nothing, **_json(StreamShows(jobs=list(jobs))))


@dataclass(frozen=True, slots=True)
class Stream:
    """A request whose answer is read piece by piece."""

    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


def follow(job_id: str, *, rank: int, attempt: int, offset: int) -> Stream:
    """Follow one attempt's output until that attempt has ended; it may be the next attempt, which has not started."""
    return Stream(_logs(job_id), {"rank": rank, "attempt": attempt, "offset": offset, "follow": "true"})


def display(job_id: str, after: DisplayLine | None) -> Stream:
    """Follow a job's output, from the beginning of its latest attempt or after a line of it, until the job has
    ended."""
    at = {"attempt": after.attempt, "log": after.log, "display": after.display} if after else {}
    return Stream(f"jobs/{quote(job_id, safe='')}/display", {**at, "follow": "true"})


def output(job_id: str, path: str) -> Stream:
    return Stream(f"jobs/{quote(job_id, safe='')}/outputs/{quote(path)}")


def event_stream(after: int | None, subject: str | None) -> Stream:
    headers = {"Accept": "text/event-stream"}
    if after is not None:
        headers["Last-Event-ID"] = str(after)
    return Stream("events", _given(subject=subject), headers)


def view_stream(shows: Iterable[str], subject: str | None) -> Stream:
    """What a view that shows these jobs needs, and of the other events only those of `subject`, if it is given."""
    params = _given(view="true", shows=list(shows), subject=subject)
    return Stream("events", params, {"Accept": "text/event-stream"})


def _logs(job_id: str) -> str:
    return f"jobs/{quote(job_id, safe='')}/logs"
