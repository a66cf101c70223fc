"""Every request that the client can make, as data: what is sent, and how the answer is read. No network here.

A function of this module is a method of `Client` and of `AsyncClient`, under the same name.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel

from scheduler.errors import BY_STATUS, NotFound, RunaiError, Unavailable
from scheduler.model import JobState
from scheduler.schema import (
    Applied,
    ArraySubmit,
    ArrayView,
    AuditPage,
    DisplayLine,
    DryRunView,
    Explanation,
    JobPage,
    JobSubmit,
    JobView,
    Me,
    MetricsPage,
    NodeDrain,
    OutputFile,
    OutputList,
    PoolFile,
    PoolView,
    Problem,
    ProjectEntry,
    ProjectList,
    ProjectView,
    SessionList,
    SessionOpen,
    SessionView,
    UsageReport,
)

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request. `repeatable`: sent twice it does what it does once, so a broken connection may be tried again.

    `patient`: the answer may take long, because something has to happen first.
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
    """Who asks, and what they may do."""
    return Call("GET", "me", _view(Me))


def pool() -> Call[PoolView]:
    """Every GPU and who holds it."""
    return Call("GET", "pool", _view(PoolView))


def pool_file() -> Call[PoolFile]:
    """The pool file that declares the pool as it is."""
    return Call("GET", "pool/file", _view(PoolFile))


def apply(file: PoolFile, preview: bool = False) -> Call[Applied]:
    """Bring about what a pool file declares; with `preview` only say what that would change."""
    params = {"preview": "true"} if preview else {}
    return Call("POST", "pool/apply", _view(Applied), params=params, **_json(file))


def snapshot() -> Call[dict[str, Any]]:
    """The pool as the policy sees it now, as a scenario that `jupyter runai plan` reads."""
    return Call("GET", "pool/snapshot", lambda response: dict(response.json()), patient=True)


def audit(
    *,
    user: str | None = None,
    kind: str | None = None,
    name: str | None = None,
    limit: int | None = None,
    after: int | None = None,
) -> Call[AuditPage]:
    """A page of who changed what of the pool, newest first; `next` of the page is `after` of the one that follows."""
    params = _given(user=user, kind=kind, name=name, limit=limit, after=after)
    return Call("GET", "audit", _view(AuditPage), params=params)


def usage(**asked: Any) -> Call[UsageReport]:
    """What was used, as the options of `GET /usage` say: `since`, `until`, `by`, `every`, `project` and so on."""
    return Call("GET", "usage", _view(UsageReport), params=_given(**asked))


def usage_table(**asked: Any) -> Call[str]:
    """The same as CSV."""
    return Call("GET", "usage.csv", lambda response: response.text, params=_given(**asked))


def drain(node: str, reason: str = "") -> Call[None]:
    """Give a node no new work; running work continues to its end."""
    return Call("PUT", f"nodes/{quote(node)}/drain", _nothing, **_json(NodeDrain(reason=reason)))


def undrain(node: str) -> Call[None]:
    """Let a drained node take work again."""
    return Call("DELETE", f"nodes/{quote(node)}/drain", _nothing, repeatable=False)


def projects() -> Call[list[ProjectView]]:
    """All projects with their figures."""
    return Call("GET", "projects", lambda response: _view(ProjectList)(response).projects)


def project(name: str) -> Call[ProjectView]:
    return Call("GET", f"projects/{quote(name)}", _view(ProjectView))


def project_put(entry: ProjectEntry) -> Call[ProjectView]:
    """Add a project, or change the one of that name."""
    return Call("PUT", f"projects/{quote(entry.name)}", _view(ProjectView), **_json(entry))


def project_preview(entry: ProjectEntry) -> Call[Applied]:
    """What adding or changing a project would bring about; nothing is changed."""
    return Call("POST", "pool/preview", _view(Applied), patient=True, **_json(entry))


def project_delete(name: str) -> Call[None]:
    return Call("DELETE", f"projects/{quote(name)}", _nothing, repeatable=False)


# -- jobs ---------------------------------------------------------------------------------------------------


def check(job: JobSubmit) -> Call[None]:
    """Have a job refused as `submit` would, before what it takes along is put there. It queues nothing."""
    return Call("POST", "jobs/check", _nothing, **_json(job))


def dry_run(job: JobSubmit) -> Call[DryRunView]:
    """What would happen to a job if it were submitted now. It queues nothing."""
    return Call("POST", "jobs/dry-run", _view(DryRunView), patient=True, **_json(job))


def submit(job: JobSubmit, *, idempotency_key: str | None = None) -> Call[JobView]:
    """Submit a job. With a key of one's own, asking again gives the same job; without, one is made for this call."""
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
    limit: int | None = None,
    after: str | None = None,
) -> Call[JobPage]:
    """A page of jobs, newest first; `next` of the page is `after` of the one that follows."""
    params = _given(project=project, array=array, mine="true" if mine else None, limit=limit, after=after)
    if state is not None:
        params["state"] = [one.value for one in state]
    return Call("GET", "jobs", _view(JobPage), params=params)


