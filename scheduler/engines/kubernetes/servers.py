"""The pods of sessions: a hub creates a notebook server unbound, and it is bound to the node of its session.

What must hold:
- A pod is bound only while its session has its seat, to the node of that seat, and where it asks for no more GPUs than
  the seat has; never two pods of one session at a time.
- When `unseat` returns, no pod of the session uses GPUs. One on a node that cannot be reached may: it is foreign then.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from scheduler.engines.base import Grant, Seat, ServerPod
from scheduler.engines.contract import visible
from scheduler.engines.kubernetes import manifests
from scheduler.engines.kubernetes.api import Api, ApiError
from scheduler.engines.kubernetes.inventory import ClusterInventory
from scheduler.engines.kubernetes.names import SCHEDULER, session_labels
from scheduler.engines.kubernetes.podviews import PodView
from scheduler.engines.kubernetes.retrying import with_retries
from scheduler.engines.kubernetes.settings import Kubernetes
from scheduler.model import SessionId

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Held:
    """What a session has. `chosen` is its pod that is or was to be bound, by uid. `changed` is set when its pods have
    changed; `closing`: nothing of it is bound any more."""

    node: str
    gpus: int
    chosen: str = ""
    closing: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class Servers:
    """Seats sessions. `run` does something beside."""

    def __init__(
        self,
        api: Api,
        inventory: ClusterInventory,
        settings: Kubernetes,
        run: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._api = api
        self._inventory = inventory
        self._settings = settings
        self._run = run
        self._held: dict[SessionId, Held] = {}

    def seated(self, pod: PodView) -> int:
        """How many GPUs of a session's pod are those of its seat."""
        held = self._held.get(pod.session or SessionId(""))
        return held.gpus if held is not None and self._is_server(pod) and held.node == pod.node else 0

    def seat(self, seat: Seat) -> Grant:
        """Bind the session's pod, which may be there or come later. Asked again, the same holds."""
        (worker,) = seat.workers
        if seat.session not in self._held:
            self._held[seat.session] = Held(worker.node, len(worker.gpus))
            self._inventory.tell(worker.node)
            self._bind_one(seat.session)
        return Grant(visible(seat.workers, seat.nodes), self._pod(seat.session, len(worker.gpus)))

    async def unseat(self, session: SessionId) -> None:
        """End the session's pods, and return when they use no GPUs."""
        held = self._held.setdefault(session, Held("", 0))
        held.closing = True
        asked: set[str] = set()
        refused: set[str] = set()
        while True:
            held.changed.clear()
            pods = [pod for pod in self._inventory.of_session(session) if self._is_server(pod)]
            for pod in pods:
                if pod.uid not in asked:
                    asked.add(pod.uid)
                    if not await self._delete(pod):
                        refused.add(pod.uid)
            if not any(self._uses(pod) for pod in pods if pod.uid not in refused):
                break
            await held.changed.wait()
        self._held.pop(session, None)
        if held.node:
            self._inventory.tell(held.node)

    def see_pod(self, before: PodView | None, after: PodView | None) -> None:
        """A session's pod has changed."""
        pod = after or before
        if pod is not None and pod.session is not None and (held := self._held.get(pod.session)) is not None:
            held.changed.set()
            self._bind_one(pod.session)

    def see_node(self) -> None:
        """A node has changed: it may be out of reach."""
        for held in self._held.values():
            held.changed.set()

    # -- inside ---------------------------------------------------------------------------------------------

    def _pod(self, session: SessionId, gpus: int) -> ServerPod | None:
        if not self._settings.notebooks_namespace:
            return None
        return ServerPod(
            namespace=self._settings.notebooks_namespace,
            labels=session_labels(self._settings.instance, session),
            scheduler=SCHEDULER,
            limits={self._settings.gpu_resource: str(gpus)},
            tolerations=tuple(self._settings.tolerations),
        )

    def _is_server(self, pod: PodView) -> bool:
        """Whether a hub has created it: others may write our labels on pods of their own, in their namespaces."""
        return pod.namespace == self._settings.notebooks_namespace

    def _uses(self, pod: PodView) -> bool:
        """Whether a pod uses its GPUs, as far as anybody can see."""
        if pod.node is None or pod.ended:
            return False
        node = self._inventory.node(pod.node)
        return not pod.deleting or (node is not None and node.ready)

    def _bind_one(self, session: SessionId) -> None:
        """Bind the pod of a session, where it has none on a node."""
        held = self._held[session]
        pods = [pod for pod in self._inventory.of_session(session) if self._is_server(pod) and not pod.ended]
        if held.closing or any(pod.node is not None or pod.uid == held.chosen for pod in pods):
            return
        pod = next((pod for pod in pods if not pod.deleting), None)
        if pod is not None:
            held.chosen = pod.uid
            self._run(self._bind(session, held, pod))

    async def _bind(self, session: SessionId, held: Held, pod: PodView) -> None:
        try:
            if pod.amounts.gpus > held.gpus:
                await self._tell(
                    pod, "FailedScheduling", f"It asks for {pod.amounts.gpus} GPUs; its session has {held.gpus}."
                )
                return
            path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding"
            body = manifests.binding(pod.namespace, pod.name, pod.uid, held.node)

            async def bind() -> None:
                if not held.closing:
                    await self._api.create(path, body)

            await with_retries(bind)
            await self._tell(pod, "Scheduled", f"Bound to node {held.node}.")
        except ApiError as error:
            if error.status not in (404, 409):  # it is gone, or bound
                log.error("The server of session %s could not be bound to %s: %s", session, held.node, error)
                await self._tell(pod, "FailedScheduling", f"It could not be bound to node {held.node}: {error}")

    async def _tell(self, pod: PodView, reason: str, message: str) -> None:
        """Say something where people look: among the events of the pod, which the hub's page of progress shows."""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        body = manifests.event(pod, reason, message, at, warning=reason != "Scheduled")
        try:
            await self._api.create(f"/api/v1/namespaces/{pod.namespace}/events", body)
        except ApiError as error:
            log.warning("Nobody could be told of pod %s (%s): %s", pod.name, message, error)

    async def _delete(self, pod: PodView) -> bool:
        """Have a pod ended; says whether that was allowed."""
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        try:
            await with_retries(lambda: self._api.delete(path, uid=pod.uid))
        except ApiError as error:
            log.error("The server %s of a session that has ended could not be ended: %s", pod.name, error)
            return False
        return True
