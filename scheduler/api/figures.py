"""The current figures of the pool for listeners, made once for all who may see the same.

They are not events and are not stored: they belong to the latest plan. Each piece has the number of its latest change,
and a listener remembers only the latest number that it was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from scheduler.api import caller, pausing, redaction, views
from scheduler.api.convert import start_range
from scheduler.api.messages import mentioned, written
from scheduler.api.projects import ProjectViews
from scheduler.model import Environment, Job, JobId, JobState, ProjectName
from scheduler.schema import Event, PoolFigures, WaitingView, Wire
from scheduler.schema.events import MOST_SHOWN

if TYPE_CHECKING:
    from scheduler.api.access import Access
    from scheduler.api.listener import Listener
    from scheduler.api.slices import Slices
    from scheduler.controller import Controller
    from scheduler.controller.book import Book

AT_LEAST = 30.0
"""An estimated start has changed when it differs by this many seconds …"""

PART = 0.1
"""… and by this part of the remaining time."""

_HEAD, _REST = written(Event(id=0, at=0.0, kind="view.figures", subject="", data={})).split(b'"id":0,"at":0.0')
_TOLD = b'%b"id":%%d,"at":%%.3f%b' % (_HEAD, _REST.replace(b'"data":{}', b'"data":{%b}'))
"""An event of figures: formatted for each listener, so a model would cost too much."""


class Piece:
    """Something that is sent when it has changed: its latest value, and the texts made of it.

    `reworded` is the number of the latest change of a waiting job's reason; `source` is what a project's figures were
    computed from.
    """

    __slots__ = ("changed", "reworded", "source", "texts", "value")

    def __init__(self) -> None:
        self.changed = self.reworded = 0
        self.source: tuple[object, ...] = ()
        self.value: Any = None
        self.texts: dict[Hashable, bytes] = {}

    def change(self, number: int, value: object) -> None:
        self.changed, self.value = number, value
        self.texts.clear()


class Figures:
    """`number` is that of the latest change."""

    def __init__(self, controller: Controller, clock: Callable[[], float]) -> None:
        self._controller = controller
        self._clock = clock
        self.number = 0
        self._waiting: dict[str, Piece] = {}
        self._projects: dict[tuple[ProjectName, bool], Piece] = {}
        self._pool = Piece()
        self._project_views: ProjectViews | None = None
        self._fresh: set[Hashable] = set()

    def next_number(self) -> int:
        self.number += 1
        return self.number

    def renew(self) -> None:
        """Compute the figures again."""
        self._project_views = None
        self._fresh.clear()

    def forget(self, job_id: JobId) -> None:
        """The job no longer waits, or has changed."""
        self._waiting.pop(job_id, None)

    # -- for a listener -----------------------------------------------------------------------------------

    async def prepare(self, listener: Listener, slices: Slices) -> None:
        """Make what a listener shows, in slices: hundreds of projects and jobs may have changed."""
        if listener.view:
            access = listener.reader.access
            for name in list(self._shown_projects(listener)):
                self._project(name, access)
                if slices.over:
                    await slices.rest()
            for _ in self._new_rows(listener):
                if slices.over:
                    await slices.rest()

    def view(self, listener: Listener) -> Iterator[bytes]:
        """The changes of what a listener shows, as one message."""
        access, seen = listener.reader.access, listener.seen
        parts = []
        book, reader = self._controller.book, listener.reader
        if reader.counts != (counts := caller.counts(access, book)):
            reader.counts, reader.changed = counts, self.next_number()
        if reader.changed > seen:
            parts.append(b'"me":' + caller.me(access, book).model_dump_json().encode())
        if (pool := self._pool_figures()).changed > seen:
            parts.append(b'"pool":' + pool.texts[None])
        pieces = [self._project(name, access) for name in self._shown_projects(listener)]
        if projects := [piece.texts[None] for piece in pieces if piece.changed > seen]:
            parts.append(b'"projects":[' + b",".join(projects) + b"]")
        if rows := list(self._new_rows(listener)):
            parts.append(b'"jobs":[' + b",".join(rows) + b"]")
        listener.seen, listener.added = self.number, frozenset()
        if parts:
            yield _TOLD % (listener.told, self._clock(), b",".join(parts))

    def reasons(self, listener: Listener) -> Iterator[bytes]:
        """What jobs wait for, each as a separate event with the job's view: for listeners that keep no view of the
        pool."""
        for job, piece in self._rows(listener):
            if piece.changed > listener.seen:
                text = self._reason(job, piece, listener.reader.access)
                told = listener.told  # a listener that resumes after it misses nothing
                yield b"id: %d\n" % told + text.replace(b'{"id":0,', b'{"id":%d,' % told, 1)
        listener.seen = self.number

    def _new_rows(self, listener: Listener) -> Iterator[bytes]:
        """The texts of the rows that a listener with a view has not been sent."""
        for job, piece in self._rows(listener):
            added = job.id in listener.added
            if added or piece.changed > listener.seen:
                whole = added or piece.reworded > listener.seen
                yield self._row(job, piece, listener.reader.access, whole=whole)

    def _rows(self, listener: Listener) -> Iterator[tuple[Job, Piece]]:
        """The waiting jobs that a listener shows, and that it may see."""
        book, access = self._controller.book, listener.reader.access
        for job in self._shown(listener, book):
            if job.state is JobState.QUEUED and access.sees_job(job):
                yield job, self._expects(job, book)

    def _shown(self, listener: Listener, book: Book) -> Iterator[Job]:
        if listener.subject is not None or listener.shown is not None:
            ids = listener.shown if listener.subject is None else (listener.subject,)
            found = (book.jobs.get(JobId(id)) for id in ids or ())
            return (job for job in found if job is not None)
        mine = book.jobs_of(listener.reader.access.caller.name)
        return iter(list(mine.values())[-MOST_SHOWN:])

    # -- pieces -------------------------------------------------------------------------------------------

    def _expects(self, job: Job, book: Book) -> Piece:
        """The prospects of a waiting job."""
        piece = self._waiting.setdefault(job.id, Piece())
        expected = views.waits(job, book)
        reason, position, start, latest = job.reason, None, None, None
        if expected is not None:
            reason, position, start = expected.reason, expected.position, expected.estimated_start
            latest = expected.start_range[1] if expected.start_range else None
        told = reason, position, pausing.newcomer(job, book) is not None
        before, now = piece.value, self._clock()
        moved = before is None or _moved(before[3], start, now) or _moved(before[4], latest, now)
        if moved or before[:3] != told:
            piece.change(self.next_number(), (*told, start, latest))
            if before is None or before[0] != reason:
                piece.reworded = piece.changed
        return piece

    def _row(self, job: Job, piece: Piece, access: Access, *, whole: bool) -> bytes:
        """`whole`: with its reason, which mostly stays the same when its position changes."""
        book = self._controller.book
        alike = (whole, access.owns(job), redaction.visible(mentioned(job, book), book, access))
        if alike not in piece.texts:
            expected = views.waits(job, book)
            view = WaitingView(
                id=job.id,
                reason=views.reason_of(job, expected, book, access),
                notice=pausing.notice(job, expected, book, access),
                position=expected.position if expected else None,
                estimated_start=expected.estimated_start if expected else None,
                **start_range(expected),
            )
            piece.texts[alike] = view.model_dump_json(exclude=None if whole else {"reason"}).encode()
        return piece.texts[alike]

    def _reason(self, job: Job, piece: Piece, access: Access) -> bytes:
        book = self._controller.book
        alike = ("event", access.owns(job), redaction.visible(mentioned(job, book), book, access))
        if alike not in piece.texts:
            view = views.job_view(job, book, access)
            data = view.model_dump(
                mode="json",
                include={"state", "reason", "notice", "position", "estimated_start", "earliest_start", "latest_start"},
            )
            event = Event(id=0, at=self._clock(), kind="job.reason", subject=job.id, data=data, job=view)
            piece.texts[alike] = written(event)
        return piece.texts[alike]

    def _shown_projects(self, listener: Listener) -> Iterable[ProjectName]:
        access = listener.reader.access
        return self._views_of_projects().projects if listener.all_projects else access.projects

    def _project(self, name: ProjectName, access: Access) -> Piece:
        named = access.sees_project(name)
        piece = self._projects.setdefault((name, named), Piece())
        if (name, named) not in self._fresh:
            self._fresh.add((name, named))
            counts = self._views_of_projects()
            project = counts.projects.get(name)
            if project is not None and piece.source != (source := counts.source(project)):
                piece.source = source
                self._put(piece, counts.view(project, named=named))
        return piece

    def _pool_figures(self) -> Piece:
        if None not in self._fresh:
            self._fresh.add(None)
            book = self._controller.book
            totals = views.environment_totals(book)
            build, train = totals[Environment.BUILD], totals[Environment.TRAIN]
            self._put(self._pool, PoolFigures(build=build, train=train, waiting=book.states.get(JobState.QUEUED, 0)))
        return self._pool

    def _views_of_projects(self) -> ProjectViews:
        if self._project_views is None:
            self._project_views = ProjectViews(self._controller.book, self._clock())
        return self._project_views

    def _put(self, piece: Piece, view: Wire) -> None:
        value = view.model_dump_json(exclude={"recent_use"})  # which changes all the time
        if piece.value != value:
            piece.change(self.next_number(), value)
            piece.texts[None] = view.model_dump_json().encode()


def _moved(told: float | None, start: float | None, now: float) -> bool:
    if told is None or start is None:
        return told is not start
    return abs(start - told) > max(AT_LEAST, PART * (start - now))
