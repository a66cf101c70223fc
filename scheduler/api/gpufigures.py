"""Tells listeners how the GPUs that they show are used, as it is measured.

A listener that keeps a view gets the GPUs of its caller's sessions and of the caller's running jobs that it shows; one
that shows the figures of all projects gets those of the whole pool, as `GET /pool` does.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from scheduler.api.convert import from_mib
from scheduler.api.messages import written
from scheduler.api.slices import Slices
from scheduler.model import GpuKey, JobId, UserName, WorkerPlacement
from scheduler.schema import Event, GpuFigures

if TYPE_CHECKING:
    from scheduler.api.listener import Listener
    from scheduler.controller import Controller
    from scheduler.telemetry import GpuUsage

EVERY = 5.0
"""Seconds between two messages to a listener; the GPUs are sampled as often."""

Usage = Callable[[], "Mapping[GpuKey, GpuUsage]"]
"""The present use of the GPUs that are measured."""


class LiveGpuFigures:
    """`listeners` are those that are open."""

    def __init__(self, controller: Controller, usage: Usage, listeners: Mapping[str, Listener]) -> None:
        self._controller = controller
        self._usage = usage
        self._listeners = listeners

    async def tell(self) -> None:
        slices = Slices()
        while True:
            await asyncio.sleep(EVERY)
            if not self._listeners or not (usage := self._usage()):
                continue
            held = self._of_sessions()
            for listener in list(self._listeners.values()):
                if listener.view and listener.live and not (listener.blocked or listener.behind or listener.closed):
                    self._tell(listener, usage, held)
                if slices.over:
                    await slices.rest()

    def _tell(self, listener: Listener, usage: Mapping[GpuKey, GpuUsage], held: Mapping[UserName, set[GpuKey]]) -> None:
        shown = usage.keys() if listener.all_projects else self._shown(listener, held)
        now = {gpu: usage[gpu] for gpu in shown if gpu in usage}
        news = [_figures(gpu, use) for gpu, use in now.items() if listener.gpus.get(gpu) != use]
        listener.gpus = now
        if news:
            data = {"gpus": [each.model_dump() for each in news]}
            listener.add(written(Event(id=0, at=0.0, kind="view.figures", subject="", data=data)))
            listener.flush()

    def _shown(self, listener: Listener, held: Mapping[UserName, set[GpuKey]]) -> Iterator[GpuKey]:
        access, jobs = listener.reader.access, self._controller.book.jobs
        yield from held.get(access.caller.name, ())
        for id in listener.shown or ():
            job = jobs.get(JobId(id))
            if job is not None and access.owns(job):
                yield from _gpus(job.placement)

    def _of_sessions(self) -> Mapping[UserName, set[GpuKey]]:
        found: dict[UserName, set[GpuKey]] = defaultdict(set)
        for session in self._controller.book.sessions.values():
            found[session.user].update(_gpus(session.placement))
        return found


def _gpus(placement: Iterable[WorkerPlacement]) -> Iterator[GpuKey]:
    return (GpuKey((worker.node, gpu)) for worker in placement for gpu in worker.gpus)


def _figures(gpu: GpuKey, use: GpuUsage) -> GpuFigures:
    node, index = gpu
    return GpuFigures(node=node, index=index, utilisation=use.utilisation, used_memory_gib=from_mib(use.used))
