"""Ports of this machine's own address."""

from __future__ import annotations

import socket
from pathlib import Path

LOCAL = "127.0.0.1"


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


def read_port(file: Path) -> int | None:
    """A port that was written down; `None` where there is none, and where the file is damaged."""
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
