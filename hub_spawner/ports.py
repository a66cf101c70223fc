"""Ports of this machine's own address."""

from __future__ import annotations

import socket

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


def is_taken(ip: str, port: int) -> bool:
    """Whether a server listens there."""
    try:
        with socket.create_connection((ip, port), timeout=1):
            return True
    except OSError:
        return False
