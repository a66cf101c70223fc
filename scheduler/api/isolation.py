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
        "It shares its GPU by time-slicing: the driver limits the GPU memory of each job, which cannot allocate more."
    ),
    Isolation.WATCHER: (
        "It shares its GPU by time-slicing: a job that uses more GPU memory than its part is warned and then ended."
    ),
    Isolation.UNKNOWN: "",
}


def isolation_of(job: Job, book: Book) -> str:
    """What protects a job from those that have other parts of its GPU."""
    if job.state is not JobState.RUNNING:
        return ""
    shares = {worker.node: worker.share for worker in job.placement}
    parts = (
        node
        for node in book.nodes
        if node.name in shares and (shares[node.name] < ONE or node.isolation is Isolation.MIG)
    )
    found = dict.fromkeys(SENTENCES[node.isolation] for node in parts)
    return " ".join(filter(None, found))
