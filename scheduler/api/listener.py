"""One open event stream: its queue, its position and its caller.

What must hold: a listener uses a bounded amount of memory, however slow it is. Queued pieces are shared with all
listeners that get the same, and their number is bounded; a listener that falls behind catches up from its position, in
pages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from tornado.iostream import IOStream, StreamClosedError

if TYPE_CHECKING:
    from scheduler.api.access import Access, Caller
    from scheduler.model import GpuKey
    from scheduler.telemetry import GpuUsage

QUEUE = 256
"""The most pieces in the queue of a slow listener before it falls behind."""

_HEARTBEAT = b": still here\n\n"


class Listener:
    """`told` is the last event that was queued for it or that it does not need, `sent` the last one before the queue.

    `subject`: it gets only the events of this one. `view`: it keeps a view of the pool, and can reload it. `shown` are
    the jobs whose position it gets (`None`: the caller's own), `added` the new ones among them; `all_projects`: it gets
    the figures of every project, not only of the caller's; `seen` is the number of the latest figures that it was sent,
    `gpus` the latest use of GPUs.
    `identify` returns its caller again; `None`: no longer permitted. `since`: when it was last written to, or last
    read.
    """

    __slots__ = (
        "_chunked",
        "_pending",
        "_stream",
        "_writing",
        "added",
        "all_projects",
        "behind",
        "gpus",
        "id",
        "identify",
        "live",
        "reader",
        "seen",
        "sent",
        "shown",
        "since",
        "subject",
        "told",
        "view",
    )

    def __init__(
        self,
        stream: IOStream,
        identify: Callable[[], Awaitable[Caller | None]],
        *,
        id: str,
        chunked: bool,
        subject: str | None,
        view: bool,
        shown: tuple[str, ...] | None,
        all_projects: bool,
    ) -> None:
        self.id = id
        self.reader: Reader
        self.identify = identify
        self.subject = subject
        self.view = view
        self.shown = shown
        self.all_projects = all_projects
        self.seen = 0
        self.added: frozenset[str] = frozenset()
        self.gpus: Mapping[GpuKey, GpuUsage] = {}
        self.told = self.sent = 0
        self.live = False
        self.behind = False
        self.since = asyncio.get_running_loop().time()
        self._stream = stream
        self._chunked = chunked
        self._pending: list[bytes] = []
        self._writing: asyncio.Future[None] | None = None

    @property
    def closed(self) -> bool:
        return self._stream.closed()

    @property
    def blocked(self) -> bool:
        """Whether it has not yet read all that was written, since `since`."""
        return self._writing is not None

    def begin(self, event: int) -> None:
        """It has been sent everything up to this event."""
        self.told = self.sent = event
        self.behind = False

    def beat(self) -> None:
        self.add(_HEARTBEAT)
        self.flush()

    def tell(self, piece: bytes | None, event: int) -> bool:
        """Append an event to the queue, once; whether there is something new to `flush`. `None`: it does not need the
        event."""
        if event <= self.told or self.behind:
            return False
        self.told = event
        return piece is not None and self.add(piece)

    def add(self, piece: bytes) -> bool:
        """Append a piece to the queue; whether there is room."""
        if len(self._pending) >= QUEUE:
            self.behind = True
            self._pending.clear()
        else:
            self._pending.append(piece)
        return not self.behind

    def flush(self) -> None:
        """Write the queue, if everything written before has been read."""
        if self._pending and self._writing is None and not self._stream.closed():
            self.sent = self.told
            self._write(self._pending)
            self._pending = []

    async def send(self, pieces: Iterable[bytes]) -> None:
        """Write at once, and wait until it is read. Raises `StreamClosedError`."""
        while self._writing is not None:
            await asyncio.wait((self._writing,))
        self._write(pieces)
        if self._writing is not None:
            await asyncio.wait((self._writing,))
        if self._stream.closed():
            raise StreamClosedError

    def close(self, *, whole: bool = False) -> None:
        """End the stream; `whole`: in good order."""
        if whole and self._chunked and self._writing is None and not self._stream.closed():
            self._stream.write(b"0\r\n\r\n")
        self._stream.close()

    def _write(self, pieces: Iterable[bytes]) -> None:
        data = b"".join(pieces)
        if self._chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        writing = self._stream.write(data)
        self.since = asyncio.get_running_loop().time()
        if not writing.done():
            self._writing = asyncio.ensure_future(writing)
            self._writing.add_done_callback(self._written)

    def _written(self, writing: asyncio.Future[None]) -> None:
        self._writing = None
        self.since = asyncio.get_running_loop().time()
        if not writing.cancelled() and writing.exception() is None:
            self.flush()


class Reader:
    """All listeners of one caller, which may see the same; `changed` is the number of the latest change of what that
    is, or of the `counts` of jobs that were sent."""

    __slots__ = ("access", "changed", "counts", "listeners")

    def __init__(self, access: Access, changed: int) -> None:
        self.access = access
        self.changed = changed
        self.counts: object = None
        self.listeners: set[Listener] = set()
