"""Only the scheduler's user can listen at its port while a hub runs, since tokens are sent there."""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import httpx
import pytest
from traitlets.config import Config

import hub_spawner
from hub_spawner.ports import LOCAL, any_free, reserve
from scheduler.discovery.statefolder import StateFolder
from tests.hub.running import Hub, eventually

STRANGER = """
import itertools, os, socket, sys

os.setgroups([])
os.setuid(65534)
address = ("127.0.0.1", int(sys.argv[1]))
for tried in itertools.count(1):
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, tried % 2)
        try:
            listening.bind(address)
            listening.listen()
        except OSError:
            if tried == 1:
                print("refused", flush=True)
            continue
        print("listens", flush=True)
        while True:
            print(listening.accept()[0].recv(65536), flush=True)
"""
SCHEDULER = """
import os, sys
from tornado.netutil import bind_sockets

os.setuid(int(sys.argv[2]))
bind_sockets(int(sys.argv[1]), "127.0.0.1", reuse_port=True)
"""

as_another_user = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    hub = Hub(tmp_path)
    hub.start()
    yield hub
    hub.clean()


@contextlib.contextmanager
def stranger(port: int) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """Another user's process that tries continuously to listen there, and prints what it receives."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", STRANGER, str(port)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def port_of(c: Config) -> int:
    return int(c.JupyterHub.services[-1]["url"].rpartition(":")[2])


def ask(url: str) -> int:
    """Send a token; returns the status of the response, 0 without a response."""
    try:
        return httpx.get(f"{url}/api/v1/me", headers={"Authorization": "token secret"}, timeout=5).status_code
    except httpx.TransportError:
        return 0


@pytest.mark.needs("node")
@as_another_user
def test_while_the_scheduler_is_down_another_user_is_sent_no_token(hub: Hub) -> None:
    folder = StateFolder(hub.folder / "pool")
    port = int((folder.path / "hub-port").read_text())
    doors = (f"http://{LOCAL}:{port}/services/runai", f"{hub.url}/services/runai")
    assert [ask(door) for door in doors] == [401, 401]
    with stranger(port) as (process, said):
        assert said.readline() == "refused\n"
        first = folder.endpoint()
        assert first is not None
        os.kill(first.pid, signal.SIGKILL)
        down: set[Any] = set()

        def returned() -> bool:
            down.update(ask(door) for door in doors)
            again = folder.endpoint()
            return again is not None and again.pid != first.pid

        eventually("the hub has started another scheduler", returned)
        assert {0, 503} <= down  # both addresses were tried while the scheduler was down
        process.kill()
        assert said.read() == ""  # it has never listened
    assert [ask(door) for door in doors] == [401, 401]


@as_another_user
def test_a_port_can_be_reserved_for_the_user_that_runs_the_scheduler() -> None:
    port, owner = any_free(), pwd.getpwnam("daemon").pw_uid
    assert reserve(port, owner)
    with stranger(port) as (_, said):
        assert said.readline() == "refused\n"
    subprocess.run([sys.executable, "-c", SCHEDULER, str(port), str(owner)], check=True)


def test_a_reserved_port_refuses_connections_until_the_scheduler_listens(tmp_path: Path) -> None:
    c = Config()
    hub_spawner.configure(c, state_dir=tmp_path, jobs_as="scheduler")
    address = (LOCAL, port_of(c))
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with pytest.raises(OSError, match="in use"):
            other.bind(address)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)
    with socket.socket() as scheduler:
        scheduler.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        scheduler.bind(address)
        scheduler.listen()
        for _ in range(20):
            socket.create_connection(address).close()


def test_a_port_that_another_process_took_is_replaced(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    folder.open()
    with socket.create_server((LOCAL, 0)) as other:
        taken = other.getsockname()[1]
        (tmp_path / "hub-port").write_text(str(taken))
        folder.write_endpoint(f"http://{LOCAL}:{taken}/services/runai/")  # its scheduler has ended
        c = Config()
        hub_spawner.configure(c, state_dir=tmp_path, jobs_as="scheduler")
    assert port_of(c) != taken
