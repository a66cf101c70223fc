"""Both clients with a scheduler in a separate process."""

from __future__ import annotations

import asyncio
import gzip
import inspect
import io
import re
import socket
import tarfile
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from scheduler.client import AsyncClient, Client
from scheduler.client.wire import EventReader
from scheduler.errors import Conflict, Invalid, NotFound, Unauthenticated, Unavailable
from scheduler.model import JobState, SessionState
from scheduler.schema import JobSubmit, PoolFile, ProjectEntry, SessionOpen


def script(text: str, **rest: Any) -> JobSubmit:
    return JobSubmit(command=["sh", "-c", text], **{"gpus": 0, **rest})


def bundle(**files: str) -> bytes:
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


def public(kind: type) -> dict[str, list[str]]:
    """Method names, and those of their parameters."""
    return {
        name: [p for p in inspect.signature(member).parameters if p != "self"]
        for name, member in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }


def test_both_clients_have_the_same_methods() -> None:
    assert public(Client) == public(AsyncClient)


def test_a_job_is_submitted_followed_and_its_output_downloaded(scheduler: Any, tmp_path: Path) -> None:
    with scheduler.client() as client:
        assert client.me().admin
        digest = client.upload_bundle(bundle(**{"hello.txt": "hello\n"}))
        job = client.submit(
            script(
                'cat hello.txt; printf model > "$RUNAI_OUTPUT_DIR/model.bin"',
                bundle=digest,
                gpus=1,
                name="train",
            )
        )
        done = client.wait(job.id, timeout=30)
        assert (done.state, done.exit_code) == (JobState.SUCCEEDED, 0)
        assert b"".join(client.logs(job.id)) == b"hello\n"
        assert client.log(job.id, offset=2) == b"llo\n"
        assert [file.path for file in client.outputs(job.id)] == ["model.bin"]
        assert client.download(job.id, "model.bin", tmp_path / "got").read_bytes() == b"model"
        assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".got")] == []
        assert client.explain(job.id).state is JobState.SUCCEEDED
        assert [one.id for one in client.jobs(state=[JobState.SUCCEEDED], mine=True).jobs] == [job.id]


async def test_a_job_is_submitted_followed_and_its_output_downloaded_asynchronously(
    scheduler: Any, tmp_path: Path
) -> None:
    async with AsyncClient(scheduler.url, scheduler.token) as client:
        packed = tmp_path / "bundle.tar.gz"
        packed.write_bytes(bundle(**{"hello.txt": "hello\n"}))
        digest = await client.upload_bundle(packed)
        job = await client.submit(
            script('cat hello.txt; printf model > "$RUNAI_OUTPUT_DIR/model.bin"', bundle=digest, gpus=1)
        )
        assert (await client.wait(job.id, timeout=30)).state is JobState.SUCCEEDED
        assert b"".join([piece async for piece in client.logs(job.id)]) == b"hello\n"
        assert [file.path for file in await client.outputs(job.id)] == ["model.bin"]
        assert (await client.download(job.id, "model.bin", tmp_path / "got")).read_bytes() == b"model"


def test_a_bundle_that_is_there_is_not_sent_again(scheduler: Any) -> None:
    content = bundle(a="1")
    with scheduler.client() as client:
        assert not client.has_bundle(client.upload_bundle(bundle(b="1"))[::-1])
        first = client.upload_bundle(content)
        assert client.has_bundle(first)
        assert client.upload_bundle(content) == first
    metrics = httpx.get(f"{scheduler.url}metrics", headers={"Authorization": f"Bearer {scheduler.token}"}).text
    assert 'handler="BlobHandler",method="PUT",status="200"} 2.0' in metrics


def test_jobs_are_paused_resumed_and_cancelled(scheduler: Any) -> None:
    with scheduler.client() as client:
        job = client.submit(script("exec sleep 60", grace=1))
        client.pause(job.id)
        for event in client.events(0, subject=job.id):
            if event.job is not None and event.job.state is JobState.PAUSED:
                break
        client.resume(job.id)
        client.cancel(job.id)
        assert client.wait(job.id, timeout=30).state is JobState.CANCELLED
        with pytest.raises(Conflict):
            client.resume(job.id)


def test_projects_and_the_pool_file(scheduler: Any) -> None:
    with scheduler.client() as client:
        client.project_put(ProjectEntry(name="vision / a", guaranteed=0.5, members=["*"]))
        assert client.project("vision / a").guaranteed == 0.5
        assert {project.name for project in client.projects()} == {"default", "vision / a"}
        file = client.pool_file()
        assert client.apply(file).changes == []
        preview = client.apply(PoolFile(), preview=True)
        assert [(change.action, change.name) for change in preview.changes] == [("remove", "vision / a")]
        client.project_delete("vision / a")
        with pytest.raises(NotFound):
            client.project("vision / a")


def test_a_session_is_opened_and_closed(scheduler: Any) -> None:
    with scheduler.client() as client:
        session = client.open_session(SessionOpen(user=client.me().name, gpus=1))
        assert session.state is SessionState.LEASED
        assert session.env["RUNAI_GPUS"]
        assert [one.id for one in client.sessions()] == [session.id]
        client.close_session(session.id)
        assert client.sessions() == []


