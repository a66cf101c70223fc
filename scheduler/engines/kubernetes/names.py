"""The names of a job's objects, and the labels that identify their owner."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.engines.agents.tokens import Worker
from scheduler.model import JobId, SessionId

PREFIX = "runai.jupyter.org"

INSTANCE, JOB, ATTEMPT, RANK = (f"{PREFIX}/{name}" for name in ("instance", "job", "attempt", "rank"))
SESSION = f"{PREFIX}/session"
"""The label of a notebook server's pod that names its session."""

PLACEHOLDER = f"{PREFIX}/placeholder"
"""The label of a pod that shows cluster autoscalers what a waiting job lacks."""

PROJECT = f"{PREFIX}/project"
"""The annotation of a worker's pod that names its project."""

NODE_POOL = f"{PREFIX}/node-pool"
"""The label of a node that says which node pool it belongs to."""

MANAGED_BY = {"app.kubernetes.io/managed-by": "jupyter-runai"}
SCHEDULER = "jupyter-runai"
"""The `schedulerName` of our pods: no other scheduler touches them."""

KAI = "kai-scheduler"
"""That of pods that KAI places."""


def attempt_name(job: JobId, attempt: int) -> str:
    """The name of an attempt's Secret and Service, and the prefix of its pods' names."""
    return f"runai-{job.lower()}-{attempt}"


def lease_name(instance: str) -> str:
    """The name of the Lease for the leader election of an instance."""
    return f"runai-{instance}"


def placeholder_prefix(job: JobId) -> str:
    """What the names of a job's placeholders begin with."""
    return f"runai-{job.lower()}-waiting-"


def pod_name(worker: Worker) -> str:
    return f"{attempt_name(worker.job, worker.attempt)}-{worker.rank}"


def session_labels(instance: str, session: SessionId) -> Mapping[str, str]:
    return {INSTANCE: instance, SESSION: session}


def attempt_labels(instance: str, job: JobId, attempt: int) -> Mapping[str, str]:
    return {**MANAGED_BY, INSTANCE: instance, JOB: job, ATTEMPT: str(attempt)}
