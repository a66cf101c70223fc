"""The nodes of a cluster, and their foreign use: by all pods that are not our workers.

What must hold: each pod is counted exactly once. The pod of a live worker is in the scheduler's book, and so are the
GPUs of a session's pod while the session has its seat; all other requests of pods are foreign, including those of
unknown pods of ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from scheduler.engines.agents.tokens import Worker
from scheduler.engines.kubernetes.api import Api, ApiError
from scheduler.engines.kubernetes.mirror import Mirror
from scheduler.engines.kubernetes.nodeviews import Failing, NodeView, node_of, node_pool_of, node_view, unlabelled_pool
from scheduler.engines.kubernetes.podviews import WHOLE, Amounts, GpuResources, Part, PodView, pod_view
from scheduler.engines.kubernetes.settings import Kubernetes
from scheduler.errors import Unavailable
from scheduler.model import ONE, GpuKey, GpuType, JobId, Node, NodePoolName, Pool, SessionId, WorkerPlacement
from scheduler.telemetry import GpuProcess, GpuSample, GpuUsage, History, Inventory
from scheduler.telemetry.reported import ReportedGpus

TOGETHER = 0.01
"""Seconds for which changes are collected before they are reported."""


class ClusterInventory(Inventory):
    """`pod_changed(before, after)` and `node_changed` are called at once for each change, `live` returns the workers in
    the scheduler's book, `seated` the GPUs of a session's pod. `unlabelled` is the node pool of nodes without label."""

    def __init__(self, api: Api, settings: Kubernetes, reported: ReportedGpus) -> None:
        offers = GpuResources(settings.gpu_resource, settings.gpu_parts, settings.gpu_memory_limits)
        topology: Mapping[str, str] = settings.topology_labels
        tolerations: Sequence[Mapping[str, Any]] = settings.tolerations
        self.pod_changed: Callable[[PodView | None, PodView | None], None] = lambda before, after: None
        self.node_changed: Callable[[NodeView | None, NodeView | None], None] = lambda before, after: None
        self.live: Callable[[Worker], bool] = lambda worker: False
        self.seated: Callable[[PodView], Amounts] = lambda pod: Amounts()
        self.gpus_of: Callable[[Worker], Sequence[str]] = lambda worker: ()
        self.unlabelled: NodePoolName | None = None
        self._api = api
        self._reported = reported
        self._node_mirror = Mirror(
            api, "/api/v1/nodes", lambda it: node_view(it, offers, topology, tolerations), self._see_node
        )
        self._pod_mirror = Mirror(
            api,
            "/api/v1/pods",
            lambda it: pod_view(it, settings.instance, settings.namespace, offers),
            self._see_pod,
        )
        self._standing: dict[str, dict[str, PodView]] = {}
        self._of_sessions: dict[SessionId, dict[str, PodView]] = {}
        self._foreign: dict[str, Amounts] = {}
        self._made: dict[str, tuple[object, Node]] = {}
        self._changed: Callable[[], None] | None = None
        self._telling: asyncio.TimerHandle | None = None

    async def open(self, changed: Callable[[], None]) -> None:
        await self._reported.open()
        await self._api.open()
        try:
            await self._node_mirror.open()
            await self._pod_mirror.open()
        except ApiError as error:
            await self.close()
            raise Unavailable(f"The nodes of the cluster cannot be read: {error}") from error
        self._changed = changed
        self._reported.changed = self.tell

    async def close(self) -> None:
        self._changed = None
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        await self._node_mirror.close()
        await self._pod_mirror.close()
        await self._api.close()
        await self._reported.close()

    def nodes(self, pool: Pool) -> tuple[Node, ...]:
        self.unlabelled = unlabelled_pool(pool)
        made: dict[str, tuple[object, Node]] = {}
        for name, view in sorted(self._node_mirror.items.items()):
            node_pool = node_pool_of(view, pool)
            if node_pool is not None:
                made_of = (view, node_pool, self._used(view.name), self._failing(view.name))
                known = self._made.get(name)
                made[name] = known if known is not None and known[0] == made_of else (made_of, node_of(*made_of))
        self._made = made
        return tuple(node for _, node in made.values())

    def usage(self, nodes: Iterable[Node]) -> Mapping[GpuKey, GpuUsage]:
        return {
            key: GpuUsage(sample.utilisation, sample.used, sample.memory)
            for key, sample in self._samples(nodes)
            if sample.used is not None and sample.memory is not None
        }

    def samples(self, nodes: Iterable[Node]) -> Mapping[GpuKey, GpuSample]:
        return {
            key: replace(sample, processes=tuple(self._owned(each, key[0]) for each in sample.processes))
            for key, sample in self._samples(nodes)
        }

    def device(self, node: Node, gpu: int) -> str | None:
        devices = self._reported.node(node.name).devices
        return devices[gpu] if gpu < len(devices) else None

    def held(
        self, job: JobId, attempt: int, rank: int, worker: WorkerPlacement, node: Node | None
    ) -> tuple[tuple[int, str | None], ...]:
        found = self.gpus_of(Worker(job, attempt, rank))
        numbers = {device: gpu for gpu, device in enumerate(self._reported.node(worker.node).devices)}
        known = [(numbers.get(device, gpu), device) for gpu, device in zip(worker.gpus, found, strict=False)]
        return (*known, *((gpu, None) for gpu in worker.gpus[len(known) :]))

    def history(self, device: str, since: float, until: float, points: int) -> History | None:
        return self._reported.history(device, since, until, points)

    # -- for the engine -------------------------------------------------------------------------------------

    def node(self, name: str) -> NodeView | None:
        return self._node_mirror.items.get(f"/{name}")

    def products(self, types: Collection[GpuType]) -> list[str]:
        """The products of the cluster's GPUs that are of these types."""
        return sorted({view.product for view in self._node_mirror.items.values() if view.gpu_type in types})

    def part(self, worker: WorkerPlacement) -> Part:
        """The part of a GPU that a worker requests; none for whole GPUs."""
        view = self.node(worker.node)
        return Part(view.part, view.memory_limit) if view is not None and worker.share < ONE else WHOLE

    def pod(self, namespace: str, name: str) -> PodView | None:
        return self._pod_mirror.items.get(f"{namespace}/{name}")

    def on_node(self, node: str, uid: str) -> PodView | None:
        """The pod with a UID on a node."""
        return self._standing.get(node, {}).get(uid)

    def on(self, node: str) -> list[PodView]:
        """The pods on a node."""
        return list(self._standing.get(node, {}).values())

    def ours(self) -> list[PodView]:
        """All pods of workers."""
        return [pod for pod in self._pod_mirror.items.values() if pod.worker is not None]

    def placeholders(self) -> list[PodView]:
        """All pods that show what waiting jobs lack."""
        return [pod for pod in self._pod_mirror.items.values() if pod.placeholder is not None]

    def of_session(self, session: SessionId) -> list[PodView]:
        """The pods whose label names a session."""
        return list(self._of_sessions.get(session, {}).values())

    def tell(self, node: str) -> None:
        """Report that a node, or the ownership of its pods, has changed."""
        self._foreign.pop(node, None)
        if self._changed is not None and self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(TOGETHER, self._tell)

    # -- inside ---------------------------------------------------------------------------------------------

    def _used(self, node: str) -> Amounts:
        """The foreign use of a node."""
        known = self._foreign.get(node)
        if known is None:
            pods = self._standing.get(node, {}).values()
            known = sum(map(self._foreign_part, pods), start=Amounts())
            self._foreign[node] = known
        return known

    def _failing(self, node: str) -> Failing:
        known = self._reported.node(node)
        return tuple(
            (gpu, known.failures[device]) for gpu, device in enumerate(known.devices) if device in known.failures
        )

    def _samples(self, nodes: Iterable[Node]) -> Iterator[tuple[GpuKey, GpuSample]]:
        """The latest samples, by the driver's numbers of the GPUs."""
        for node in nodes:
            known = self._reported.node(node.name)
            latest = known.latest
            for gpu, device in enumerate(known.devices[: node.gpus]):
                if device in latest:
                    yield GpuKey((node.name, gpu)), latest[device]

    def _owned(self, process: GpuProcess, node: str) -> GpuProcess:
        """A process with the job or session that its pod belongs to."""
        pod = None if process.pod is None else self.on_node(node, process.pod)
        if pod is None:
            return process
        if pod.worker is not None and self.live(pod.worker):
            return replace(process, job_id=pod.worker.job)
        return process if self.seated(pod) == Amounts() else replace(process, session=pod.session)

    def _foreign_part(self, pod: PodView) -> Amounts:
        """The part of a pod's requests that is not in the scheduler's book: of a session only GPUs are."""
        if pod.worker is not None and self.live(pod.worker):
            return Amounts()
        if pod.session is not None:
            own, seated = pod.amounts, self.seated(pod)
            return replace(own, gpus=max(0, own.gpus - seated.gpus), parts=max(0, own.parts - seated.parts))
        return pod.amounts

    def _see_node(self, before: NodeView | None, after: NodeView | None) -> None:
        self.node_changed(before, after)
        if after is None and before is not None:
            self._reported.forget(before.name)
        for node in (before, after):
            if node is not None:
                self.tell(node.name)

    def _see_pod(self, before: PodView | None, after: PodView | None) -> None:
        for pod, there in ((before, False), (after, True)):
            if pod is not None and pod.node is not None and not pod.ended:
                on_node = self._standing.setdefault(pod.node, {})
                if there:
                    on_node[pod.uid] = pod
                else:
                    on_node.pop(pod.uid, None)
                if self._foreign_part(pod) != Amounts():
                    self.tell(pod.node)
            if pod is not None and pod.session is not None:
                self._index(pod.session, pod, there)
        self.pod_changed(before, after)

    def _index(self, session: SessionId, pod: PodView, there: bool) -> None:
        pods = self._of_sessions.setdefault(session, {})
        if there:
            pods[pod.uid] = pod
        else:
            pods.pop(pod.uid, None)
        if not pods:
            del self._of_sessions[session]

    def _tell(self) -> None:
        self._telling = None
        if self._changed is not None:
            self._changed()
