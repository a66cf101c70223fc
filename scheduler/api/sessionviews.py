"""From a session to what a caller sees of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from scheduler.api.convert import from_milli
from scheduler.api.views import worker_views
from scheduler.model import Node, NodeName, Session, held_by
from scheduler.schema import ServerPodView, SessionView

if TYPE_CHECKING:
    from scheduler.engines.base import Grant


def session_view(session: Session, nodes: Mapping[NodeName, Node], grant: Grant) -> SessionView:
    """`grant` is what the server must have."""
    pod = grant.pod
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
    )
