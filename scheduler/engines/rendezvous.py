"""How the workers of a distributed job find each other: what each framework's own scripts expect, and nothing else.

Pure: the attempt's placement, where its workers are reached and the ports that are theirs in; variables and a wrapper
out. So it serves every engine, and elastic jobs need nothing more: each attempt has a new rendezvous, at the size that
it has.

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
class Rendezvous:
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


def variables(rendezvous: Rendezvous, rank: int) -> Mapping[str, str]:
    """What a worker finds in its environment beside what every worker does."""
    match rendezvous.framework:
        case Framework.TORCH:
            return _torch(rendezvous, rank)
        case Framework.TENSORFLOW:
            return _tensorflow(rendezvous, rank)
        case Framework.HOROVOD:
            return _horovod(rendezvous, rank)
        case Framework.JAX:
            return _jax(rendezvous, rank)
        case Framework.MPI:
            return _mpi(rendezvous)
        case Framework.NONE:
            return {}


def wrapper(rendezvous: Rendezvous, rank: int) -> Wrapper | None:
    """What stands before the job's own command, where something does."""
    match rendezvous.framework:
        case Framework.HOROVOD if rank == 0:
            return Wrapper("horovod.py", (str(rendezvous.ports[0]),))
        case Framework.MPI:
            return Wrapper("mpi.py", ("worker",))
        case _:
            return None


def _torch(rendezvous: Rendezvous, rank: int) -> Mapping[str, str]:
    """For a script (`env://`), and as defaults of `torchrun`'s options (`PET_*`), which sets the former in turn."""
    address, port = rendezvous.addresses[0], str(rendezvous.ports[0])
    return {
        "MASTER_ADDR": address,
        "MASTER_PORT": port,
        "RANK": str(rank),
        "WORLD_SIZE": str(rendezvous.size),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "GROUP_RANK": str(rank),
        "GROUP_WORLD_SIZE": str(rendezvous.size),
        "PET_NNODES": str(rendezvous.size),
        "PET_NODE_RANK": str(rank),
        "PET_NPROC_PER_NODE": str(max(1, len(rendezvous.workers[rank].gpus))),
        "PET_MASTER_ADDR": address,
        "PET_MASTER_PORT": port,
    }


def _tensorflow(rendezvous: Rendezvous, rank: int) -> Mapping[str, str]:
    workers = [f"{address}:{port}" for address, port in zip(rendezvous.addresses, rendezvous.ports, strict=True)]
    return {"TF_CONFIG": json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}})}


def _horovod(rendezvous: Rendezvous, rank: int) -> Mapping[str, str]:
    """What `horovodrun --gloo` sets; its rendezvous server runs beside rank 0 (`worker/horovod.py`)."""
    return {
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": rendezvous.addresses[0],
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(rendezvous.ports[0]),
        "HOROVOD_HOSTNAME": rendezvous.addresses[rank],
        "HOROVOD_RANK": str(rank),
        "HOROVOD_SIZE": str(rendezvous.size),
        "HOROVOD_LOCAL_RANK": "0",
        "HOROVOD_LOCAL_SIZE": "1",
        "HOROVOD_CROSS_RANK": str(rank),
        "HOROVOD_CROSS_SIZE": str(rendezvous.size),
    }


def _jax(rendezvous: Rendezvous, rank: int) -> Mapping[str, str]:
    """What `jax.distributed.initialize()` finds without arguments.

    JAX reads the coordinator from a variable of its own, but the number of processes only from a cluster that it knows.
    So it is told of Open MPI's: those variables are set by `mpirun` for each of its processes, and JAX reads no more
    than these.
    """
    address = f"{rendezvous.addresses[0]}:{rendezvous.ports[0]}"
    gpus = len(rendezvous.workers[rank].gpus)
    return {
        "JAX_COORDINATOR_ADDRESS": address,
        "JAX_COORDINATOR_BIND_ADDRESS": address,
        "JAX_NUM_PROCESSES": str(rendezvous.size),
        "JAX_PROCESS_ID": str(rank),
        **({"JAX_LOCAL_DEVICE_IDS": ",".join(map(str, range(gpus)))} if gpus else {}),
        "OMPI_MCA_orte_hnp_uri": f"0.0;tcp://{address}",
        "OMPI_COMM_WORLD_SIZE": str(rendezvous.size),
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    }


def _mpi(rendezvous: Rendezvous) -> Mapping[str, str]:
    """Where each worker waits to be told of its rank by `mpirun`, which runs beside rank 0 (`worker/mpi.py`)."""
    waiting = [f"{address}:{port}" for address, port in zip(rendezvous.addresses, rendezvous.ports, strict=True)]
    return {mpi.WORKERS: ",".join(waiting), mpi.SECRET: rendezvous.secret}
