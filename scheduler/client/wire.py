"""What the two clients share: how connections are made, when to retry, how events are read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx

from scheduler.client.finding import Address
from scheduler.schema import Event

AGAIN = (0.1, 0.3, 1.0)
"""Seconds between retries of a request that could not connect or lost its connection."""

REJOIN = (0.1, 0.3, 1.0, 2.0, *(5.0,) * 12)
"""The same for waiting and streams: a restart of the scheduler within a minute goes unnoticed."""

QUIET = 15.0
"""An event stream without data for this many seconds (three heartbeats) counts as broken."""

TIMEOUT = httpx.Timeout(30.0, connect=5.0)
PATIENT = httpx.Timeout(30.0, connect=5.0, read=600.0, write=600.0)
FOLLOWING = httpx.Timeout(30.0, connect=5.0, read=None)
LISTENING = httpx.Timeout(30.0, connect=5.0, read=QUIET)
WATCHING = httpx.Timeout(30.0, connect=5.0, read=3 * QUIET)
"""A stream with `view` has a third of the heartbeats."""


def options(address: Address) -> dict[str, Any]:
    """The httpx options for the scheduler. A scheduler on this machine is never reached through a proxy."""
    host = urlsplit(address.url).hostname or ""
    notebook = {"Runai-Notebook": address.notebook} if address.notebook else {}
    return {
        "base_url": f"{address.url.rstrip('/')}/api/v1/",
        "headers": {"Authorization": f"Bearer {address.token}", **notebook},
        "timeout": TIMEOUT,
        "trust_env": host not in ("127.0.0.1", "::1", "localhost"),
        "follow_redirects": False,
    }


def refuse_strangers(address: Address, request: httpx.Request) -> None:
    """Refuse to send a request if the scheduler has ended: another process may listen on its address now."""
    if not address.is_held():
        raise httpx.ConnectError(f"The scheduler of {address.folder} is not running.", request=request)


class Backoff:
    """Limits the retries while a scheduler does not answer; reset by every answer."""

    def __init__(self) -> None:
        self._tries = 0

    def heard(self) -> None:
        self._tries = 0

    def pause(self, error: Exception) -> float:
        """Seconds to wait before the next retry. Raises `error` after the last one."""
        if self._tries >= len(REJOIN):
            raise error
        self._tries += 1
        return REJOIN[self._tries - 1]


class EventReader:
    """Server-sent events, line by line. `last` is the id to resume from."""

    def __init__(self, last: int | None) -> None:
        self.last = last
        self._next = last
        self._data: list[str] = []

    def feed(self, line: str) -> Iterator[Event]:
        """The event that `line` completes, if it does."""
        if not line:
            self.last = self._next
            if self._data:
                event = Event.model_validate_json("\n".join(self._data))
                self._data.clear()
                yield event
            return
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id" and value.isdecimal():
            self._next = int(value)
        elif name == "data":
            self._data.append(value)

    def broken(self) -> None:
        """The connection was lost: an incomplete event will be sent again."""
        self._data.clear()
        self._next = self.last
