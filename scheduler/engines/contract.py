"""The contract of a worker: what it is told, the same on every engine.

Pure, and no path of any machine is in it: where a worker's folders are, which Python there is and what else its
environment has is for those to say who start it (`local/environment.py`, `worker/agent.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scheduler.engines.base import Launch
from scheduler.engines.rendezvous import Rendezvous, Wrapper, variables, wrapper
from scheduler.model import Framework, JobId, Node, NodeName, WorkerPlacement


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What one worker runs, and what it finds in its environment.

    `env` is over what the machine has, `own` over all: the job's variables cannot change what that says. `wrapper`
    stands before the command, and `python_path` names a folder of `scheduler.worker` that stands first in `PYTHONPATH`.
    """

    command: tuple[str, ...]
    env: Mapping[str, str]
    own: Mapping[str, str]
    wrapper: Wrapper | None = None
    python_path: str | None = None


def worker_spec(launch: Launch, rank: int, rendezvous: Rendezvous) -> WorkerSpec:
    """That of a worker of an attempt."""
    return WorkerSpec(
        command=launch.program.command,
        env={
            "PYTHONUNBUFFERED": "1",
            **variables(rendezvous, rank),
            **launch.program.env,
            **launch.env,
        },
        own={
            **visible(launch.workers[rank : rank + 1], launch.nodes),
            **identifying(launch.job, launch.attempt, rank),
            "RUNAI_WORLD_SIZE": str(len(launch.workers)),
            **_group(launch, rank),
        },
        wrapper=wrapper(rendezvous, rank),
        python_path="gloo" if rendezvous.framework is Framework.TORCH else None,
    )


def _group(launch: Launch, rank: int) -> dict[str, str]:
    """Which of its gang's groups a worker is of, and its rank in that."""
    for group in launch.groups:
        if rank < group.workers:
            return {
                "RUNAI_GROUP": group.name,
                "RUNAI_GROUP_RANK": str(rank),
                "RUNAI_GROUP_SIZE": str(group.workers),
            }
        rank -= group.workers
    return {}


def identifying(job: JobId, attempt: int, rank: int) -> dict[str, str]:
    """Those variables that no other worker of the pool has."""
    return {"RUNAI_JOB_ID": job, "RUNAI_ATTEMPT": str(attempt), "RUNAI_RANK": str(rank)}


def visible(workers: Iterable[WorkerPlacement], nodes: Mapping[NodeName, Node]) -> dict[str, str]:
    """What shows a process the GPUs of these workers, and no others."""
    gpus = ",".join(gpu for worker in workers for gpu in devices(worker, nodes.get(worker.node)))
    return {"CUDA_VISIBLE_DEVICES": gpus, "RUNAI_GPUS": gpus}


def devices(placement: WorkerPlacement, node: Node | None) -> list[str]:
    """A worker's GPUs, as the driver calls them, or by number where they are declared or the node is gone."""
    known = node.devices if node is not None else ()
    return [known[gpu] if gpu < len(known) else str(gpu) for gpu in placement.gpus]
