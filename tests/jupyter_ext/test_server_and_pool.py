"""A real notebook server with a real scheduler: the browser's view of the pool, without access to the token."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tornado.httpclient import HTTPClientError

from scheduler.model import JobState
from scheduler.schema import JobSubmit, ScheduleSubmit
from tests.jupyter_ext.pool import RunningPool, running_pool

pytestmark = pytest.mark.filterwarnings("ignore:(?s).*TermSocket:jupyter_server.utils.JupyterServerAuthWarning")


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPool]:
    with running_pool(tmp_path_factory.mktemp("pool") / "state") as pool:
        yield pool


@pytest.fixture
def jp_server_config(pool: RunningPool, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("RUNAI_URL", pool.address.url)
    monkeypatch.setenv("RUNAI_TOKEN", pool.address.token)
    return {"ServerApp": {"jpserver_extensions": {"jupyter_ext": True}, "allow_unauthenticated_access": False}}


async def body(fetch: Any, *path: str, **options: Any) -> Any:
    return json.loads((await fetch("runai", "api", "v1", *path, **options)).body)


async def test_the_pool_and_the_jobs_are_the_schedulers(jp_fetch: Any, pool: RunningPool) -> None:
    job = pool.client.submit(JobSubmit(command=["sleep", "600"], name="sleeper"))
    assert (await body(jp_fetch, "me"))["admin"] is True
    assert (await body(jp_fetch, "pool"))["declared"] is True
    assert (await body(jp_fetch, "jobs", job.id))["name"] == "sleeper"
    page = await body(jp_fetch, "jobs", params={"limit": "1", "1700000000000": ""})
    assert [one["id"] for one in page["jobs"]] == [job.id]
    cancelled = await body(jp_fetch, "jobs", job.id, "cancel", method="POST", body="")
    assert cancelled["id"] == job.id
    assert (await asyncio.to_thread(pool.client.wait, job.id, 30)).state is JobState.CANCELLED
    assert (await jp_fetch("runai", "api", "v1", "jobs", job.id, method="DELETE")).code == 204
    assert job.id not in {one.id for one in pool.client.jobs().jobs}


async def test_an_error_of_the_scheduler_is_forwarded_unchanged(jp_fetch: Any) -> None:
    with pytest.raises(HTTPClientError) as error:
        await body(jp_fetch, "jobs", "j-none")
    response = error.value.response
    assert response is not None
    assert response.code == 404
    assert response.headers["Content-Type"] == "application/problem+json"
    assert "j-none" in json.loads(response.body)["detail"]


async def test_the_status_is_that_of_the_pool(jp_fetch: Any, pool: RunningPool) -> None:
    for _ in range(2):
        response = await jp_fetch("runai", "status")
        status = json.loads(response.body)
        assert (status["connected"], status["message"], status["declared"]) == (True, None, True)
        assert pool.address.token not in response.body.decode()


async def test_a_log_is_streamed_while_it_is_written(jp_fetch: Any, pool: RunningPool, tmp_path: Any) -> None:
    go = tmp_path / "go"
    script = f"echo first; while [ ! -e {go} ]; do sleep 0.02; done; echo last"
    job = pool.client.submit(JobSubmit(command=["sh", "-c", script]))
    text = b""

    def take(piece: bytes) -> None:
        nonlocal text
        text += piece
        if b"first" in text:
            go.touch()

    path = ("runai", "api", "v1", "jobs", job.id, "logs")
    response = await jp_fetch(*path, params={"follow": "true"}, streaming_callback=take)
    assert text == b"first\nlast\n"
    assert response.headers["Content-Type"].startswith("text/plain")
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]


async def test_outputs_are_downloaded_and_never_rendered(jp_fetch: Any, pool: RunningPool) -> None:
    script = "echo '<script>alert(1)</script>' > $RUNAI_OUTPUT_DIR/page.html"
    job = pool.client.submit(JobSubmit(command=["sh", "-c", script]))
    await asyncio.to_thread(pool.client.wait, job.id, 30)
    response = await jp_fetch("runai", "api", "v1", "jobs", job.id, "outputs", "page.html")
    assert response.body == b"<script>alert(1)</script>\n"
    assert response.headers["Content-Type"] == "application/octet-stream"
    assert response.headers["Content-Disposition"].startswith("attachment")


async def test_events_stream_and_resume(jp_fetch: Any, pool: RunningPool) -> None:
    seen: list[str] = []
    enough = asyncio.Event()

    def take(piece: bytes) -> None:
        seen.append(piece.decode())
        if '"succeeded"' in piece.decode():
            enough.set()

    path = ("runai", "api", "v1", "events")
    first = await body(jp_fetch, "jobs", params={"limit": "1"})
    job = pool.client.submit(JobSubmit(command=["true"]))
    assert first is not None
    headers = {"Last-Event-ID": "0", "Accept": "text/event-stream"}
    stream = asyncio.ensure_future(
        jp_fetch(*path, params={"subject": job.id}, headers=headers, streaming_callback=take, request_timeout=30)
    )
    await asyncio.wait({asyncio.ensure_future(enough.wait()), stream}, return_when=asyncio.FIRST_COMPLETED)
    assert enough.is_set(), "".join(seen)
    assert "job.submitted" in "".join(seen)
    stream.cancel()


async def test_a_closed_browser_ends_its_stream(
    jp_fetch: Any,
    jp_serverapp: Any,
    pool: RunningPool,
    jp_auth_header: dict[str, str],
    jp_base_url: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", jp_serverapp.port)
    writer.write(
        f"GET {jp_base_url}runai/api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Authorization: {jp_auth_header['Authorization']}\r\n\r\n".encode()
    )
    await reader.readuntil(b"retry:")
    streaming = [task for task in asyncio.all_tasks() if "ProxyHandler" in repr(task) or "_execute" in repr(task)]
    assert streaming
    writer.close()
    await asyncio.wait(streaming, timeout=10)
    assert all(task.done() for task in streaming)
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


async def test_schedules_are_listed_paused_run_and_removed(jp_fetch: Any, pool: RunningPool) -> None:
    job = JobSubmit(command=["true"], name="nightly")
    schedule = pool.client.schedule_add(ScheduleSubmit(cron="0 2 * * *", job=job))
    path = ("schedules", schedule.id)
    paused = await body(jp_fetch, *path, method="PATCH", body='{"active": false}')
    assert (paused["active"], paused["next_run"]) == (False, None)
    run = await body(jp_fetch, *path, "run", method="POST", body="")
    (listed,) = (await body(jp_fetch, "schedules"))["schedules"]
    assert (listed["name"], listed["last_job"]["id"]) == ("nightly", run["id"])
    assert (await jp_fetch("runai", "api", "v1", *path, method="DELETE")).code == 204
    assert (await body(jp_fetch, "schedules"))["schedules"] == []
