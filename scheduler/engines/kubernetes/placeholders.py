"""Pods that show cluster autoscalers what waiting jobs lack: one for each worker, marked as unschedulable.

The Cluster Autoscaler and Karpenter add nodes for pods whose condition `PodScheduled` is false with the reason
`Unschedulable`, whoever their scheduler is. A waiting job has no pods, so these stand for its workers: they request
what the workers will and run nothing.

What must hold:
- A placeholder is never bound. One that others have bound is deleted.
- A job's placeholders are deleted before its workers' pods are created: both would count against a quota.
- Placeholders of an earlier scheduler are kept where their job still lacks nodes, else deleted. A scheduler that stops
  deletes them, since no job would start on the new nodes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from scheduler.engines.backend import Autoscaling, LackingAttempt
from scheduler.engines.kubernetes import manifests
from scheduler.engines.kubernetes.affinity import Constraints, with_affinity
from scheduler.engines.kubernetes.api import Api, ApiError
from scheduler.engines.kubernetes.gang import gang_of
from scheduler.engines.kubernetes.inventory import ClusterInventory
from scheduler.engines.kubernetes.manifests import Manifest
from scheduler.engines.kubernetes.names import ATTEMPT, PLACEHOLDER, RANK, placeholder_prefix
from scheduler.engines.kubernetes.podviews import PodView
from scheduler.engines.kubernetes.settings import Kubernetes
from scheduler.model import JobId

log = logging.getLogger(__name__)

PATCH = "application/strategic-merge-patch+json"

AGAIN = 10.0
"""Seconds until a call that failed is tried again."""

ROOM = 60.0
"""Seconds without placeholders after a quota has refused a worker."""

CLOSING = 3.0
"""Seconds in which a scheduler that stops deletes its placeholders."""


class Placeholders(Autoscaling):
    """The placeholders of a namespace; `run` starts a background task."""

    def __init__(
        self,
        api: Api,
        inventory: ClusterInventory,
        settings: Kubernetes,
        run: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self.most = settings.autoscaling_pods
        self._api = api
        self._inventory = inventory
        self._settings = settings
        self._run = run
        self._path = f"/api/v1/namespaces/{settings.namespace}/pods"
        self._wanted: dict[str, tuple[Manifest, str]] = {}
        self._there: dict[str, PodView] = {}
        self._turn = asyncio.Lock()
        self._due = False
        self._timer: asyncio.TimerHandle | None = None
        self._room_until = 0.0

    def open(self) -> None:
        """Those of an earlier scheduler stay until it is known which jobs lack nodes."""
        self._there = {pod.name: pod for pod in self._inventory.placeholders()}
        if not self.most:
            self._settle_soon()

    async def close(self) -> None:
        self._wanted = {}
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING):
                await self._settle()
        if self._timer is not None:
            self._timer.cancel()

    def show(self, lacking: Sequence[LackingAttempt]) -> None:
        self._wanted = {
            pod["metadata"]["name"]: (pod, each.reason)
            for each in lacking
            for pod in placeholders(each, self._inventory, self._settings)
        }
        self._settle_soon()

    async def remove(self, job: JobId) -> None:
        """Delete the placeholders of a job that starts."""
        own = placeholder_prefix(job)
        if any(name.startswith(own) for name in (*self._wanted, *self._there)):
            self._wanted = {name: each for name, each in self._wanted.items() if not name.startswith(own)}
            await self._settle()

    def make_room(self) -> None:
        """Show nothing for a while: a quota has refused a worker, and placeholders count against it."""
        self._room_until = time.monotonic() + ROOM
        self._settle_soon()

    def see_pod(self, before: PodView | None, after: PodView | None) -> None:
        """Handle a change of a placeholder."""
        if after is not None:
            self._there[after.name] = after
        elif before is not None:
            self._there.pop(before.name, None)
        if after is None or _is_over(after):
            self._settle_soon()

    # -- inside ---------------------------------------------------------------------------------------------

    def _settle_soon(self) -> None:
        if not self._due:
            self._due = True
            self._run(self._settle())

    async def _settle(self) -> None:
        """Make the placeholders those that are wanted; what fails is tried again later."""
        async with self._turn:
            self._due = False
            room = self._room_until - time.monotonic()
            wanted = {} if room > 0 else self._wanted
            there = list(self._there.values())
            done = await asyncio.gather(
                *(self._delete(pod) for pod in there if pod.name not in wanted or _is_over(pod)), return_exceptions=True
            )
            done += await asyncio.gather(
                *(self._put(name, *each) for name, each in wanted.items()), return_exceptions=True
            )
        failed = next((each for each in done if isinstance(each, BaseException)), None)
        if isinstance(failed, ApiError):
            log.warning("Cluster autoscalers are not shown all jobs that lack nodes; trying again: %s", failed)
        elif failed is not None:
            raise failed
        if self._wanted and (failed or room > 0):
            self._timer = asyncio.get_running_loop().call_later(max(AGAIN, room), self._settle_soon)

    async def _delete(self, pod: PodView) -> None:
        await self._api.delete(f"{self._path}/{pod.name}", grace=0, uid=pod.uid)

    async def _put(self, name: str, manifest: Manifest, reason: str) -> None:
        """Create a placeholder that is missing, and say in it why its job waits."""
        there = self._there.get(name)
        if there is not None and (there.placeholder == reason or _is_over(there)):
            return
        try:
            if there is None:
                await self._api.create(self._path, manifest)
            body = {"status": {"conditions": [unschedulable(reason)]}}
            await self._api.call("PATCH", f"{self._path}/{name}/status", body, content=PATCH)
        except ApiError as error:
            if error.status not in (404, 409):  # it is being deleted, and its end is reported
                raise


def placeholders(lacking: LackingAttempt, inventory: ClusterInventory, settings: Kubernetes) -> list[Manifest]:
    """The placeholders of an attempt."""
    gang = gang_of(lacking.attempt.launch, inventory.part)
    constraints = Constraints.of(lacking.attempt, inventory, gpus=any(plan.gpus for plan in gang.plans))
    owners = manifests.owners_of(gang.container, settings)
    made = []
    for plan in gang.plans:
        pod = manifests.pod(plan, 1, gang.grace, gang.about, gang.container, "runai-agent", settings, owners)
        metadata = pod["metadata"]
        labels = {name: label for name, label in metadata["labels"].items() if name not in (ATTEMPT, RANK)}
        own = {"name": f"{placeholder_prefix(gang.job)}{plan.worker.rank}", "labels": {**labels, PLACEHOLDER: "true"}}
        made.append(with_affinity({**pod, "metadata": {**metadata, **own}}, constraints, settings))
    return made


def unschedulable(reason: str) -> Manifest:
    """The condition for which cluster autoscalers add nodes."""
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": reason,
        "lastTransitionTime": at,
    }


def _is_over(pod: PodView) -> bool:
    """Whether it does not wait any more, or not as it should."""
    return pod.node is not None or pod.ended or pod.deleting
