"""Tells the scheduler what this notebook server does, so that a GPU that nobody uses is seen to be idle.

Open pages and what they ask by themselves are no activity: a kernel that runs something is, a person who types or
clicks in JupyterLab, and a program that computes below this server, such as one in a terminal or of another IDE.
Nothing else is told: no names, no code.

The scheduler may answer that the server is to release its GPUs, because it was idle for as long as the rules allow. Its
kernels are then shut down, unless it is used meanwhile, and new ones start without GPUs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

import httpx
import psutil
from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import authorized
from tornado.web import authenticated

from jupyter_ext.proxy import RunaiHandler
from jupyter_ext.upstream import Upstream
from scheduler.errors import RunaiError

EVERY = 60.0
"""Seconds between two reports."""

GPU_VARIABLES = ("CUDA_VISIBLE_DEVICES", "RUNAI_GPUS")
"""What new kernels inherit from the server, and what tells them their GPUs."""

COMPUTES = 0.1
"""The part of a core at which the programs below this server count as busy. IDEs that wait use a few hundredths."""

Kernels = Callable[[], Iterable[Mapping[str, Any]]]
ShutDown = Callable[[], Awaitable[None] | None]


class ActivityReports:
    """`kernels` lists the server's kernels, as Jupyter's API does; `shut_down` shuts all of them down."""

    def __init__(self, upstream: Upstream, kernels: Kernels, shut_down: ShutDown, server: str = "") -> None:
        self._upstream = upstream
        self._kernels = kernels
        self._shut_down = shut_down
        self._server = server
        self._person: float | None = None
        self._task: asyncio.Task[None] | None = None
        self._used = asyncio.Event()
        self._load = Load(os.getpid())

    def begin(self) -> None:
        """Tell from now on, once a minute."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def seen(self) -> None:
        """A person does something: after a pause, that is told at once."""
        before, self._person = self._person, time.time()
        if before is None or self._person - before > EVERY:
            self._used.set()

    def report(self, now: float) -> dict[str, Any]:
        """What is told, in seconds before `now`."""
        kernels = list(self._kernels())
        times = [datetime.fromisoformat(str(each["last_activity"])).timestamp() for each in kernels]
        last = max([*times, *([] if self._person is None else [self._person])], default=None)
        return {
            "server": self._server,
            "busy": self._load.since_last(now) >= COMPUTES
            or any(each["execution_state"] == "busy" for each in kernels),
            "quiet_seconds": None if last is None else max(0.0, now - last),
        }

    async def tell(self) -> None:
        """Send one report, and do what the scheduler answers. The next one makes good what is lost."""
        quiet = self._quiet(report := self.report(time.time()))
        if await self._send(report) and quiet and self._quiet(self.report(time.time())):
            for name in GPU_VARIABLES:
                os.environ[name] = ""
            await ensure_async(self._shut_down())
            await self._send({**self.report(time.time()), "released": True})

    def _quiet(self, report: Mapping[str, Any]) -> bool:
        """Whether nobody uses the server now."""
        quiet = report["quiet_seconds"]
        return not report["busy"] and (quiet is None or quiet > EVERY)

    async def _send(self, report: Mapping[str, Any]) -> bool:
        """Whether the server is to release its GPUs."""
        content, headers = json.dumps(report).encode(), {"Content-Type": "application/json"}
        with contextlib.suppress(RunaiError, httpx.TransportError, ValueError):
            async with self._upstream.send("POST", "sessions/activity", headers, content=content) as reply:
                return reply.status_code == 200 and json.loads(await reply.aread())["release"] is True
        return False

    async def _run(self) -> None:
        while True:
            self._used.clear()
            await self.tell()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._used.wait(), EVERY)


class Load:
    """The processor time of the programs below a process."""

    def __init__(self, root: int) -> None:
        self._root = psutil.Process(root)
        self._before: tuple[float, dict[tuple[int, float], float]] | None = None
        self._latest = 0.0

    def since_last(self, now: float) -> float:
        """Cores that they used on average since the last call; 0 the first time. Within a second, that of before: the
        system counts in hundredths."""
        if self._before is not None and abs(now - self._before[0]) < 1.0:
            return self._latest
        seen: dict[tuple[int, float], float] = {}
        for program in self._root.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                times = program.cpu_times()
                seen[program.pid, program.create_time()] = times.user + times.system
        before, self._before = self._before, (now, seen)
        if before is None or now <= before[0]:
            return 0.0
        self._latest = sum(used - before[1].get(key, 0.0) for key, used in seen.items()) / (now - before[0])
        return self._latest


def holds_gpus() -> bool:
    """Whether this server holds a lease: else there is nothing to be told of."""
    return bool(os.environ.get("RUNAI_GPUS"))


class ActivityHandler(RunaiHandler):
    """A page tells that a person does something in it."""

    @authenticated
    @authorized
    async def post(self) -> None:
        self.settings["runai_activity"].seen()
        self.set_status(204)
        self.finish()
