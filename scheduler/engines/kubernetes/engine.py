"""Workers as pods: created unbound, bound all of a gang or none, watched until they end, and removed.

An agent in each pod runs the worker (`engines/agents/`) and reports its state. The pod itself shows what an agent
cannot report: why it does not start, and that it is gone.

What must hold:
- A worker's pod is bound after its whole gang has pods, and never twice: its name identifies the worker.
- The end of a worker is reported once its pod uses no resources of its node, or the node is gone.
- No object of ours outlives its worker. All objects of an attempt are owned by its first pod, as Spark's executors are
  by their driver: the cluster deletes them with that pod, even without the scheduler. So that pod is deleted last.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from scheduler.engines.agents.agents import Agents
from scheduler.engines.agents.archive import agent_archive
from scheduler.engines.agents.live import State
from scheduler.engines.agents.tokens import Worker
from scheduler.engines.base import (
    Engine,
    Grant,
    Launch,
    Report,
    Seat,
    WorkerState,
    WorkerStatus,
)
from scheduler.engines.kubernetes.api import Api, ApiError
from scheduler.engines.kubernetes.delegation import ClusterDelegation
from scheduler.engines.kubernetes.externalschedulers import external_scheduler
from scheduler.engines.kubernetes.gang import Gang, gang_of, kept_of, rendezvous_of
from scheduler.engines.kubernetes.inventory import ClusterInventory
from scheduler.engines.kubernetes.launching import Launching, within
from scheduler.engines.kubernetes.names import pod_name
from scheduler.engines.kubernetes.nodeviews import NodeView
from scheduler.engines.kubernetes.placeholders import Placeholders
from scheduler.engines.kubernetes.podstates import PodStatus
from scheduler.engines.kubernetes.podviews import PodView
from scheduler.engines.kubernetes.quotas import Quotas
from scheduler.engines.kubernetes.refusals import exceeded, refusal
from scheduler.engines.kubernetes.servers import Servers
from scheduler.engines.kubernetes.settings import Kubernetes
from scheduler.engines.kubernetes.settling import Settling
from scheduler.errors import Conflict, Unavailable
from scheduler.model import AttemptKey, Fault, JobId, SessionId
from scheduler.model.wording import duration

log = logging.getLogger(__name__)

LINGER = 10.0
"""Seconds for a pod to end by itself after its worker."""


class KubernetesEngine(Engine):
    """The pods of one namespace of a cluster; `inventory` is open before the engine, and closed after it. `delegation`:
    where another scheduler places them."""

    def __init__(self, api: Api, inventory: ClusterInventory, agents: Agents, settings: Kubernetes) -> None:
        self._inventory = inventory
        self._agents = agents
        self._settings = settings
        external = external_scheduler(settings)
        self._launching = Launching(api, inventory, agents, settings, external)
        self.delegation: ClusterDelegation | None = None
        if external is not None:
            self.delegation = ClusterDelegation(
                api, inventory, self._launching, external, settings.namespace, self._run
            )
            agents.awaited = self.delegation.awaits
        self.placeholders = Placeholders(api, inventory, settings, self._run)
        self._quotas = Quotas(api, settings.namespace)
        self._servers = Servers(api, inventory, settings, self._run)
        self._gangs: dict[tuple[str, int], Gang] = {}
        self._known: set[Worker] = set()
        self._ends: dict[Worker, WorkerStatus] = {}
        self._settling = Settling(self._tell_waiting)
        self._recovered = False
        self._report: Report | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._removing: set[str] = set()

    # -- the engine -----------------------------------------------------------------------------------------

    async def open(self, report: Report) -> None:
        self._report = report
        await self._agents.open(self._hear)
        try:
            await self._launching.install(agent_archive())
        except ApiError as error:
            raise Unavailable(f"Pods cannot be given their agent: {error}") from error
        await self._quotas.open()
        if self.delegation is not None:
            try:
                await self.delegation.open()
            except ApiError as error:
                raise Unavailable(f"The queues of the cluster cannot be read: {error}") from error
        self.placeholders.open()
        self._inventory.live = self._known.__contains__
        self._inventory.seated = self._servers.seated
        self._inventory.pod_changed = self._see_pod
        self._inventory.node_changed = self._see_node

    async def close(self) -> None:
        self._report = None
        self._inventory.pod_changed = lambda before, after: None
        self._inventory.node_changed = lambda before, after: None
        self._settling.close()
        await self.placeholders.close()
        await self._quotas.close()
        if self.delegation is not None:
            await self.delegation.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._agents.close()

    def watch_refused(self, may_start: Callable[[JobId, int], bool]) -> None:
        self._quotas.may_start = may_start

    async def launch(self, launch: Launch) -> None:
        key = (launch.job, launch.attempt)
        if key in self._gangs:
            return
        gang = self._gangs[key] = gang_of(launch, self._inventory.part)
        self._know(gang)
        self._quotas.forget(launch.job)
        try:
            rendezvous = rendezvous_of(launch, self._settings.namespace)
            await self._agents.admit(launch, rendezvous, kept_of(gang))
        except BaseException:
            self._forget(gang)
            raise
        if self.delegation is not None:
            self.delegation.launched(*key)
        self._run(self._start(gang))

    async def stop(self, job: JobId, attempt: int, grace: float) -> None:
        await self._agents.stop(job, attempt, grace)
        gang = self._gangs.get((job, attempt))
        if gang is None:
            return
        gang.stopped.set()
        if gang.bound:
            for worker in self._agents.running(job, attempt):
                self._run(self._launching.end(worker, grace))

    async def ask_to_save(self, job: JobId, attempt: int, until: float) -> None:
        await self._agents.ask_to_save(job, attempt, until)

    async def recover(self, attempts: Iterable[tuple[JobId, int, int]]) -> frozenset[AttemptKey]:
        named = {(job, number): size for job, number, size in attempts}
        for key in named:
            if kept := await self._agents.kept(*key):
                gang = self._gangs[key] = Gang.of(*key, kept)
                self._know(gang)
        never = await self._agents.recover([(*key, size) for key, size in named.items()])
        self._recovered = True
        for pod in self._inventory.ours():
            self._see_pod(None, pod)
        for gang in list(self._gangs.values()):
            self._run(self._adopt(gang))
        return never

    async def seat(self, seat: Seat) -> Grant:
        return self._servers.seat(seat)

    async def unseat(self, session: SessionId) -> None:
        await self._servers.unseat(session)

    # -- starting -------------------------------------------------------------------------------------------

    async def _adopt(self, gang: Gang) -> None:
        """Resume an attempt after a restart from its pods, or from their plans."""
        running = self._agents.running(gang.job, gang.attempt)
        lives = [live for worker in running if (live := self._agents.live(worker)) is not None]
        if any(live.stop is not None for live in lives):
            gang.stopped.set()
        for live in lives:
            if live.agent is not None and self._pod(live.worker) is None:
                await self._agents.lose(live.worker, "its pod is gone.")
        await self._start(gang)

    async def _start(self, gang: Gang) -> None:
        """Create and bind the missing pods, and apply a stop that came meanwhile."""
        await self.placeholders.remove(gang.job)
        growths = self._quotas.growths
        refused = await self._launching.start(gang, self._settling.put)
        if refused is not None:
            reason, fault = refusal(refused)
            for worker in self._agents.running(gang.job, gang.attempt):
                await self._agents.lose(worker, reason, fault)
            if (too_much := exceeded(refused)) is not None:
                self.placeholders.make_room()
            if gang.alike and too_much is not None:
                self._quotas.refuse(gang.job, gang.attempt, too_much.times(len(gang.plans)), growths)
            await self._launching.withdraw(pod_name(plan.worker) for plan in gang.plans)
        elif gang.stopped.is_set():
            await self._stop_begun(gang)
        else:
            await self._give_time(gang)

    async def _give_time(self, gang: Gang) -> None:
        """Reclaim the GPUs of pods that do not start, for example because a registry does not answer."""
        if await within(self._settings.start_seconds, gang.stopped):
            return
        for worker in self._agents.running(gang.job, gang.attempt):
            live, pod = self._agents.live(worker), self._pod(worker)
            if live is not None and live.agent is None:
                why = "" if pod is None or pod.status is None else pod.status.reason
                reason = f"its pod did not start within {duration(self._settings.start_seconds)}: {why or 'unknown.'}"
                await self._agents.lose(worker, reason, Fault.PLACE)

    async def _stop_begun(self, gang: Gang) -> None:
        """Stop a gang that was stopped before all of it was bound, or before a restart."""
        for worker in self._agents.running(gang.job, gang.attempt):
            live = self._agents.live(worker)
            if live is not None and not await self._launching.end(worker, max(0.0, (live.stop or 0.0) - time.time())):
                await self._ended(worker, None)

    def _tell_waiting(self, worker: Worker, state: WorkerState, reason: str) -> None:
        live = self._agents.live(worker)
        if live is not None and live.agent is None:
            self._tell(WorkerStatus(worker.job, worker.attempt, worker.rank, state, time.time(), reason=reason))

    # -- events of pods and nodes ---------------------------------------------------------------------------

    def _see_pod(self, before: PodView | None, after: PodView | None) -> None:
        self._servers.see_pod(before, after)
        pod = after or before
        if pod is not None and pod.placeholder is not None:
            self.placeholders.see_pod(before, after)
        if pod is None or pod.worker is None or pod.status is None:
            return
        worker, status = pod.worker, pod.status
        if worker not in self._known and self.delegation is not None and self.delegation.awaits(worker):
            self.delegation.see_pod(before, after)
        elif worker not in self._known:
            if self._recovered and after is not None and not (status.deleting and not pod.ended):
                self._remove(pod)
        elif after is None or pod.ended:
            self._run(self._ended(worker, status))
        elif status.deleting:
            self._see_disturbed(worker, pod)
        elif status.fault is not None:
            self._run(self._agents.lose(worker, status.reason, status.fault))
        elif pod.node is not None:  # until then the job starts, and there is no more to say
            self._settling.put(worker, status.state, status.reason)

    def _see_disturbed(self, worker: Worker, pod: PodView) -> None:
        """Note that the pod is being ended, by the scheduler or by others."""
        live = self._agents.live(worker)
        assert pod.status is not None
        if live is not None and live.stop is None:
            live.disturbed = pod.status.reason
            live.disturbed_by = pod.status.fault or Fault.PLACE
        if not self._reachable(pod.node):
            self._run(self._unreachable(worker, pod.status))

    async def _unreachable(self, worker: Worker, status: PodStatus) -> None:
        await self._agents.lose(worker, status.reason, Fault.PLACE)
        self._release(worker)

    def _see_node(self, before: NodeView | None, after: NodeView | None) -> None:
        self._servers.see_node()
        if after is None and before is not None:
            for pod in self._inventory.on(before.name):
                if pod.worker in self._known and pod.worker is not None:
                    gone = PodStatus(WorkerState.LOST, f"node {before.name} is gone.", Fault.PLACE)
                    self._run(self._unreachable(pod.worker, gone))
        elif after is not None and not after.ready:
            for pod in self._inventory.on(after.name):
                if pod.worker in self._known and pod.status is not None and pod.status.deleting:
                    self._see_disturbed(pod.worker, pod)

    async def _ended(self, worker: Worker, status: PodStatus | None) -> None:
        """Handle a worker's pod that has ended or does not exist."""
        live = self._agents.live(worker)
        if live is not None:
            said = None if status is None else State.of_message(status.message)
            if said is not None:
                try:
                    await self._agents.hear(live, said)
                except Conflict as error:
                    log.warning("Pod of worker %s: %s", worker, error.sentence)
            if live.stop is not None and live.agent is None:
                await self._agents.never_start(worker)
            elif live.stop is not None:
                await self._agents.lose(worker, "it was stopped and did not end in time.")
            elif status is not None:
                await self._agents.lose(worker, status.reason or "its pod is gone.", status.fault)
            else:
                await self._agents.lose(worker, "its pod is gone.")
        self._release(worker)

    # -- ends -----------------------------------------------------------------------------------------------

    def _hear(self, status: WorkerStatus) -> None:
        """Handle a state that an agent reported, or that was reported on its behalf."""
        worker = Worker(status.job, status.attempt, status.rank)
        if not status.state.over:
            self._tell(status)
            return
        if worker not in self._known:
            self._tell(status)  # its end was reported before a restart
            return
        self._ends[worker] = status
        pod = self._pod(worker)
        if pod is None or pod.ended or not self._reachable(pod.node):
            self._release(worker)
        else:
            self._run(self._see_off(worker, 0.0 if status.state is WorkerState.LOST else LINGER))

    async def _see_off(self, worker: Worker, patience: float) -> None:
        """End the pod of a worker that has ended, unless it ends by itself."""
        await asyncio.sleep(patience)
        if worker in self._ends:
            await self._launching.end(worker, 0, at_once=True)

    def _release(self, worker: Worker) -> None:
        """A worker's pod uses no resources any more: its end may be reported."""
        status = self._ends.pop(worker, None)
        if status is None:
            return
        self._known.discard(worker)
        gang = self._gangs.get((worker.job, worker.attempt))
        if gang is not None and not any(plan.worker in self._known for plan in gang.plans):
            del self._gangs[worker.job, worker.attempt]
            gang.stopped.set()
            if self.delegation is not None:
                self._run(self.delegation.clear(gang.job, gang.attempt))
            if (first := self._pod(gang.plans[0].worker)) is not None:
                self._remove(first)
        pod = self._pod(worker)
        if pod is not None:
            if pod.node is not None:
                self._inventory.tell(pod.node)
            self._remove(pod)
        self._tell(status)

    def _remove(self, pod: PodView) -> None:
        """Delete a pod that has ended or belongs to no worker; later if others are owned by it."""
        assert pod.worker is not None
        owns = pod.ended and pod.worker.rank == 0 and (pod.worker.job, pod.worker.attempt) in self._gangs
        if not owns and pod.uid not in self._removing:
            self._removing.add(pod.uid)
            self._run(self._delete(pod))

    async def _delete(self, pod: PodView) -> None:
        try:
            await self._launching.delete(pod)
        finally:
            self._removing.discard(pod.uid)

    # -- inside ---------------------------------------------------------------------------------------------

    def _know(self, gang: Gang) -> None:
        self._known.update(plan.worker for plan in gang.plans)
        for plan in gang.plans:
            self._inventory.tell(plan.node)

    def _forget(self, gang: Gang) -> None:
        self._known.difference_update(plan.worker for plan in gang.plans)
        self._gangs.pop((gang.job, gang.attempt), None)

    def _pod(self, worker: Worker) -> PodView | None:
        return self._launching.pod(worker)

    def _reachable(self, node: str | None) -> bool:
        view = None if node is None else self._inventory.node(node)
        return view is not None and view.ready

    def _tell(self, status: WorkerStatus) -> None:
        if self._report is not None:
            self._report(status)

    def _run(self, work: Coroutine[Any, Any, Any]) -> None:
        task: asyncio.Task[Any] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("A pod could not be looked after.", exc_info=error)
