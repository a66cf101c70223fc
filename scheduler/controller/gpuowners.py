"""Whose a process is that uses a GPU.

What must hold: a user can set any environment, so what a process says of itself counts only where the job or session
that it names holds the GPU. Where the engine picks GPUs, the book does not know which: there its pod says whose it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from scheduler.model import GpuKey, Job, NodeName, Session
from scheduler.telemetry import GpuProcess

if TYPE_CHECKING:
    from scheduler.controller.book import Book


def owner_of(process: GpuProcess, gpu: GpuKey, book: Book, *, picks: bool) -> Job | Session | None:
    """The job or session of a process on a GPU. `picks`: the engine picks GPUs."""
    return _by_pod(process, gpu[0], book) if picks else _by_environment(process, gpu, book)


def _by_environment(process: GpuProcess, gpu: GpuKey, book: Book) -> Job | Session | None:
    job = None if process.job_id is None else book.holding.get(process.job_id)
    if job is not None:
        return job if _holds(job, gpu) else None
    servers: Iterable[Session] = book.sessions.values() if process.user is not None else ()
    return next(
        (each for each in servers if (each.user, each.server) == (process.user, process.server) and _holds(each, gpu)),
        None,
    )


def _by_pod(process: GpuProcess, node: NodeName, book: Book) -> Job | Session | None:
    job = None if process.job_id is None else book.holding.get(process.job_id)
    owner = job if process.session is None else book.sessions.get(process.session)
    return owner if owner is not None and any(worker.node == node for worker in owner.placement) else None


def _holds(workload: Job | Session, gpu: GpuKey) -> bool:
    node, index = gpu
    return any(worker.node == node and index in worker.gpus for worker in workload.placement)
