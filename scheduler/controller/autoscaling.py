"""Shows the cluster which jobs lack nodes: those first in line, as whole gangs, up to the backend's limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from scheduler.controller.book import Book
from scheduler.controller.loop import Loop
from scheduler.controller.unplaced import unplaced_attempt
from scheduler.engines.backend import Autoscaling, LackingAttempt
from scheduler.model import ONE, Job, JobState, Pool, WorkloadId
from scheduler.policy import Plan, lacking_nodes

PAUSE = 1.0
"""Seconds after a plan: it is carried out first, and plans that follow at once are included. What adds nodes looks
every few seconds and needs minutes for a node."""


class LackingJobs(Loop):
    """Without `autoscaling`, nothing is shown."""

    def __init__(self, autoscaling: Autoscaling | None, book: Callable[[], Book]) -> None:
        super().__init__("Looking for jobs that lack nodes", delay=PAUSE, ratio=9.0)
        self._autoscaling = autoscaling
        self._book = book
        self._plan = Plan({}, {})

    def open(self) -> None:
        if self._autoscaling is not None:
            super().open()

    def look(self, plan: Plan) -> None:
        """A plan was made."""
        self._plan = plan
        self.wake()

    async def _once(self) -> None:
        assert self._autoscaling is not None
        book = self._book()
        self._autoscaling.show(lacking(self._plan, book.jobs, book.pool, self._autoscaling.most))


def lacking(plan: Plan, jobs: Mapping[WorkloadId, Job], pool: Pool, most: int) -> list[LackingAttempt]:
    """The attempts that lack nodes, with at most `most` workers together; none with part of a GPU."""
    found = []
    for id in lacking_nodes(plan):
        job = jobs.get(id)
        if job is None or job.state is not JobState.QUEUED or _shares(job):
            continue
        workers = job.request.min_workers
        if workers <= most:
            most -= workers
            found.append(LackingAttempt(unplaced_attempt(job, pool), plan.decisions[id].reason))
    return found


def _shares(job: Job) -> bool:
    return any(shape.gpu_memory is not None or shape.gpus % ONE for shape in job.request.shapes)
