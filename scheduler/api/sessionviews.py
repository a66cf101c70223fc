"""The view of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.api.convert import from_milli
from scheduler.api.views import worker_views
from scheduler.model import Session, held_by
from scheduler.schema import ServerPodView, SessionView

if TYPE_CHECKING:
    from scheduler.controller.book import Book
    from scheduler.engines.base import Grant


def session_view(session: Session, book: Book, grant: Grant, idle_since: float | None = None) -> SessionView:
    """`grant` is what the server must have."""
    pod, nodes = grant.pod, {node.name: node for node in book.nodes}
    warning = book.stop_warnings.get(session.id)
    return SessionView(
        id=session.id,
        user=session.user,
        server=session.server,
        state=session.state,
        reason=session.reason,
        gpus=from_milli(held_by(session.placement) or session.request.shape.gpus),
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
        declared=any(nodes[worker.node].declared for worker in session.placement if worker.node in nodes),
        requested=session.requested,
        started=session.started,
        idle_since=idle_since,
        stops_at=warning and warning.stops_at,
        stops_because=warning and ("max_duration" if warning.longest else "idle"),
    )
