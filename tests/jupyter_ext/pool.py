"""A real scheduler and a real kernel, for tests of the magics."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from jupyter_ext.card import MIME
from scheduler.client import Address, Client, find
from scheduler.discovery import embedded
from scheduler.model import JobState
from scheduler.service.app import LOCKED


@dataclass
class Shown:
    """The output of a cell: its text streams, its displays (mime bundles, updates in place) and its error, if any."""

    stdout: str = ""
    stderr: str = ""
    displays: list[dict[str, Any]] = field(default_factory=list)
    updates: list[dict[str, Any]] = field(default_factory=list)
    result: dict[str, Any] | None = None
    error: str | None = None
    arrived: list[tuple[float, str]] = field(default_factory=list)
    order: list[tuple[str, Any]] = field(default_factory=list)
    """`text`, `display` and `clear`, in order of arrival."""

    @property
    def states(self) -> list[str]:
        """The texts of the card, in order."""
        return [data["text/plain"] for data in (*self.displays, *self.updates) if MIME in data]


def plain(text: str) -> str:
    """A text without its colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


class Kernel:
    """A kernel in a separate process, as in a notebook."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self._manager = KernelManager(transport="ipc", ip=str(folder.parent / "k"))
        self._manager.start_kernel(cwd=str(folder), env={**os.environ, **environment})
        self._client: BlockingKernelClient = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=60)

    def send(self, code: str, metadata: dict[str, Any] | None = None, *, allow_stdin: bool = True) -> str:
        """Execute, as a front end that puts `metadata` into its requests."""
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": allow_stdin}
        message = self._client.session.msg("execute_request", content, metadata=metadata)
        self._client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def run(self, code: str, metadata: dict[str, Any] | None = None, timeout: float = 60, **how: bool) -> Shown:
        return self.collect(self.send(code, metadata, **how), timeout)

    def collect(self, message: str, timeout: float = 60, until: str | None = None, into: Shown | None = None) -> Shown:
        """A cell's output until it has ended, or until it contains `until`."""
        shown = into or Shown()
        deadline = time.monotonic() + timeout
        while until is None or until not in shown.stdout + "".join(shown.states):
            reply = self._client.get_iopub_msg(timeout=deadline - time.monotonic())
            if reply["parent_header"].get("msg_id") != message:
                continue
            content = reply["content"]
            match reply["msg_type"]:
                case "stream":
                    text = content["text"]
                    shown.arrived.append((time.time(), text))
                    shown.order.append(("text", text))
                    setattr(shown, content["name"], getattr(shown, content["name"]) + text)
                case "display_data":
                    shown.displays.append(content["data"])
                    shown.order.append(("display", content["data"]))
                case "clear_output":
                    shown.order.append(("clear", None))
                case "update_display_data":
                    shown.updates.append(content["data"])
                case "execute_result":
                    shown.result = content["data"]
                case "error":
                    shown.error = "\n".join(content["traceback"])
                case "status" if content["execution_state"] == "idle":
                    break
        return shown

    def value(self, expression: str) -> str:
        """The `repr` of an expression in the kernel."""
        return str(self.shown(expression)["text/plain"])

    def shown(self, expression: str) -> dict[str, Any]:
        """What an expression in the kernel is shown as, by MIME type, without a trace in the history."""
        reply = self._client.execute("", silent=True, user_expressions={"it": expression}, reply=True, timeout=30)
        found = reply["content"]["user_expressions"]["it"]
        assert found["status"] == "ok", found
        return dict(found["data"])

    @property
    def pid(self) -> str:
        return self.value("__import__('os').getpid()")

    def completions(self, code: str) -> list[str]:
        """The completions at the end of a line."""
        reply = self._client.complete(code, len(code), reply=True, timeout=30)
        return list(reply["content"]["matches"])

    def say(self, comm: str, data: dict[str, Any]) -> None:
        """Send a message to a widget, as a front end does."""
        message = self._client.session.msg("comm_msg", {"comm_id": comm, "data": data})
        self._client.shell_channel.send(message)

    def heard(self, timeout: float = 60) -> dict[str, Any]:
        """The next message to a front end, from any cell or thread."""
        return dict(self._client.get_iopub_msg(timeout=timeout))

    def interrupt(self) -> None:
        self._manager.interrupt_kernel()

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


class RunningPool:
    """A scheduler in a separate process, with its own state folder."""

    def __init__(self, state_dir: Path, gpus: int = 4) -> None:
        self.state_dir = state_dir
        self._gpus = gpus
        self._process: subprocess.Popen[bytes] | None = None
        self._pid = 0
        self._clients: dict[Address, Client] = {}

    def start(self) -> None:
        """Start it, unless a kernel has already done so."""
        self.state_dir.mkdir(exist_ok=True)
        log = (self.state_dir / embedded.LOG).open("ab")
        with log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "scheduler.service.app",
                    f"--state-dir={self.state_dir}",
                    "--ip=127.0.0.1",
                    "--port=0",
                    "--auth=token",
                    f"--declared-gpus={self._gpus}",
                ],
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + 60
        while (found := embedded.find(self.state_dir)) is None or not (
            found.pid == self._process.pid or self._process.poll() == LOCKED
        ):
            assert self._process.poll() in (None, LOCKED), (self.state_dir / embedded.LOG).read_text()
            assert time.monotonic() < deadline, "The scheduler did not come up."
            time.sleep(0.02)
        self._pid = found.pid

    def kill(self) -> None:
        """Kill it as in a power cut."""
        assert self._process is not None
        os.kill(self._pid, signal.SIGKILL)
        self._process.wait()

    @property
    def environment(self) -> dict[str, str]:
        return {
            "RUNAI_STATE_DIR": str(self.state_dir),
            "JUPYTER_CONFIG_DIR": str(self.state_dir.with_name("config")),
        }

    @property
    def address(self) -> Address:
        return find(self.environment)

    @property
    def client(self) -> Client:
        address = self.address
        if address not in self._clients:
            self._clients[address] = Client(address.url, address.token)
        return self._clients[address]

    def stop(self) -> None:
        """End the jobs, then the scheduler."""
        if self._process is None or embedded.find(self.state_dir) is None:
            return
        unfinished = [state for state in JobState if not state.final]
        jobs = self.client.jobs(state=unfinished).jobs
        for job in jobs:
            self.client.cancel(job.id)
        for job in jobs:
            self.client.wait(job.id, timeout=30)
        for client in self._clients.values():
            client.close()
        os.kill(self._pid, signal.SIGTERM)
        self._process.wait(timeout=30)


@contextmanager
def running_pool(state_dir: Path, gpus: int = 4) -> Iterator[RunningPool]:
    pool = RunningPool(state_dir, gpus)
    pool.start()
    try:
        yield pool
    finally:
        pool.stop()
