"""Forwards connections of pods to this machine's loopback address or to another pod, since there is no kube-proxy."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

Address = tuple[str, int]

IP_FREEBIND = 15
"""From linux/in.h: the address need not exist yet; a node has it while it has pods."""


@contextlib.contextmanager
def forwarded(host: str, port: int, to: Address | Callable[[], Address | None]) -> Iterator[None]:
    """Forward connections to `host` and `port` to the address `to`, while the context is open. A function `to` is
    called for each connection, which is closed where it returns None."""
    callers: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def accept() -> None:
        with contextlib.suppress(OSError):  # the end
            while True:
                caller, _ = listening.accept()
                there = to() if callable(to) else to
                if there is None:
                    caller.close()
                    continue
                callers.append(caller)
                threads.append(threading.Thread(target=_connect, args=(caller, there)))
                threads[-1].start()

    with socket.socket() as listening:
        listening.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
        listening.bind((host, port))
        listening.listen()
        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield
        finally:
            _shut(listening)
            accepting.join()
            for caller in callers:
                _shut(caller)
            for thread in threads:
                thread.join()


def _connect(caller: socket.socket, to: Address) -> None:
    with caller, contextlib.suppress(OSError), socket.create_connection(to, timeout=10) as called:
        called.settimeout(None)
        back = threading.Thread(target=_copy, args=(called, caller))
        back.start()
        _copy(caller, called)
        back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            target.sendall(piece)
    _shut(source)
    _shut(target)


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
