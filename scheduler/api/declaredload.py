"""What declared GPUs are shown to do where the pool file declares a load for them, so that screens and charts can be
tried without GPUs.

What must hold: only screens and the API get these values, always marked as declared. No decision sees them: idle times,
failing GPUs, the record of use and Prometheus have the engine's own inventory.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from scheduler.controller.book import Book
from scheduler.model import ONE, DeclaredLoad, GpuKey, JobId, Milli, Node, Pool, WorkerPlacement
from scheduler.telemetry import GpuSample, GpuUsage, History, HistoryFiles, Inventory, span_of

log = logging.getLogger(__name__)

EVERY = 10.0
"""Seconds between two samples for the history."""

FREE_POWER, FREE_TEMPERATURE = 0.15, 35
"""Of a GPU on which no job runs: the part of the declared power, and °C."""


class WithDeclaredLoad(Inventory):
    """An engine's inventory that adds the declared load of declared nodes, where there is one, and its history, in
    `folder`."""

    def __init__(
        self, inventory: Inventory, book: Callable[[], Book], folder: Path, clock: Callable[[], float] = time.time
    ) -> None:
        self._inventory = inventory
        self._book = book
        self._history = HistoryFiles(folder)
        self._clock = clock

    async def open(self, changed: Callable[[], None]) -> None:
        await self._inventory.open(changed)

    async def close(self) -> None:
        await self._inventory.close()

    def nodes(self, pool: Pool) -> tuple[Node, ...]:
        return self._inventory.nodes(pool)

    def gpu_numbers(self) -> Mapping[str, int]:
        return self._inventory.gpu_numbers()

    def device(self, node: Node, gpu: int) -> str | None:
        return self._inventory.device(node, gpu)

    def held(
        self, job: JobId, attempt: int, rank: int, worker: WorkerPlacement, node: Node | None
    ) -> tuple[tuple[int, str | None], ...]:
        return self._inventory.held(job, attempt, rank, worker, node)

    def usage(self, nodes: Iterable[Node]) -> Mapping[GpuKey, GpuUsage]:
        nodes = tuple(nodes)
        declared = {
            key: GpuUsage(sample.utilisation, sample.used or 0, sample.memory or 0)
            for key, sample in self._declared(nodes).items()
        }
        return {**self._inventory.usage(nodes), **declared}

    def samples(self, nodes: Iterable[Node]) -> Mapping[GpuKey, GpuSample]:
        nodes = tuple(nodes)
        return {**self._inventory.samples(nodes), **self._declared(nodes)}

    def history(self, device: str, since: float, until: float, points: int) -> History | None:
        if self._load is None or not any(node.declared and device in node.devices for node in self._book().nodes):
            return self._inventory.history(device, since, until, points)
        return self._history.read(device, since, until, self._clock(), points)

    async def forever(self) -> None:
        """Keep the history, as long as a load is declared."""
        while True:
            if self._load is not None:
                try:
                    await asyncio.to_thread(self.record, self._declared(self._book().nodes), int(self._clock()))
                except OSError as error:
                    log.warning("The declared load of GPUs cannot be written: %s", error)
            await asyncio.sleep(EVERY)

    def record(self, samples: Mapping[GpuKey, GpuSample], now: int) -> None:
        nodes = {node.name: node for node in self._book().nodes}
        for (name, gpu), sample in samples.items():
            if gpu < len(nodes[name].devices):
                self._history.add(nodes[name].devices[gpu], span_of(sample, None, now))

    @property
    def _load(self) -> DeclaredLoad | None:
        return self._book().pool.settings.declared_load

    def _declared(self, nodes: Iterable[Node]) -> Mapping[GpuKey, GpuSample]:
        if (load := self._load) is None:
            return {}
        busy: Counter[GpuKey] = Counter()
        for job in self._book().holding.values():
            for worker in job.placement:
                busy.update(dict.fromkeys([GpuKey((worker.node, gpu)) for gpu in worker.gpus], worker.share))
        return {
            key: sample_of(load, busy[key])
            for node in nodes
            if node.declared
            for key in [GpuKey((node.name, gpu)) for gpu in range(node.gpus)]
        }


def sample_of(load: DeclaredLoad, busy: Milli) -> GpuSample:
    """What a GPU of which jobs hold so much is shown to do."""
    part = busy / ONE
    return GpuSample(
        utilisation=round(load.use * part, 3),
        used=round(load.used_memory * part),
        memory=load.memory,
        power=round(load.power * (FREE_POWER + (1 - FREE_POWER) * part)),
        temperature=round(FREE_TEMPERATURE + (load.temperature - FREE_TEMPERATURE) * part),
    )
