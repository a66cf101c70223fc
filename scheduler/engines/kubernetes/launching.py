"""The calls that create and end pods; each can be repeated after a restart or an error."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any

from scheduler.engines.agents.agents import Agents
from scheduler.engines.agents.tokens import Worker
from scheduler.engines.base import UnplacedAttempt, WorkerState
from scheduler.engines.kubernetes import manifests
from scheduler.engines.kubernetes.affinity import Constraints, with_affinity
from scheduler.engines.kubernetes.api import CONNECTIONS, Api, ApiError
from scheduler.engines.kubernetes.externalschedulers import ExternalScheduler
from scheduler.engines.kubernetes.gang import Gang
from scheduler.engines.kubernetes.inventory import ClusterInventory
from scheduler.engines.kubernetes.manifests import Manifest, PodPlan
from scheduler.engines.kubernetes.names import ATTEMPT, INSTANCE, JOB, PROJECT, RANK, attempt_name, pod_name
from scheduler.engines.kubernetes.podstates import ENDED
from scheduler.engines.kubernetes.podviews import PodView
from scheduler.engines.kubernetes.retrying import retry_delays, with_retries
from scheduler.engines.kubernetes.settings import Kubernetes
from scheduler.model import ProjectName

log = logging.getLogger(__name__)

AGENT_SEEN = 60.0
"""Seconds for which the agent's ConfigMap is assumed to exist."""

Waiting = Callable[[Worker, WorkerState, str], None]


