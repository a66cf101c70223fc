"""The contract of a worker: its environment, the same on every engine.

Pure, without paths of any machine: the folders, the Python and the rest of the environment are added where the worker
is started (`local/environment.py`, `worker/agent/folders.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scheduler.engines.base import Launch
from scheduler.engines.rendezvous import Rendezvous, Wrapper, variables, wrapper
from scheduler.model import Framework, JobId, Node, NodeName, WorkerPlacement


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What one worker runs, and its environment.

    `env` is over what the machine has, `own` over all: the job's variables cannot change what that says. `wrapper`
    stands before the command, and `python_path` names a folder of `scheduler.worker` that stands first in `PYTHONPATH`.
    """

    command: tuple[str, ...]
    env: Mapping[str, str]
    own: Mapping[str, str]
    wrapper: Wrapper | None = None
    python_path: str | None = None


def worker_spec(launch: Launch, rank: int, rendezvous: Rendezvous) -> WorkerSpec:
    """The specification of one worker of an attempt."""
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
    """The group of a worker in its gang, and its rank in the group."""
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
    """The variables that identify a worker in the pool."""
    return {"RUNAI_JOB_ID": job, "RUNAI_ATTEMPT": str(attempt), "RUNAI_RANK": str(rank)}


def visible(workers: Iterable[WorkerPlacement], nodes: Mapping[NodeName, Node]) -> dict[str, str]:
    """The variables that show a process the GPUs of these workers, and no others."""
    gpus = ",".join(gpu for worker in workers for gpu in devices(worker, nodes.get(worker.node)))
    return {"CUDA_VISIBLE_DEVICES": gpus, "RUNAI_GPUS": gpus}


def devices(placement: WorkerPlacement, node: Node | None) -> list[str]:
    """A worker's GPUs, as the driver calls them, or by number where they are declared or the node is gone."""
    known = node.devices if node is not None else ()
    return [known[gpu] if gpu < len(known) else str(gpu) for gpu in placement.gpus]
