"""Tells the scheduler what this notebook server does, so that a GPU that nobody uses is seen to be idle.

Open pages and what they ask by themselves are no activity: a kernel that runs something is, and a person who types or
clicks in JupyterLab. Nothing else is told: no names, no code.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

import httpx
from jupyter_server.auth.decorator import authorized
from tornado.web import authenticated

from jupyter_ext.proxy import RunaiHandler
from jupyter_ext.upstream import Upstream
from scheduler.errors import RunaiError

EVERY = 60.0
"""Seconds between two reports."""

Kernels = Callable[[], Iterable[Mapping[str, Any]]]


class ActivityReports:
    """`kernels` lists the server's kernels, as Jupyter's API does."""

    def __init__(self, upstream: Upstream, kernels: Kernels, server: str = "") -> None:
        self._upstream = upstream
        self._kernels = kernels
        self._server = server
        self._person: float | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Tell from now on, once a minute."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def seen(self) -> None:
        """A person does something."""
        self._person = time.time()

    def report(self, now: float) -> dict[str, Any]:
        """What is told, in seconds before `now`."""
        kernels = list(self._kernels())
        times = [datetime.fromisoformat(str(each["last_activity"])).timestamp() for each in kernels]
        last = max([*times, *([] if self._person is None else [self._person])], default=None)
        return {
            "server": self._server,
            "busy": any(each["execution_state"] == "busy" for each in kernels),
            "quiet_seconds": None if last is None else max(0.0, now - last),
        }

    async def tell(self) -> None:
        """Send one report. Nobody waits for it, and the next one makes good what is lost."""
        content, headers = json.dumps(self.report(time.time())).encode(), {"Content-Type": "application/json"}
        with contextlib.suppress(RunaiError, httpx.TransportError):
            async with self._upstream.send("POST", "sessions/activity", headers, content=content) as reply:
                await reply.aread()

    async def _run(self) -> None:
        while True:
            await self.tell()
            await asyncio.sleep(EVERY)


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