def job(job_id: str) -> Call[JobView]:
    return Call("GET", f"jobs/{quote(job_id, safe='')}", _view(JobView))


def explain(job_id: str) -> Call[Explanation]:
    """Why a job is in its state, and what it waits for."""
    return Call("GET", f"jobs/{quote(job_id, safe='')}/explain", _view(Explanation))


def cancel(job_id: str) -> Call[JobView]:
    """Stop a job for good."""
    return _verb(job_id, "cancel")


def pause(job_id: str) -> Call[JobView]:
    """Stop a job until it is resumed."""
    return _verb(job_id, "pause")


def resume(job_id: str) -> Call[JobView]:
    """Queue a paused job again."""
    return _verb(job_id, "resume")


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


def outputs(job_id: str) -> Call[list[OutputFile]]:
    """The output files of a job."""
    path = f"jobs/{quote(job_id, safe='')}/outputs"
    return Call("GET", path, lambda response: _view(OutputList)(response).files)


def metrics(job_id: str, *, offset: int = 0) -> Call[MetricsPage]:
    """A page of what a job has reported; `next` of the page is `offset` of the one that follows."""
    path = f"jobs/{quote(job_id, safe='')}/metrics"
    return Call("GET", path, _view(MetricsPage), params={"offset": offset})


# -- bundles ------------------------------------------------------------------------------------------------


def has_bundle(digest: str) -> Call[bool]:
    """Whether the caller has uploaded this bundle before."""
    return Call("HEAD", f"blobs/{digest}", lambda response: response.status_code != 404, missing_is_fine=True)


def put_bundle(digest: str, bundle: bytes | Path) -> Call[None]:
    """Put a bundle; `upload_bundle` does so where it is not there yet."""
    headers = {"Content-Type": "application/octet-stream"}
    return Call("PUT", f"blobs/{digest}", _nothing, content=bundle, headers=headers, patient=True)


def digest_of(bundle: bytes | Path) -> str:
    """SHA-256 of a bundle, in hexadecimal."""
    if isinstance(bundle, bytes):
        return hashlib.sha256(bundle).hexdigest()
    with bundle.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# -- sessions -----------------------------------------------------------------------------------------------


def open_session(session: SessionOpen) -> Call[SessionView]:
    """Lease GPUs for a user's server; answers when it has them."""
    return Call("POST", "sessions", _view(SessionView), patient=True, **_json(session))


def close_session(session_id: str) -> Call[SessionView]:
    return Call("DELETE", f"sessions/{quote(session_id, safe='')}", _view(SessionView), repeatable=False)


def sessions() -> Call[list[SessionView]]:
    """The caller's sessions; an administrator's: all."""
    return Call("GET", "sessions", lambda response: _view(SessionList)(response).sessions)


# -- streams ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stream:
    """A request whose answer is read piece by piece."""

    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


def follow(job_id: str, *, rank: int, attempt: int, offset: int) -> Stream:
    """One attempt's output as it grows, until that attempt has ended; it may be the one that comes next."""
    return Stream(_logs(job_id), {"rank": rank, "attempt": attempt, "offset": offset, "follow": "true"})


def display(job_id: str, after: DisplayLine | None) -> Stream:
    """What a job shows, from the beginning of its latest attempt or after a line of it, until the job has ended."""
    at = {"attempt": after.attempt, "log": after.log, "display": after.display} if after else {}
    return Stream(f"jobs/{quote(job_id, safe='')}/display", {**at, "follow": "true"})


def output(job_id: str, path: str) -> Stream:
    return Stream(f"jobs/{quote(job_id, safe='')}/outputs/{quote(path)}")


def event_stream(after: int | None, subject: str | None) -> Stream:
    headers = {"Accept": "text/event-stream"}
    if after is not None:
        headers["Last-Event-ID"] = str(after)
    return Stream("events", _given(subject=subject), headers)


def _logs(job_id: str) -> str:
    return f"jobs/{quote(job_id, safe='')}/logs"


# -- answers that are no answers ----------------------------------------------------------------------------


def error_of(response: httpx.Response, url: str) -> RunaiError:
    """The error that a response of 300 and above stands for. Its body must have been read.

    A hub's proxy that was just started does not know the scheduler yet: the hub answers, and sends people to its own
    pages.
    """
    kind = BY_STATUS.get(response.status_code, RunaiError)
    try:
        problem = Problem.model_validate_json(response.content)
    except ValueError:
        if response.is_redirect or response.status_code in (502, 503, 504):
            return unreachable(url)
        if response.status_code == 404 and response.request.method != "HEAD":
            return NotFound(f"{url} is not the address of a scheduler (404); check RUNAI_URL.")
        return kind(f"The scheduler at {url} answered {response.status_code} {response.reason_phrase}.")
    return kind(problem.detail, field=problem.field)


def unreachable(url: str) -> Unavailable:
    return Unavailable(
        f"The scheduler at {url} does not answer. Running jobs continue; start it with `jupyter runai serve`, or ask "
        "whoever runs your hub."
    )
