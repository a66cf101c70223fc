"""The pods of sessions: a hub creates a notebook server's pod unbound, and it is bound to its session's node.

What must hold:
- A pod is bound only while its session has its seat, to the node of that seat, and only if it requests no more GPUs
  than the seat has; never two pods of a session at a time.
- When `unseat` returns, no pod of the session uses GPUs, except on an unreachable node: it is foreign then.
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
from scheduler.engines.kubernetes.podviews import WHOLE, Amounts, Part, PodView
from scheduler.engines.kubernetes.retrying import with_retries
from scheduler.engines.kubernetes.settings import Kubernetes
from scheduler.model import SessionId

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Held:
    """The GPUs of a session, or `part` of one. `chosen` is the uid of the pod that is or will be bound. `changed` is
    set when its pods have changed; `closing`: no pod of it is bound any more."""

    node: str
    gpus: int
    part: Part = WHOLE
    chosen: str = ""
    closing: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def amounts(self) -> Amounts:
        return Amounts(parts=1) if self.part.resource else Amounts(self.gpus)


class Servers:
    """Seats sessions. `run` starts a background task."""

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

    def seated(self, pod: PodView) -> Amounts:
        """The GPUs of a session's pod that belong to its seat."""
        held = self._held.get(pod.session or SessionId(""))
        return held.amounts if held is not None and self._is_server(pod) and held.node == pod.node else Amounts()

    def seat(self, seat: Seat) -> Grant:
        """Bind the session's pod, now or when it is created. Idempotent."""
        (worker,) = seat.workers
        if seat.session not in self._held:
            self._held[seat.session] = Held(worker.node, len(worker.gpus), self._inventory.part(worker))
            self._inventory.tell(worker.node)
            self._bind_one(seat.session)
        held = self._held[seat.session]
        return Grant({**visible(seat.workers, seat.nodes), **held.part.variables}, self._pod(seat.session, held))

    async def unseat(self, session: SessionId) -> None:
        """End the session's pods; returns when they use no GPUs."""
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
        """Handle a change of a session's pod."""
        pod = after or before
        if pod is not None and pod.session is not None and (held := self._held.get(pod.session)) is not None:
            held.changed.set()
            self._bind_one(pod.session)

    def see_node(self) -> None:
        """Handle a change of a node: it may be unreachable."""
        for held in self._held.values():
            held.changed.set()

    # -- inside ---------------------------------------------------------------------------------------------

    def _pod(self, session: SessionId, held: Held) -> ServerPod | None:
        if not self._settings.notebooks_namespace:
            return None
        return ServerPod(
            namespace=self._settings.notebooks_namespace,
            labels=session_labels(self._settings.instance, session),
            scheduler=SCHEDULER,
            limits={held.part.resource: "1"} if held.part.resource else {self._settings.gpu_resource: str(held.gpus)},
            tolerations=tuple(self._settings.tolerations),
        )

    def _is_server(self, pod: PodView) -> bool:
        """Whether a hub has created the pod: others may set our labels on pods in their own namespaces."""
        return pod.namespace == self._settings.notebooks_namespace

    def _uses(self, pod: PodView) -> bool:
        """Whether a pod uses its GPUs, as far as is known."""
        if pod.node is None or pod.ended:
            return False
        node = self._inventory.node(pod.node)
        return not pod.deleting or (node is not None and node.ready)

    def _bind_one(self, session: SessionId) -> None:
        """Bind the pod of a session that has none on a node."""
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
            if pod.amounts.gpus > held.amounts.gpus:
                await self._tell(
                    pod,
                    "FailedScheduling",
                    f"It asks for {pod.amounts.gpus} GPUs; its session has {held.amounts.gpus}.",
                )
                return
            if pod.amounts.parts > held.amounts.parts:
                parts = f"one {held.part.resource}" if held.part.resource else "whole GPUs"
                await self._tell(pod, "FailedScheduling", f"It asks for parts of GPUs; its session has {parts}.")
                return
            path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding"
            body = manifests.binding(pod.namespace, pod.name, pod.uid, held.node)

            async def bind() -> None:
                if not held.closing:
                    await self._api.create(path, body)

            await with_retries(bind)
            await self._tell(pod, "Scheduled", f"Bound to node {held.node}.")
        except ApiError as error:
            if error.status not in (404, 409):  # gone, or already bound
                log.error("The server of session %s could not be bound to %s: %s", session, held.node, error)
                await self._tell(pod, "FailedScheduling", f"It could not be bound to node {held.node}: {error}")

    async def _tell(self, pod: PodView, reason: str, message: str) -> None:
        """Write an event of the pod, which the hub's progress page shows."""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        body = manifests.event(pod, reason, message, at, warning=reason != "Scheduled")
        try:
            await self._api.create(f"/api/v1/namespaces/{pod.namespace}/events", body)
        except ApiError as error:
            log.warning("Nobody could be told of pod %s (%s): %s", pod.name, message, error)

    async def _delete(self, pod: PodView) -> bool:
        """Delete a pod; whether that was allowed."""
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        try:
            await with_retries(lambda: self._api.delete(path, uid=pod.uid))
        except ApiError as error:
            log.error("The server %s of a session that has ended could not be ended: %s", pod.name, error)
            return False
        return True
