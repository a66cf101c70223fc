"""The open connections: how many there may be, how many from one address and one user, and which of them is closed for
another.

What must hold:
- File descriptors are always left for the scheduler's own files and workers: connections take half of what the process
  may open, or all but `OWN` if that is more.
- A client that opens connections without completing a request only displaces others of that kind: a new connection
  replaces the oldest one whose request is incomplete, then the oldest one between two requests.
- A connection whose request is being answered is never closed for another.
"""

from __future__ import annotations

import resource
import time
from collections import Counter
from collections.abc import Callable
from typing import Generic, TypeVar

from scheduler.errors import TooMany

T = TypeVar("T")

MOST = 100_000
"""The most connections, whatever the system allows."""

OWN = 8192
"""The number of descriptors that is enough for the scheduler's own files and workers."""

SHARE = 4
"""One address may have a quarter of all connections with incomplete requests, and one user a quarter with open
requests."""


def most_connections() -> int:
    """The descriptors that this process may open, less those reserved for its own files."""
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return min(max(descriptors // 2, descriptors - OWN), MOST)


class Connections(Generic[T]):
    """Counts connections `T`; `close` closes one of them."""

    def __init__(self, close: Callable[[T], None], most: int | None = None) -> None:
        self.most = most or most_connections()
        self.share = max(1, self.most // SHARE)
        self._close = close
        self._addresses: dict[T, str] = {}
        self._incomplete: dict[T, None] = {}  # the oldest first
        self._by_address: Counter[str] = Counter()
        self._between: dict[T, None] = {}
        self._users: dict[T, str] = {}
        self._by_user: Counter[str] = Counter()
        self.none_since: float | None = time.monotonic()

    def open(self, connection: T, address: str) -> bool:
        """Admit a new connection; false where there is no room."""
        if self._by_address[address] >= self.share:
            self._give_way(next(one for one in self._incomplete if self._addresses[one] == address))
        if len(self._addresses) >= self.most and not self.make_room():
            return False
        self.none_since = None
        self._addresses[connection] = address
        self._await(connection)
        return True

    def make_room(self) -> bool:
        """Close the connection that is least needed; false where all are being answered."""
        first = next(iter(self._incomplete), None) or next(iter(self._between), None)
        if first is not None:
            self._give_way(first)
        return first is not None

    def begins(self, connection: T) -> None:
        """A request has begun to arrive."""
        if connection in self._between:
            del self._between[connection]
            self._await(connection)

    def complete(self, connection: T) -> None:
        """The request has arrived completely."""
        if connection in self._incomplete:
            del self._incomplete[connection]
            self._by_address[self._addresses[connection]] -= 1

    def belongs(self, connection: T, user: str) -> None:
        """The request is this user's. Raises `TooMany` where they have too many open."""
        if self._by_user[user] >= self.share:
            raise TooMany(f"You have {self.share} requests open, the maximum; close some of them.")
        self.complete(connection)
        self._by_user[user] += 1
        self._users[connection] = user

    def requests_of(self, user: str) -> int:
        """How many of this user's requests are open."""
        return self._by_user[user]

    def answered(self, connection: T) -> None:
        """The request is answered, and the next one may come."""
        self._leave(connection)
        if connection in self._addresses:
            self._between[connection] = None

    def closed(self, connection: T) -> None:
        if connection not in self._addresses:
            return  # it was closed for another
        self._leave(connection)
        self._between.pop(connection, None)
        address = self._addresses.pop(connection)
        if not self._by_address[address]:
            del self._by_address[address]
        if not self._addresses:
            self.none_since = time.monotonic()

    def _await(self, connection: T) -> None:
        self._incomplete[connection] = None
        self._by_address[self._addresses[connection]] += 1

    def _leave(self, connection: T) -> None:
        """Its request has ended in any way."""
        self.complete(connection)
        user = self._users.pop(connection, None)
        if user is not None:
            self._by_user[user] -= 1
            if not self._by_user[user]:
                del self._by_user[user]

    def _give_way(self, connection: T) -> None:
        self.closed(connection)
        self._close(connection)
