"""The view of a session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from scheduler.api.convert import from_milli
from scheduler.api.views import environment_totals, worker_views
from scheduler.controller.sessionline import likely_start
from scheduler.engines.base import Grant
from scheduler.model import ONE, Environment, Milli, Session, SessionState, held_by
from scheduler.schema import ServerPodView, SessionView

if TYPE_CHECKING:
    from scheduler.controller.book import Book


def line_views(line: Sequence[Session], book: Book) -> list[tuple[Session, SessionView]]:
    """The sessions that wait in line, with their positions and likely starts."""
    free = round(environment_totals(book)[Environment.BUILD].free * ONE)
    ends = list(_ends(book))
    amounts = [session.request.shape.gpus for session in line]
    found = []
    for position, session in enumerate(line, 1):
        start = likely_start(amounts[:position], free, ends)
        view = session_view(session, book, Grant({}))
        found.append((session, view.model_copy(update={"position": position, "estimated_start": start})))
    return found


def _ends(book: Book) -> Iterator[tuple[float, Milli]]:
    """The known ends of sessions, with the GPUs that they hold."""
    longest = book.pool.settings.session_max_duration
    for session in book.sessions.values():
        warning = book.stop_warnings.get(session.id)
        if warning is not None:
            yield warning.stops_at, held_by(session.promised)
        elif longest and session.started is not None:
            yield session.started + longest, held_by(session.promised)


def session_view(session: Session, book: Book, grant: Grant, idle_since: float | None = None) -> SessionView:
    """`grant` is what the server must have."""
    pod, nodes = grant.pod, {node.name: node for node in book.nodes}
    warning, promised = book.stop_warnings.get(session.id), session.promised
    return SessionView(
        id=session.id,
        user=session.user,
        server=session.server,
        state=session.state,
        reason=session.reason,
        gpus=from_milli(session.request.shape.gpus if session.state is SessionState.REQUESTED else held_by(promised)),
        workers=worker_views(session.placement),
        env=dict(grant.env),
        pod=pod
        and ServerPodView(
            namespace=pod.namespace,
            labels=dict(pod.labels),
            scheduler=pod.scheduler,
            limits=dict(pod.limits),
            tolerations=[dict(each) for each in pod.tolerations],
        ),
        declared=any(nodes[worker.node].declared for worker in promised if worker.node in nodes),
        requested=session.requested,
        started=session.started,
        idle_since=idle_since,
        memory_warning=book.memory_warnings.get(session.id, ""),
        stops_at=warning and warning.stops_at,
        stops_because=warning and ("max_duration" if warning.longest else "idle"),
        takes_back=warning is not None and warning.takes_back,
        lends_at=warning.lends_at if warning and not session.claim else None,
        lent_since=session.placed if session.claim else None,
        lent=worker_views(session.claim),
        recalled_since=session.recalled,
        taken_since=session.placed if session.taken else None,
    )