class Launching:
    """Creates, binds, ends and deletes the pods of one namespace."""

    def __init__(
        self,
        api: Api,
        inventory: ClusterInventory,
        agents: Agents,
        settings: Kubernetes,
        external: ExternalScheduler | None,
    ) -> None:
        self._api = api
        self._external = external
        self._inventory = inventory
        self._agents = agents
        self._settings = settings
        self._agent: Manifest = {}
        self._agent_seen = -math.inf
        self._turns = asyncio.Semaphore(CONNECTIONS)  # more would only queue, and none be bound before all have pods
        self._core = f"/api/v1/namespaces/{settings.namespace}"

    async def install(self, agent: bytes) -> None:
        """Create the agent's ConfigMap. Raises `ApiError`."""
        self._agent = manifests.agent_config_map(agent, self._settings)
        await self._ensure_agent()

    async def _ensure_agent(self) -> None:
        """Create the agent's ConfigMap again if its namespace was recreated. Raises `ApiError`."""
        now = time.monotonic()
        if now - self._agent_seen >= AGENT_SEEN:
            self._agent_seen = now  # other starts need not wait: the kubelet does
            try:
                await self._create(f"{self._core}/configmaps", self._agent)
            except ApiError:
                self._agent_seen = -math.inf
                raise

    def pod(self, worker: Worker) -> PodView | None:
        """A worker's pod, if known."""
        found = self._inventory.pod(self._settings.namespace, pod_name(worker))
        return found if found is not None and found.worker == worker else None

    # -- starting -------------------------------------------------------------------------------------------

    async def start(self, gang: Gang, waiting: Waiting) -> ApiError | None:
        """Create the missing pods of a gang and bind them; returns the call that was refused, if one was.

        Returns early if the gang is stopped.
        """
        for pause in retry_delays():
            try:
                async with self._turns:
                    if await self._try_start(gang):
                        gang.bound = True
                return None
            except ApiError as error:
                if not error.passing:
                    self._agent_seen = -math.inf  # the namespace may have been recreated by then
                    return error
                for plan in gang.plans:
                    waiting(plan.worker, WorkerState.PENDING, f"its pod cannot be created yet: {error}")
                if await within(pause, gang.stopped):
                    return None
        raise AssertionError

    async def _try_start(self, gang: Gang) -> bool:
        """Create and bind the pods; whether all are bound. Raises `ApiError`."""
        plans = [plan for plan in gang.plans if self._is_to_start(plan.worker)]
        if not plans or gang.stopped.is_set():
            return not plans
        if self._external is not None:
            raise ApiError(404, "NotFound", "its pod was deleted after it was placed")
        for plan in plans:
            node = self._inventory.node(plan.node)
            if node is None:
                raise ApiError(409, "Conflict", f"node {plan.node} is gone")
        await self._ensure_agent()
        first = gang.plans[0]
        uid, new = await self._pod_of(first, gang, manifests.owners_of(gang.container, self._settings))
        owners = [manifests.owner(pod_name(first.worker), uid)]
        uids = [uid] if first in plans else []
        uids += [uid for uid, _ in await _all(self._pod_of(plan, gang, owners) for plan in plans if plan is not first)]
        await self._create_belongings(self._belongings(gang, owners), new=new)
        if gang.stopped.is_set():
            return False
        await _all(self._bind(plan, uid) for plan, uid in zip(plans, uids, strict=True))
        return True

    async def offer(self, gang: Gang, wanted: UnplacedAttempt, gangs: str) -> list[str]:
        """Create the pods of a gang, and its object at the path `gangs`, for the scheduler that places them; returns
        the UIDs of the pods. Raises `ApiError`."""
        external, first, size = self._external, gang.plans[0], len(gang.plans)
        assert external is not None
        name = attempt_name(gang.job, gang.attempt)
        project = ProjectName(gang.about[PROJECT])
        constraints = Constraints.of(wanted, self._inventory, gpus=any(plan.gpus for plan in gang.plans))

        def finish(pod: Manifest) -> Manifest:
            return external.mark(with_affinity(pod, constraints, self._settings), name, project, size)

        await self._ensure_agent()
        uid, new = await self._pod_of(first, gang, finish=finish)
        others = await _all(self._pod_of(plan, gang, finish=finish) for plan in gang.plans[1:])
        owners = [manifests.owner(pod_name(first.worker), uid)]
        belongings = self._belongings(gang, owners)
        if (own := external.gang(name, project, size, belongings[0][1]["metadata"])) is not None:
            belongings.append((gangs, own))
        await self._create_belongings(belongings, new=new)
        return [uid, *(each for each, _ in others)]

    def _belongings(self, gang: Gang, owners: Sequence[Manifest]) -> list[tuple[str, Manifest]]:
        """The other objects of an attempt, with the paths of their collections."""
        job, attempt, size = gang.job, gang.attempt, len(gang.plans)
        tokens = self._agents.tokens(job, attempt, size)
        found = [(f"{self._core}/secrets", manifests.secret(job, attempt, tokens, owners, self._settings))]
        if size > 1:
            found.append((f"{self._core}/services", manifests.service(job, attempt, owners, self._settings)))
        return found

    async def _create_belongings(self, belongings: Sequence[tuple[str, Manifest]], *, new: bool) -> None:
        """Create an attempt's objects. Raises `ApiError`."""
        made = await _all(self._create(path, manifest) for path, manifest in belongings)
        if None in made and new:
            # The attempt's objects are owned by an earlier pod and are deleted with it.
            raise ApiError(404, "NotFound", "its pod was deleted")

    def _is_to_start(self, worker: Worker) -> bool:
        """Whether it has not begun: its agent has not connected, and its pod is not bound."""
        live, pod = self._agents.live(worker), self.pod(worker)
        return live is not None and live.agent is None and (pod is None or pod.node is None)

    async def _pod_of(
        self,
        plan: PodPlan,
        gang: Gang,
        owners: Sequence[Manifest] = (),
        finish: Callable[[Manifest], Manifest] | None = None,
    ) -> tuple[str, bool]:
        """The uid of a worker's pod, created if missing, and whether it is new. `finish` makes it a pod for another
        scheduler."""
        known = self.pod(plan.worker)
        if known is not None and not (finish and (known.deleting or known.ended)):
            return known.uid, False
        if finish is None and self._agents.live(plan.worker) is None:
            raise ApiError(404, "NotFound", "the pod of a worker that has ended is gone")
        manifest = manifests.pod(
            plan,
            len(gang.plans),
            gang.grace,
            gang.about,
            gang.container,
            self._agent["metadata"]["name"],
            self._settings,
            owners,
        )
        made = await self._create(f"{self._core}/pods", finish(manifest) if finish else manifest)
        if made is None:
            made = await self._api.get(f"{self._core}/pods/{pod_name(plan.worker)}")
            if finish and ("deletionTimestamp" in made["metadata"] or made["status"]["phase"] in ENDED):
                raise ApiError(409, "Conflict", f"the earlier pod {pod_name(plan.worker)} is still there")
            if not _is_of(made, plan.worker, self._settings.instance):
                raise ApiError(500, "Conflict", f"a pod {pod_name(plan.worker)} of somebody else is there")
            return made["metadata"]["uid"], False
        return made["metadata"]["uid"], True

    async def _bind(self, plan: PodPlan, uid: str) -> None:
        name = pod_name(plan.worker)
        try:
            body = manifests.binding(self._settings.namespace, name, uid, plan.node)
            await self._api.create(f"{self._core}/pods/{name}/binding", body)
        except ApiError as error:
            if error.status != 409:
                raise
            there = await self._api.get(f"{self._core}/pods/{name}")
            if there["metadata"]["uid"] != uid or there["spec"].get("nodeName") != plan.node:
                raise

    async def _create(self, path: str, manifest: Manifest) -> Any:
        """Create an object; None if the name is taken."""
        try:
            return await self._api.create(path, manifest)
        except ApiError as error:
            if error.status == 409 and error.reason == "AlreadyExists":
                return None
            raise

    # -- ending ---------------------------------------------------------------------------------------------

    async def withdraw(self, pods: Iterable[str]) -> None:
        """Delete the pods of a gang that cannot start, or may not start any more."""
        for name in pods:
            await self._with_retries(partial(self._api.delete, f"{self._core}/pods/{name}", grace=1))

    async def end(self, worker: Worker, grace: float, *, at_once: bool = False) -> bool:
        """Evict a worker's pod with `grace` seconds plus time to upload (`at_once`: none); whether there is one."""
        seconds = 1 if at_once else manifests.termination_grace(grace, self._settings)
        name = pod_name(worker)
        body = manifests.eviction(name, seconds, self._settings)

        async def evict() -> bool:
            try:
                await self._api.create(f"{self._core}/pods/{name}/eviction", body)
            except ApiError as error:
                if error.status == 404:
                    return False
                if error.status not in (403, 405, 429):
                    raise
                await self._api.delete(self._path(worker), grace=seconds)  # overrides a disruption budget
            return True

        there: bool = await self._with_retries(evict)
        return there

    async def delete(self, pod: PodView) -> None:
        """Delete a pod that has ended or must end at once."""
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        await self._with_retries(lambda: self._api.delete(path, grace=None if pod.ended else 1, uid=pod.uid))

    def _path(self, worker: Worker) -> str:
        return f"{self._core}/pods/{pod_name(worker)}"

    async def _with_retries(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """Retry a call until it succeeds. A permanent refusal is logged."""
        try:
            return await with_retries(call)
        except ApiError as error:
            log.error("A pod could not be ended: %s", error)
            return True


def _is_of(pod: Manifest, worker: Worker, instance: str) -> bool:
    labels = pod["metadata"].get("labels") or {}
    found = (labels.get(INSTANCE), labels.get(JOB), labels.get(ATTEMPT), labels.get(RANK))
    return found == (instance, worker.job, str(worker.attempt), str(worker.rank))


async def _all(calls: Any) -> list[Any]:
    """Make calls concurrently and wait for all. Raises a permanent error, if there is one."""
    answers = await asyncio.gather(*calls, return_exceptions=True)
    errors = [answer for answer in answers if isinstance(answer, BaseException)]
    if errors:
        raise min(errors, key=lambda error: isinstance(error, ApiError) and error.passing)
    return answers


async def within(seconds: float, event: asyncio.Event) -> bool:
    """Whether an event is set within `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
            return True
    except TimeoutError:
        return False
