"""Free ports of this machine for the workers of attempts, each given to one attempt at a time.

They lie below the system's ephemeral ports, so that only listeners can take one; a port in use is skipped. A port stays
allocated until the attempt has ended.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Hashable
from pathlib import Path

from scheduler.errors import Unavailable

LOWEST = 15_000
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_TRIES = 2_000


class Ports:
    """The ports of one address, by default all below the ephemeral range."""

    def __init__(self, address: str, ports: range | None = None) -> None:
        self._address = address
        self._ports = ports or range(LOWEST, _first_ephemeral())
        self._given: dict[Hashable, tuple[int, ...]] = {}

    def take(self, attempt: Hashable, count: int) -> tuple[int, ...]:
        """Allocate `count` free ports, the same ones on repetition. Raises `Unavailable`."""
        if attempt not in self._given:
            self._given[attempt] = self._find(count)
        return self._given[attempt]

    def keep(self, attempt: Hashable, ports: tuple[int, ...]) -> None:
        """Record the ports that an attempt got before the scheduler was started."""
        self._given[attempt] = ports

    def give_back(self, attempt: Hashable) -> None:
        self._given.pop(attempt, None)

    def _find(self, count: int) -> tuple[int, ...]:
        others = {port for ports in self._given.values() for port in ports}
        found: list[int] = []
        for _ in range(_TRIES if count else 0):
            port = random.choice(self._ports)
            if port not in others and _free(self._address, port):
                others.add(port)
                found.append(port)
            if len(found) == count:
                break
        if len(found) < count:
            raise Unavailable(f"There are no {count} free ports on {self._address} for the rendezvous of the workers.")
        return tuple(found)


def _free(address: str, port: int) -> bool:
    """Whether nothing listens at this port, on this address or on all of them."""
    for each in (address, ""):
        with socket.socket(socket.AF_INET6 if ":" in each else socket.AF_INET) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port closed just now is free
            try:
                trial.bind((each, port))
            except OSError:
                return False
    return True


def _first_ephemeral() -> int:
    try:
        first = int(_EPHEMERAL.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        first = 32_768
    return first if first - LOWEST >= 1000 else 60_999