def test_refusals_are_errors_with_their_sentence_and_field(scheduler: Any) -> None:
    with scheduler.client() as client:
        with pytest.raises(Invalid) as refused:
            client.submit(JobSubmit(command=["x"], project="nowhere"))
        assert refused.value.field == "project"
        assert "nowhere" in refused.value.sentence
        with pytest.raises(NotFound):
            client.job("j-nothing")
    with Client(scheduler.url, "wrong") as stranger, pytest.raises(Unauthenticated):
        stranger.me()


def test_an_unreachable_scheduler_is_reported_with_advice(scheduler: Any) -> None:
    scheduler.kill()
    with scheduler.client() as client:
        with pytest.raises(Unavailable, match=f"{scheduler.port}.*jupyter runai serve"):
            client.me()
        with pytest.raises(Unavailable, match="jupyter runai serve"):
            client.submit(script("true"))
    scheduler.start()


def test_another_web_server_is_not_taken_for_a_scheduler(scheduler: Any) -> None:
    with Client(f"{scheduler.url}elsewhere/", scheduler.token) as client, pytest.raises(NotFound):
        client.me()


def whole_request(connection: socket.socket) -> bytes:
    """A request with its body, in any number of pieces."""
    request = b""
    while True:
        request += connection.recv(65536)
        head, end, body = request.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head.lower())
        if end and len(body) >= (int(length[1]) if length else 0):
            return request


class CutsOff(threading.Thread):
    """A proxy that forwards a request and, the first time, disconnects before the response."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.passed = 0

    def run(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            with accepted, socket.create_connection(("127.0.0.1", self._to)) as onward:
                onward.sendall(whole_request(accepted))
                answer = onward.recv(65536)
                self.passed += 1
                if self.passed > 1:
                    accepted.sendall(answer)

    def close(self) -> None:
        self._listener.close()


def test_a_submission_whose_answer_is_lost_is_sent_again_and_makes_one_job(scheduler: Any) -> None:
    proxy = CutsOff(scheduler.port)
    proxy.start()
    with Client(f"http://127.0.0.1:{proxy.port}/", scheduler.token) as client:
        job = client.submit(script("true"))
    proxy.close()
    assert proxy.passed == 2
    with scheduler.client() as client:
        assert [one.id for one in client.jobs().jobs] == [job.id]


def test_an_interrupted_event_is_requested_again() -> None:
    reader = EventReader(3)
    assert list(reader.feed("id: 4")) == []
    reader.broken()
    assert list(reader.feed("")) == []
    assert reader.last == 3
    assert list(reader.feed("id: 5")) == list(reader.feed("")) == []
    assert reader.last == 5


def test_events_continue_after_a_restart_of_the_scheduler(scheduler: Any) -> None:
    with scheduler.client() as client:
        first = client.submit(script("true"))
        stream = client.events(0)
        seen = [next(stream)]
        scheduler.kill()
        scheduler.start()
        second = client.submit(script("true"))
        while seen[-1].subject != second.id or seen[-1].data.get("state") != "succeeded":
            seen.append(next(stream))
    durable = [event.id for event in seen if event.kind != "job.reason"]
    assert durable == sorted(set(durable))
    assert {event.subject for event in seen} >= {first.id, second.id}


async def test_a_log_continues_after_a_restart_of_the_scheduler(scheduler: Any, tmp_path: Path) -> None:
    go = tmp_path / "go"
    async with AsyncClient(scheduler.url, scheduler.token) as client:
        job = await client.submit(script(f"echo one; while [ ! -e {go} ]; do sleep 0.05; done; echo two"))
        pieces = client.logs(job.id)
        assert await anext(pieces) == b"one\n"
        scheduler.kill()
        go.touch()
        await asyncio.to_thread(scheduler.start)
        assert b"".join([piece async for piece in pieces]) == b"two\n"


def test_waiting_continues_after_a_restart_of_the_scheduler(scheduler: Any) -> None:
    with scheduler.client() as client:
        job = client.submit(script("sleep 1"))
        found: list[JobState] = []
        waiting = threading.Thread(target=lambda: found.append(client.wait(job.id, timeout=30).state))
        waiting.start()
        scheduler.kill()
        scheduler.start()
        waiting.join(30)
    assert found == [JobState.SUCCEEDED]


def test_a_log_of_several_attempts_has_a_line_between_them(scheduler: Any) -> None:
    with scheduler.client() as client:
        job = client.submit(script("echo attempt $RUNAI_ATTEMPT; [ $RUNAI_ATTEMPT = 2 ]", retries=1))
        text = b"".join(client.logs(job.id))
        assert client.wait(job.id, timeout=30).state is JobState.SUCCEEDED
        assert text == b"attempt 1\n\n--- attempt 2 ---\nattempt 2\n"
        assert b"".join(client.logs(job.id, attempt=1)) == b"attempt 1\n"
