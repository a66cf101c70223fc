"""The listeners by what they may see, so that the listeners of an event are found without checking each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from scheduler.api.access import Access, Caller
from scheduler.api.listener import Listener, Reader
from scheduler.api.recent import OF_USERS

if TYPE_CHECKING:
    from scheduler.store import EventRecord


class Readers:
    """`access` returns what a caller may see now; `number` numbers changes."""

    def __init__(self, access: Callable[[Caller], Access], number: Callable[[], int]) -> None:
        self._access = access
        self._number = number
        self._callers: dict[Caller, Reader] = {}
        self._administrators: dict[Reader, None] = {}
        self._users: dict[str, dict[Reader, None]] = {}
        self._projects: dict[str, dict[Reader, None]] = {}

    def enter(self, listener: Listener, caller: Caller) -> None:
        """Add a listener of a caller."""
        reader = self._callers.get(caller)
        if reader is None:
            reader = self._callers[caller] = Reader(self._access(caller), self._number())
            self._file(reader)
        reader.listeners.add(listener)
        listener.reader = reader

    def leave(self, listener: Listener) -> None:
        reader = listener.reader
        reader.listeners.discard(listener)
        if not reader.listeners and self._callers.pop(reader.access.caller, None) is not None:
            self._take_out(reader)

    def listeners_of(self, record: EventRecord) -> Iterator[Listener]:
        """The live listeners that may see this event."""
        for reader in list(self._readers_of(record)):
            for listener in list(reader.listeners):
                if listener.live and listener.subject in (None, record.subject):
                    yield listener

    def __iter__(self) -> Iterator[Reader]:
        return iter(list(self._callers.values()))

    def look_again(self, reader: Reader) -> None:
        """Update what this reader may see after a change of the pool."""
        if reader.access.caller not in self._callers:
            return
        self._take_out(reader)
        reader.access = self._access(reader.access.caller)
        reader.changed = self._number()
        self._file(reader)

    def _readers_of(self, record: EventRecord) -> Iterable[Reader]:
        if not record.kind.startswith(OF_USERS):
            return self._callers.values()
        found = dict(self._administrators)
        found.update(self._users.get(record.user or "", {}))
        if record.kind.startswith("job."):
            found.update(self._projects.get(record.project or "", {}))
        return found

    def _file(self, reader: Reader) -> None:
        for shelf in self._places(reader):
            shelf[reader] = None

    def _take_out(self, reader: Reader) -> None:
        for shelf in self._places(reader):
            shelf.pop(reader, None)

    def _places(self, reader: Reader) -> Iterator[dict[Reader, None]]:
        access = reader.access
        if access.caller.admin:
            yield self._administrators
        yield self._users.setdefault(access.caller.name, {})
        for project in access.seen_projects:
            yield self._projects.setdefault(project, {})
