"""The pods of attempts that another scheduler of the cluster places: created, watched, and withdrawn.

What must hold:
- An attempt is reported as placed once each of its pods has a node; it is launched on these pods and no others.
- An attempt that is withdrawn has no pods and no object of its gang. Where its pods are ended by others before it is
  launched, all of them are created again.
- A pod of an attempt that was delegated before a restart stays in line until that is delegated again or withdrawn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

from scheduler.engines.agents.tokens import Worker
from scheduler.engines.backend import Delegation
from scheduler.engines.base import PlacementStatus, UnplacedAttempt
from scheduler.engines.kubernetes.api import Api, ApiError
from scheduler.engines.kubernetes.externalschedulers import ExternalScheduler
from scheduler.engines.kubernetes.gang import Gang, gang_of
from scheduler.engines.kubernetes.inventory import ClusterInventory
from scheduler.engines.kubernetes.launching import Launching, within
from scheduler.engines.kubernetes.mirror import Mirror
from scheduler.engines.kubernetes.names import attempt_name, pod_name
from scheduler.engines.kubernetes.podstates import short
from scheduler.engines.kubernetes.podviews import PodView
from scheduler.engines.kubernetes.retrying import retry_delays, with_retries
from scheduler.errors import Invalid
from scheduler.model import AttemptKey, JobId, NodeName

log = logging.getLogger(__name__)

Key = tuple[JobId, int]


@dataclass(slots=True)
class Waiting:
    """A gang that waits for its nodes. `uids` are those of its pods, while all of them are there; `gone` those of pods
    that have ended. `pauses` are those before its pods are created again."""

    wanted: UnplacedAttempt
    gang: Gang
    uids: Collection[str] = ()
    gone: set[str] = field(default_factory=set)
    pauses: Iterator[float] = field(default_factory=retry_delays)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class ClusterDelegation(Delegation):
    """`run` starts a background task."""

    def __init__(
        self,
        api: Api,
        inventory: ClusterInventory,
        launching: Launching,
        external: ExternalScheduler,
        namespace: str,
        run: Callable[[Coroutine[Any, Any, Any]], None],
    ) -> None:
        self.scheduler = external.name
        self._report: Callable[[PlacementStatus], None] = lambda status: None
        self._api = api
        self._inventory = inventory
        self._launching = launching
        self._external = external
        self._namespace = namespace
        self._run = run
        self._waiting: dict[Key, Waiting] = {}
        self._kept: set[Key] = set()
        self._gangs: Mirror[tuple[str, str]] | None = None
        self._path = ""

    async def open(self) -> None:
        """Raises `Invalid` where the cluster does not have the other scheduler, `ApiError` where it does not answer."""
        external = self._external
        try:
            found = await self._api.get(f"/apis/{external.group}")
        except ApiError as error:
            if error.status != 404:
                raise
            raise Invalid(
                f"This cluster does not have {external.name}; install it, or set c.Kubernetes.placement to 'runai'.",
                field="placement",
            ) from error
        version = external.version or found["preferredVersion"]["version"]
        self._path = f"/apis/{external.group}/{version}/namespaces/{self._namespace}/{external.plural}"
        if external.read:
            self._gangs = Mirror(
                self._api, self._path, lambda it: (it["metadata"]["name"], external.why(it)), self._see
            )
            await self._gangs.open()

    async def close(self) -> None:
        if self._gangs is not None:
            await self._gangs.close()

    def watch(self, report: Callable[[PlacementStatus], None], delegated: Collection[AttemptKey]) -> None:
        self._report = report
        self._kept = set(delegated)

    def awaits(self, worker: Worker) -> bool:
        """Whether a worker's attempt is, or may have been, delegated, and not launched."""
        key = (worker.job, worker.attempt)
        return key in self._waiting or key in self._kept

    async def delegate(self, wanted: UnplacedAttempt) -> None:
        key = (wanted.launch.job, wanted.launch.attempt)
        before = self._waiting.get(key)
        if before is not None and before.gang.stopped.is_set():
            async with before.turn:  # until it is withdrawn
                pass
        if key not in self._waiting:
            waiting = self._waiting[key] = Waiting(wanted, gang_of(wanted.launch, self._inventory.part))
            self._kept.discard(key)
            self._run(self._create(key, waiting))

    async def withdraw(self, job: JobId, attempt: int) -> None:
        key = (job, attempt)
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.uids = ()
            waiting.gang.stopped.set()
            async with waiting.turn:  # until it has stopped creating pods
                await self._delete(key)
                del self._waiting[key]
        elif key in self._kept:
            await self._delete(key)
            self._kept.discard(key)

    def launched(self, job: JobId, attempt: int) -> None:
        """The engine has accepted the attempt: its pods are those of its workers."""
        self._kept.discard((job, attempt))
        waiting = self._waiting.pop((job, attempt), None)
        if waiting is not None:
            waiting.gang.stopped.set()

    async def clear(self, job: JobId, attempt: int) -> None:
        """Delete the object of a gang whose workers have ended."""
        try:
            await with_retries(partial(self._api.delete, f"{self._path}/{attempt_name(job, attempt)}"))
        except ApiError as error:
            log.error("%s %s could not be deleted: %s", self._external.plural, attempt_name(job, attempt), error)

    def see_pod(self, before: PodView | None, after: PodView | None) -> None:
        """Handle a change of a pod that waits."""
        pod = after or before
        assert pod is not None
        assert pod.worker is not None
        key = (pod.worker.job, pod.worker.attempt)
        waiting = self._waiting.get(key)
        if waiting is None:
            return
        if after is None or after.ended or after.deleting:
            waiting.gone.add(pod.uid)
            if pod.uid in waiting.uids:
                waiting.uids = ()
                self._tell(key, "" if pod.status is None else pod.status.reason)
                self._run(self._create(key, waiting, anew=True))
        elif waiting.uids:
            self._look(key, waiting)

    # -- inside ---------------------------------------------------------------------------------------------

    async def _create(self, key: Key, waiting: Waiting, *, anew: bool = False) -> None:
        """Create the pods of a gang; `anew`: after a pause, and after what is left of earlier ones is deleted."""
        async with waiting.turn:
            for pause in waiting.pauses if anew else chain((0.0,), waiting.pauses):
                if await within(pause, waiting.gang.stopped):
                    return
                if anew:
                    await self._delete(key)
                try:
                    uids = await self._launching.offer(waiting.gang, waiting.wanted, self._path)
                except ApiError as error:
                    anew = error.status == 409
                    self._tell(key, f"its pods cannot be created yet: {error}")
                else:
                    anew = not waiting.gone.isdisjoint(uids)
                    if not anew:
                        break
        waiting.uids = uids
        self._look(key, waiting)

    async def _delete(self, key: Key) -> None:
        """Delete the pods of an attempt, and the object of its gang."""
        await self._launching.withdraw([pod_name(worker) for worker in self._workers(key)])
        await self.clear(*key)

    def _workers(self, key: Key) -> set[Worker]:
        """The workers that have, or may have, a pod."""
        found = {pod.worker for pod in self._inventory.ours() if pod.worker is not None}
        there = {worker for worker in found if (worker.job, worker.attempt) == key}
        waiting = self._waiting.get(key)
        return there if waiting is None else there | {plan.worker for plan in waiting.gang.plans}

    def _see(self, before: tuple[str, str] | None, after: tuple[str, str] | None) -> None:
        """Handle a change of the object of a gang."""
        gang = after or before
        for key, waiting in self._waiting.items():
            if gang is not None and attempt_name(*key) == gang[0] and waiting.uids:
                self._look(key, waiting)

    def _look(self, key: Key, waiting: Waiting) -> None:
        """Report the nodes of a gang, or why it waits for them."""
        if self._waiting.get(key) is not waiting:
            return
        pods = [self._launching.pod(plan.worker) for plan in waiting.gang.plans]
        nodes = tuple(NodeName(pod.node) for pod in pods if pod is not None and pod.node is not None)
        if len(nodes) == len(pods):
            self._report(PlacementStatus(*key, nodes=nodes))
            return
        said = (pod.status.reason for pod in pods if pod is not None and pod.node is None and pod.status is not None)
        self._tell(key, next(filter(None, said), "") or self._why(key))

    def _why(self, key: Key) -> str:
        known = None if self._gangs is None else self._gangs.items.get(f"{self._namespace}/{attempt_name(*key)}")
        return "" if known is None else known[1]

    def _tell(self, key: Key, reason: str) -> None:
        sentence = f"{self._external.name}: {short(reason)}" if reason else ""
        self._report(PlacementStatus(*key, reason=sentence))
