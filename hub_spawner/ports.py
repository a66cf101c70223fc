"""Ports of this machine's own address."""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path

LOCAL = "127.0.0.1"

_reserved: list[socket.socket] = []
_locked: list[int] = []


def is_free(port: int) -> bool:
    """Whether a server could listen there now; connections that are just closing do not count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOCAL, port))
        except OSError:
            return False
    return True


def any_free() -> int:
    with socket.socket() as probe:
        probe.bind((LOCAL, 0))
        return int(probe.getsockname()[1])


def reserve(port: int, owner: int) -> bool:
    """Reserve a port for the user `owner` until this process ends; false where others have it. Only root can reserve it
    for others.

    The socket is bound and does not listen: while no server of the owner's runs, connections are refused. Linux binds
    further sockets to the port only if they belong to the same user and all set SO_REUSEPORT.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if owner != os.geteuid():
        os.fchown(held.fileno(), owner, -1)
    try:
        held.bind((LOCAL, port))
    except OSError:
        held.close()
        return False
    _reserved.append(held)
    return True


def lock_shared(file: Path) -> None:
    """Lock the file, until this process ends, to mark the port in it as reserved."""
    handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    fcntl.flock(handle, fcntl.LOCK_SH)
    _locked.append(handle)


def is_locked(file: Path) -> bool:
    """Whether a process holds the file by `lock_shared`."""
    with file.open("rb") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def read_port(file: Path) -> int | None:
    """The port in a file; `None` where it is missing or damaged."""
    try:
        port = int(file.read_text("ascii"))
    except (FileNotFoundError, ValueError):
        return None
    return port if 0 < port < 2**16 else None


def is_taken(ip: str, port: int) -> bool:
    """Whether a server listens there."""
    try:
        with socket.create_connection((ip, port), timeout=1):
            return True
    except OSError:
        return False
