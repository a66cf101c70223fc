"""A notebook server tells the scheduler whether its kernels and its user are active, and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import psutil
import pytest

from jupyter_ext import activity
from jupyter_ext.activity import ActivityReports
from scheduler.model import SessionState
from scheduler.schema import SessionOpen
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
    monkeypatch.setenv("JUPYTERHUB_SERVER_NAME", "lab")
    return {"ServerApp": {"jpserver_extensions": {"jupyter_ext": True}, "allow_unauthenticated_access": False}}


async def test_a_page_that_is_used_is_activity_of_its_session(
    jp_fetch: Any, jp_serverapp: Any, pool: RunningPool
) -> None:
    me = (await asyncio.to_thread(pool.client.me)).name
    session = await asyncio.to_thread(pool.client.open_session, SessionOpen(user=me, server="lab", gpus=1))
    assert session.state is SessionState.LEASED
    reports: ActivityReports = jp_serverapp.web_app.settings["runai_activity"]

    async def idle_since() -> float | None:
        await reports.tell()
        (found,) = await asyncio.to_thread(pool.client.sessions)
        return found.idle_since

    before = await idle_since()
    assert before == session.started
    assert (await jp_fetch("runai", "activity", method="POST", body="")).code == 204
    after = await idle_since()
    assert before is not None
    assert after is not None
    assert after > before


def test_a_report_has_the_latest_of_kernels_and_person_and_whether_a_kernel_is_busy() -> None:
    kernels = [{"execution_state": "idle", "last_activity": "2026-11-22T10:00:00.000000Z"}]
    reports: Any = ActivityReports(None, lambda: kernels, None, "lab")  # type: ignore[arg-type]
    at = 1795341600.0  # the instant above
    assert reports.report(at + 60) == {"server": "lab", "busy": False, "quiet_seconds": 60}
    kernels.append({"execution_state": "busy", "last_activity": "2026-11-22T10:00:50.000000Z"})
    assert reports.report(at + 60) == {"server": "lab", "busy": True, "quiet_seconds": 10}
    kernels.clear()
    assert reports.report(at) == {"server": "lab", "busy": False, "quiet_seconds": None}


def test_a_program_below_the_server_that_computes_is_busy_and_one_that_waits_is_not() -> None:
    """Such as a training in a terminal, or the kernel of another IDE."""
    for code, busy in (("while True: pass", True), ("import time; time.sleep(60)", False)):
        inner = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}])"
        server = subprocess.Popen([sys.executable, "-c", inner], start_new_session=True)
        try:
            load, began = activity.Load(server.pid), time.time()
            while not psutil.Process(server.pid).children():
                pass
            load.since_last(began)
            (program,) = psutil.Process(server.pid).children()
            while busy and sum(program.cpu_times()[:2]) < 0.5:
                pass
            assert (load.since_last(began + 1.0) >= activity.COMPUTES) is busy
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


class Scheduler:
    """Asks every server to release its GPUs."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []

    @asynccontextmanager
    async def send(self, method: str, path: str, headers: dict[str, str], *, content: bytes) -> AsyncIterator[Any]:
        self.told.append(json.loads(content))
        yield httpx.Response(200, json={"release": True})


async def test_a_server_that_is_to_release_its_gpus_shuts_its_kernels_down_unless_it_is_used(
    jp_fetch: Any, jp_serverapp: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("RUNAI_GPUS", "0")
    assert (await jp_fetch("api", "kernels", method="POST", body="{}")).code == 201
    reports, kernels, scheduler = (
        jp_serverapp.web_app.settings["runai_activity"],
        jp_serverapp.kernel_manager,
        Scheduler(),
    )
    monkeypatch.setattr(reports, "_upstream", scheduler)
    await reports.tell()  # its kernel has just been started
    assert (len(kernels.list_kernel_ids()), len(scheduler.told)) == (1, 1)

    monkeypatch.setattr(activity, "EVERY", -1.0)  # from now on, nobody has used it for long enough
    await reports.tell()
    assert kernels.list_kernel_ids() == []
    assert [each.get("released", False) for each in scheduler.told[1:]] == [False, True]
    assert (os.environ["CUDA_VISIBLE_DEVICES"], os.environ["RUNAI_GPUS"]) == ("", "")
