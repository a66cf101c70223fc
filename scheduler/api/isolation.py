"""What stands between the workloads that have parts of one GPU, as people read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.model import ONE, Isolation, Job, JobState

if TYPE_CHECKING:
    from scheduler.controller.book import Book

SENTENCES = {
    Isolation.MIG: "It runs in a MIG instance, which has its own memory and processors.",
    Isolation.MPS: "It shares its GPU by MPS: its memory is limited, but an error in another job can end it.",
    Isolation.TIME_SLICING: "It shares its GPU by time-slicing: other jobs can use up the memory.",
    Isolation.MEMORY_LIMIT: (
        "It shares its GPU by time-slicing: the driver limits the GPU memory of each job, and ends one that exceeds it."
    ),
    Isolation.UNKNOWN: "",
}


def isolation_of(job: Job, book: Book) -> str:
    """What protects a job from those that have other parts of its GPU."""
    if job.state is not JobState.RUNNING or all(worker.share == ONE for worker in job.placement):
        return ""
    shared = {worker.node for worker in job.placement if worker.share < ONE}
    found = dict.fromkeys(SENTENCES[node.isolation] for node in book.nodes if node.name in shared)
    return " ".join(filter(None, found))
