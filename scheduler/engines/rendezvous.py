"""How the workers of a distributed job find each other: what each framework's own scripts expect, and nothing else.

Pure: the attempt's placement, where its workers are reached and the ports that are theirs in; variables and a wrapper
out. So it serves every engine, and what is elastic needs nothing more: each attempt meets anew, at the size that it
has.

What must hold:
- A *worker* is one process with its own GPUs, which alone it sees, numbered from 0. So each is alone on its "node" as
  far as a framework counts local ranks (`LOCAL_RANK` is 0 of 1), and `torchrun` in a worker starts one process for each
  of its GPUs.
- Nothing is needed in the script: what `torchrun`, `mpirun`, `horovodrun` or a cluster would have set is there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.model import Framework, WorkerPlacement
from scheduler.worker import mpi

_BY_RANK = (Framework.TENSORFLOW, Framework.MPI)
"""Frameworks in which each worker listens; in the others only the first does."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """Where the workers of one attempt meet: by rank `workers`, the `addresses` that reach them, and `ports` (`needs`).

    `secret` is known to this attempt's workers alone.
    """

    framework: Framework
    workers: tuple[WorkerPlacement, ...]
    addresses: tuple[str, ...]
    ports: tuple[int, ...]
    secret: str

    @property
    def size(self) -> int:
        return len(self.workers)


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A file of `scheduler.worker` that a Python runs (`-I -S`) with these arguments and the job's command behind
    them."""

    file: str
    arguments: tuple[str, ...]


def needs(framework: Framework, size: int) -> int:
    """How many ports: one for each rank, on its node, or one on the node of rank 0."""
    if framework is Framework.NONE:
        return 0
    return size if framework in _BY_RANK else 1


def variables(meeting: Meeting, rank: int) -> Mapping[str, str]:
    """What a worker finds in its environment beside what every worker does."""
    match meeting.framework:
        case Framework.TORCH:
            return _torch(meeting, rank)
        case Framework.TENSORFLOW:
            return _tensorflow(meeting, rank)
        case Framework.HOROVOD:
            return _horovod(meeting, rank)
        case Framework.JAX:
            return _jax(meeting, rank)
        case Framework.MPI:
            return _mpi(meeting)
        case Framework.NONE:
            return {}


def wrapper(meeting: Meeting, rank: int) -> Wrapper | None:
    """What stands before the job's own command, where something does."""
    match meeting.framework:
        case Framework.HOROVOD if rank == 0:
            return Wrapper("horovod.py", (str(meeting.ports[0]),))
        case Framework.MPI:
            return Wrapper("mpi.py", ("worker",))
        case _:
            return None


def _torch(meeting: Meeting, rank: int) -> Mapping[str, str]:
    """For a script (`env://`), and as defaults of `torchrun`'s options (`PET_*`), which sets the former in turn."""
    address, port = meeting.addresses[0], str(meeting.ports[0])
    return {
        "MASTER_ADDR": address,
        "MASTER_PORT": port,
        "RANK": str(rank),
        "WORLD_SIZE": str(meeting.size),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "GROUP_RANK": str(rank),
        "GROUP_WORLD_SIZE": str(meeting.size),
        "PET_NNODES": str(meeting.size),
        "PET_NODE_RANK": str(rank),
        "PET_NPROC_PER_NODE": str(max(1, len(meeting.workers[rank].gpus))),
        "PET_MASTER_ADDR": address,
        "PET_MASTER_PORT": port,
    }


def _tensorflow(meeting: Meeting, rank: int) -> Mapping[str, str]:
    workers = [f"{address}:{port}" for address, port in zip(meeting.addresses, meeting.ports, strict=True)]
    return {"TF_CONFIG": json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}})}


def _horovod(meeting: Meeting, rank: int) -> Mapping[str, str]:
    """What `horovodrun --gloo` sets; its rendezvous server runs beside rank 0 (`worker/horovod.py`)."""
    return {
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": meeting.addresses[0],
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(meeting.ports[0]),
        "HOROVOD_HOSTNAME": meeting.addresses[rank],
        "HOROVOD_RANK": str(rank),
        "HOROVOD_SIZE": str(meeting.size),
        "HOROVOD_LOCAL_RANK": "0",
        "HOROVOD_LOCAL_SIZE": "1",
        "HOROVOD_CROSS_RANK": str(rank),
        "HOROVOD_CROSS_SIZE": str(meeting.size),
    }


def _jax(meeting: Meeting, rank: int) -> Mapping[str, str]:
    """What `jax.distributed.initialize()` finds without arguments.

    JAX reads the coordinator from a variable of its own, but the number of processes only from a cluster that it knows.
    So it is told of Open MPI's: those variables are set by `mpirun` for each of its processes, and JAX reads no more
    than these.
    """
    address = f"{meeting.addresses[0]}:{meeting.ports[0]}"
    gpus = len(meeting.workers[rank].gpus)
    return {
        "JAX_COORDINATOR_ADDRESS": address,
        "JAX_COORDINATOR_BIND_ADDRESS": address,
        "JAX_NUM_PROCESSES": str(meeting.size),
        "JAX_PROCESS_ID": str(rank),
        **({"JAX_LOCAL_DEVICE_IDS": ",".join(map(str, range(gpus)))} if gpus else {}),
        "OMPI_MCA_orte_hnp_uri": f"0.0;tcp://{address}",
        "OMPI_COMM_WORLD_SIZE": str(meeting.size),
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    }


def _mpi(meeting: Meeting) -> Mapping[str, str]:
    """Where each worker waits to be told of its rank by `mpirun`, which runs beside rank 0 (`worker/mpi.py`).

    That is for the workers of one machine; on several `mpirun` needs a daemon of its own on each.
    """
    waiting = [f"{address}:{port}" for address, port in zip(meeting.addresses, meeting.ports, strict=True)]
    return {mpi.WORKERS: ",".join(waiting), mpi.SECRET: meeting.secret}
