"""How the GPUs of a job were used while an attempt held them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

from scheduler.api.access import Scope
from scheduler.api.base import ApiHandler
from scheduler.api.endpoint import endpoint
from scheduler.api.gpus import MOST, point
from scheduler.errors import NotFound
from scheduler.model import ONE, Attempt, JobId, Node, NodeName
from scheduler.schema import JobGpuUse, WorkerGpuUse
from scheduler.telemetry import History, Inventory

MOST_GPUS = 64
"""The most GPUs of an answer."""

MOST_POINTS = 5_000
"""The most points of all its GPUs together: their text is made while the event loop waits."""


class GpuUseQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    attempt: int | None = Field(None, ge=1, description="absent: the latest")
    points: int = Field(
        240, ge=1, le=MOST, description="about how many points each GPU has at most; fewer where it has many GPUs"
    )


class JobGpuUseHandler(ApiHandler):
    @endpoint(
        "The use of the GPUs of a job while an attempt held them",
        Scope.READ,
        query=GpuUseQuery,
        answer=JobGpuUse,
        refuses=(NotFound,),
    )
    async def get(self, job_id: JobId) -> None:
        query = self.query(GpuUseQuery)
        job = self.access.visible_job(await self.find(job_id), job_id)
        attempts = [each for each in job.attempts if query.attempt in (None, each.number)]
        if query.attempt and not attempts:
            raise NotFound(f"Job {job.id} has had {len(job.attempts)} attempts.", field="attempt")
        if not attempts or attempts[-1].started is None:
            self.answer(JobGpuUse(attempt=0, since=0, until=0, step=0, held=0, gpus=[]))
            return
        attempt, now = attempts[-1], self.api.clock()
        nodes = {node.name: node for node in self.api.book.nodes}
        self.answer(await asyncio.to_thread(_use, self.api.inventory, nodes, job.id, attempt, now, query.points))


def _use(
    inventory: Inventory, nodes: Mapping[NodeName, Node], job: JobId, attempt: Attempt, now: float, points: int
) -> JobGpuUse:
    since, until = attempt.started or now, attempt.ended or now
    held = [
        (rank, worker.node, *gpu)
        for rank, worker in enumerate(attempt.placement)
        for gpu in inventory.held(job, attempt.number, rank, worker, nodes.get(worker.node))
    ]
    points = min(points, MOST_POINTS // max(1, len(held[:MOST_GPUS])))
    step, gpus = 0, []
    for rank, name, gpu, device in held[:MOST_GPUS]:
        history = None if device is None else inventory.history(device, since, until, points)
        history = history or History(0, ())
        step = max(step, history.step)
        gpus.append(WorkerGpuUse(rank=rank, node=name, gpu=gpu, points=list(map(point, history.spans))))
    return JobGpuUse(
        attempt=attempt.number,
        since=since,
        until=until,
        step=step,
        held=len(held),
        declared=step > 0 and any(nodes[name].declared for _, name, _, device in held if device is not None),
        shared=any(worker.share < ONE for worker in attempt.placement),
        gpus=gpus,
    )
