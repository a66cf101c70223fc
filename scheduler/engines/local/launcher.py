"""The engine's connection to the launcher: the small process that forks a supervisor for each worker.

The launcher starts and ends with the engine. If it dies alone, the next request starts another one; each worker's claim
prevents a repeated request from starting it twice.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path

from scheduler.errors import Unavailable
from scheduler.worker import launcher

READY = 30.0
"""Seconds until a launcher must be ready: it waits for the pending requests of its predecessor."""
TRIES = 3
"""Launchers started in a row that are killed before they are ready."""

_AT_ONCE = 64
_ENV = ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


class Launcher:
    """Starts supervisors. A worker may open as many files as this process may when the launcher is made."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._max_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._starting = asyncio.Lock()
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def open(self) -> None:
        """Start the launcher unless it runs. Afterwards no request of a previous one is pending."""
        async with self._starting:
            for _ in range(TRIES):
                if self._alive():
                    return
                await self._drop()
                await self._start()
            if not self._alive():
                process = self._process
                await self._drop()
                raise Unavailable(
                    f"Workers cannot be started: their launcher ended {TRIES} times before it was ready, the last time "
                    f"with status {process.returncode if process else None}. Is there enough memory?"
                )

    async def _start(self) -> None:
        """Start a launcher; when this returns it is ready, or has been killed."""
        ours, its = socket.socketpair()
        ours.setblocking(False)
        try:
            self._process = await asyncio.to_thread(spawn, self._state_dir, its, self._max_files)
        finally:
            its.close()
        self._line = ours
        try:
            async with asyncio.timeout(READY):
                await asyncio.get_running_loop().sock_recv(ours, 1)
        except ConnectionResetError:
            pass
        except TimeoutError:
            self._process.kill()
            await self._drop()
            raise Unavailable(
                f"Workers cannot be started: another scheduler seems to use {self._state_dir}; stop it first."
            ) from None

    async def close(self) -> None:
        async with self._starting:
            await self._drop()

    async def start(self, folder: Path) -> None:
        """Start the worker of `folder`; returns when its supervisor has answered or is gone: the folder says which."""
        async with self._room:
            while True:
                await self.open()
                if await self._request(folder) or self._alive():
                    return

    async def _request(self, folder: Path) -> bytes:
        assert self._line is not None
        ours, its = socket.socketpair()
        try:
            with its:
                ours.setblocking(False)
                ours.send(os.fsencode(folder))
                socket.send_fds(self._line, [b"1"], [its.fileno()])
            return await asyncio.get_running_loop().sock_recv(ours, 1)
        except (BrokenPipeError, ConnectionResetError):
            return b""
        finally:
            ours.close()

    def _alive(self) -> bool:
        """Whether the launcher keeps the connection open."""
        if self._line is None:
            return False
        try:
            self._line.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    async def _drop(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None
        if self._process is not None:
            await asyncio.to_thread(_end, self._process)
            self._process = None


def spawn(state_dir: Path, line: socket.socket, max_files: int) -> subprocess.Popen[bytes]:
    """Start the launcher's process, with its end of the connection as standard input."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", launcher.__file__, str(state_dir), str(max_files)],
        stdin=line.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={name: os.environ[name] for name in _ENV if name in os.environ},
        cwd="/",
        start_new_session=True,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for a launcher whose connection is closed; kill it if it hangs."""
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
