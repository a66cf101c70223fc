"""The synchronous client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, Self, TypeVar

import httpx

from scheduler.client import calls, nodecalls, noticecalls, schedulecalls, sessioncalls
from scheduler.client.calls import Call, Stream
from scheduler.client.finding import Address, find
from scheduler.client.refusals import error_of, unreachable
from scheduler.client.wire import (
    AGAIN,
    FOLLOWING,
    LISTENING,
    PATIENT,
    TIMEOUT,
    WATCHING,
    Backoff,
    EventReader,
    options,
    refuse_strangers,
)
from scheduler.errors import Unavailable
from scheduler.schema import ATTEMPT_LINE, DisplayLine, Event, JobView

PIECE = 256 * 1024

T = TypeVar("T")
P = ParamSpec("P")


def _method(call: Callable[P, Call[T]]) -> Callable[Concatenate[Client, P], T]:
    """A function that makes a request, as a method that sends it."""

    @wraps(call)
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.send(call(*args, **kwargs))

    return method


def _pieces(content: bytes) -> Iterator[bytes]:
    for start in range(0, len(content), PIECE):
        yield content[start : start + PIECE]


class Client:
    """Connects to the scheduler and keeps its connections open; close it, or use it in a `with`. Threads may share
    it."""

    me = _method(calls.me)
    pool = _method(calls.pool)
    pool_file = _method(calls.pool_file)
    apply = _method(calls.apply)
    snapshot = _method(calls.snapshot)
    audit = _method(calls.audit)
    usage = _method(calls.usage)
    usage_table = _method(calls.usage_table)
    record = _method(calls.record)
    drain = _method(nodecalls.drain)
    undrain = _method(nodecalls.undrain)
    move_node = _method(nodecalls.move_node)
    node_gpus = _method(nodecalls.node_gpus)
    gpu_history = _method(nodecalls.gpu_history)
    users = _method(calls.users)
    set_user_quota = _method(calls.set_user_quota)
    set_group_quota = _method(calls.set_group_quota)
    projects = _method(calls.projects)
    project = _method(calls.project)
    project_put = _method(calls.project_put)
    project_preview = _method(calls.project_preview)
    project_delete = _method(calls.project_delete)
    check = _method(calls.check)
    dry_run = _method(calls.dry_run)
    submit = _method(calls.submit)
    submit_array = _method(calls.submit_array)
    jobs = _method(calls.jobs)
    job = _method(calls.job)
    submission = _method(calls.submission)
    explain = _method(calls.explain)
    cancel = _method(calls.cancel)
    pause = _method(calls.pause)
    resume = _method(calls.resume)
    set_priority = _method(calls.set_priority)
    show = _method(calls.show)
    delete = _method(calls.delete)
    log = _method(calls.log)
    outputs = _method(calls.outputs)
    metrics = _method(calls.metrics)
    log_times = _method(calls.log_times)
    gpu_use = _method(calls.gpu_use)
    notices = _method(noticecalls.notices)
    choose_notices = _method(noticecalls.choose_notices)
    test_notices = _method(noticecalls.test_notices)
    schedules = _method(schedulecalls.schedules)
    schedule_add = _method(schedulecalls.schedule_add)
    schedule_change = _method(schedulecalls.schedule_change)
    schedule_remove = _method(schedulecalls.schedule_remove)
    schedule_run = _method(schedulecalls.schedule_run)
    has_bundle = _method(calls.has_bundle)
    put_bundle = _method(calls.put_bundle)
    open_session = _method(sessioncalls.open_session)
    close_session = _method(sessioncalls.close_session)
    stop_session = _method(sessioncalls.stop_session)
    sessions = _method(sessioncalls.sessions)
    session_list = _method(sessioncalls.session_list)

    def __init__(self, url: str, token: str, folder: Path | None = None, notebook: str = "") -> None:
        """`url` is the scheduler's base, before `/api/v1`. With its state folder, the token is sent only to the
        scheduler that holds the folder. `notebook` is the caller's notebook server, as in `Address`."""
        self.url = url
        address = Address(url, token, folder, notebook)
        check = partial(refuse_strangers, address)
        self._http = httpx.Client(**options(address), event_hooks={"request": [check]})

    @classmethod
    def from_environment(cls) -> Self:
        """A client for the scheduler that `find` returns."""
        address = find()
        return cls(address.url, address.token, address.folder, address.notebook)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # -- what takes more than one request, or reads a stream ----------------------------------------------

    def wait(self, job_id: str, timeout: float | None = None) -> JobView:
        """Wait until a job has ended, and return it. Raises `TimeoutError` after `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        backoff, pause = Backoff(), 0.02
        while True:
            try:
                job = self.job(job_id)
            except Unavailable as error:
                pause = backoff.pause(error)
            else:
                backoff.heard()
                if job.state.final:
                    return job
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"Job {job_id} has not ended after {timeout:g} seconds.")
            time.sleep(pause)
            pause = min(pause * 1.3, 1.0)

    def logs(self, job_id: str, *, rank: int = 0, attempt: int | None = None, offset: int = 0) -> Iterator[bytes]:
        """A worker's output as it grows, until the job has ended.

        With `attempt` only that attempt's output; otherwise it begins with the latest, with a line between attempts. A
        lost connection is resumed where it broke.
        """
        number = attempt or max(1, len(self.job(job_id).attempts))
        before, backoff = b"", Backoff()
        while True:
            try:
                follow = calls.follow(job_id, rank=rank, attempt=number, offset=offset)
                with self._stream(follow, FOLLOWING) as reply:
                    for piece in reply.iter_raw():
                        backoff.heard()
                        offset += len(piece)
                        yield before + piece
                        before = b""
            except Unavailable as error:
                time.sleep(backoff.pause(error))
                continue
            job = self.job(job_id)
            if attempt or (job.state.final and len(job.attempts) <= number):
                return
            number, offset = number + 1, 0
            before = ATTEMPT_LINE.format(number).encode()

    def display(self, job_id: str) -> Iterator[DisplayLine]:
        """Follow a job's output until it has ended: its text and its displays, as Jupyter's output messages.

        It begins with the latest attempt. A lost connection is resumed where it broke.
        """
        last: DisplayLine | None = None
        backoff = Backoff()
        while True:
            begun = last
            try:
                with self._stream(calls.display(job_id, last), FOLLOWING) as reply:
                    for line in reply.iter_lines():
                        backoff.heard()
                        last = DisplayLine.model_validate_json(line)
                        yield last
            except Unavailable as error:
                time.sleep(backoff.pause(error))
                continue
            if last is begun and (self.job(job_id)).state.final:
                return

    def events(self, after: int | None = None, *, subject: str | None = None) -> Iterator[Event]:
        """Follow events from now on (or after an event), without end; a lost connection is resumed where it broke.

        Raises `Unavailable` when the scheduler has not been reached again for a minute.
        """
        reader, backoff = EventReader(after), Backoff()
        while True:
            try:
                with self._stream(calls.event_stream(reader.last, subject), LISTENING) as reply:
                    for line in reply.iter_lines():
                        backoff.heard()
                        yield from reader.feed(line)
            except Unavailable as error:
                time.sleep(backoff.pause(error))
            reader.broken()

    def watch(self, jobs: Iterable[str], *, subject: str | None = None) -> Iterator[Event]:
        """What a page that shows these jobs (at most 200) learns over one connection: `stream.begin`, then events,
        prospects and what the jobs write. With `subject`, events of that job alone. Raises `Unavailable` when the
        connection is lost; then, as after its end, connect again and read anew what is shown.
        """
        reader = EventReader(None)
        with self._stream(calls.view_stream(jobs, subject), WATCHING) as reply:
            for line in reply.iter_lines():
                yield from reader.feed(line)

    def download(self, job_id: str, path: str, to: Path) -> Path:
        """Download one of a job's outputs into the file `to`, completely or not at all."""
        part = to.with_name(f".{to.name}.part")
        try:
            with self._stream(calls.output(job_id, path), TIMEOUT) as reply, part.open("wb") as file:
                for piece in reply.iter_raw():
                    file.write(piece)
            part.replace(to)
        finally:
            part.unlink(missing_ok=True)
        return to

    def upload_bundle(self, bundle: bytes | Path) -> str:
        """Upload a bundle unless it is already there; returns its digest."""
        digest = calls.digest_of(bundle)
        if not self.has_bundle(digest):
            self.put_bundle(digest, bundle)
        return digest

    # -- sending ------------------------------------------------------------------------------------------

    def send(self, call: Call[T]) -> T:
        for wait in (*AGAIN, None):
            try:
                response = self._once(call)
            except httpx.TransportError as error:
                again = call.repeatable or isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
                if wait is None or not again:
                    raise unreachable(self.url) from error
                time.sleep(wait)
            else:
                if not response.is_success and not (response.status_code == 404 and call.missing_is_fine):
                    raise error_of(response, self.url)
                return call.read(response)
        raise AssertionError("unreachable")

    def _once(self, call: Call[T]) -> httpx.Response:
        timeout = PATIENT if call.patient else TIMEOUT
        if isinstance(call.content, Path):
            with call.content.open("rb") as file:
                headers = {**call.headers, "Content-Length": str(call.content.stat().st_size)}
                return self._http.request(
                    call.method, call.path, params=call.params, content=file, headers=headers, timeout=timeout
                )
        content: bytes | Iterator[bytes] | None = call.content
        headers = {**call.headers}
        if isinstance(content, bytes) and len(content) > PIECE:
            # In one piece, it would be copied again for each part that the system sends.
            headers["Content-Length"] = str(len(content))
            content = _pieces(content)
        return self._http.request(
            call.method, call.path, params=call.params, content=content, headers=headers, timeout=timeout
        )

    @contextmanager
    def _stream(self, stream: Stream, timeout: httpx.Timeout) -> Iterator[httpx.Response]:
        try:
            with self._http.stream(
                "GET", stream.path, params=stream.params, headers=stream.headers, timeout=timeout
            ) as reply:
                if not reply.is_success:
                    reply.read()
                    raise error_of(reply, self.url)
                yield reply
        except httpx.TransportError as error:
            raise unreachable(self.url) from error
