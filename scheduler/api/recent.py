"""The latest events in memory, by the users that they concern: a listener that reconnects catches up without the
store."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from scheduler.store import JOB_DELETED

if TYPE_CHECKING:
    from scheduler.api.access import Access
    from scheduler.store import EventRecord

KEPT = 10_000
"""The minimum number of events in memory."""

OF_USERS = ("job.", "session.", "schedule.")
"""How the kinds of events begin that concern a user; the others concern everybody."""


class Recent:
    """Contains every event after the one with the id `since`; the latest is `last`."""

    def __init__(self, last: int, kept: int = KEPT) -> None:
        self.since = self.last = last
        self._kept = kept
        self._begin([])

    def _begin(self, events: Iterable[EventRecord]) -> None:
        self._deleted: set[str] = set()
        self._all: list[EventRecord] = []
        self._pool: list[EventRecord] = []
        self._users: dict[str | None, list[EventRecord]] = defaultdict(list)
        self._projects: dict[str | None, list[EventRecord]] = defaultdict(list)
        for event in events:
            self._put(event)

    def _put(self, event: EventRecord) -> None:
        self._all.append(event)
        if not event.kind.startswith(OF_USERS):
            self._pool.append(event)
            return
        if event.kind == JOB_DELETED:
            self._deleted.add(event.subject)
        self._users[event.user].append(event)
        if event.project is not None:
            self._projects[event.project].append(event)

    def add(self, events: Sequence[EventRecord]) -> None:
        """Add new events."""
        for event in events:
            self._put(event)
            self.last = event.id
        if len(self._all) > 2 * self._kept:
            self.since = self._all[-self._kept - 1].id
            self._begin(self._all[-self._kept :])

    def before(self, events: Sequence[EventRecord], since: int) -> None:
        """Add earlier events; `since` is the event before the first of them."""
        self.since = since
        self._begin([*(event for event in events if event.id <= self._first()), *self._all])

    def _first(self) -> int:
        return self._all[0].id - 1 if self._all else self.last

    def after(self, event: int, access: Access, subject: str | None = None) -> list[EventRecord] | None:
        """The events after one that the caller may see; `None` if not all of them are in memory."""
        if event < self.since:
            return None
        if access.caller.admin:
            found = _after(event, self._all)
        else:
            lists = [self._pool, self._users.get(access.caller.name, [])]
            lists += [self._projects.get(project, []) for project in access.seen_projects]
            by_id = {e.id: e for events in lists for e in _after(event, events)}
            found = [by_id[id] for id in sorted(by_id)]
        return [e for e in found if subject in (None, e.subject) and not self._forgotten(e)]

    def _forgotten(self, event: EventRecord) -> bool:
        """Of a deleted job only the deletion is reported."""
        return event.subject in self._deleted and event.kind != JOB_DELETED


def _after(event: int, events: list[EventRecord]) -> list[EventRecord]:
    return events[bisect_right(events, event, key=lambda each: each.id) :]
