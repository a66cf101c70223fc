"""What a person asks for: the program of a job, and the request that the policy judges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from scheduler.model.amounts import ONE, MiB, Milli
from scheduler.model.declared import Environment
from scheduler.model.names import JobId, NodeName, ProjectName, UserName

RelativeThroughputs = tuple[tuple[str, Milli], ...]

Parameter = bool | int | float | str


class JobKind(StrEnum):
    """What a job runs: a notebook cell, a script, a whole notebook or any command."""

    CELL = "cell"
    SCRIPT = "script"
    NOTEBOOK = "notebook"
    COMMAND = "command"


class Framework(StrEnum):
    """How the workers of a job find each other: as scripts written for this framework expect it, or not at all."""

    NONE = "none"
    TORCH = "torch"
    TENSORFLOW = "tensorflow"
    HOROVOD = "horovod"
    JAX = "jax"
    MPI = "mpi"


@dataclass(frozen=True, slots=True)
class Shape:
    """What one worker needs: `gpus` (whole ones, or a share of one below 1000), or `gpu_memory` on one GPU instead."""

    gpus: Milli = ONE
    gpu_memory: MiB | None = None
    cpus: Milli | None = None
    memory: MiB | None = None


def size_of(shape: Shape) -> tuple[int, int, int, int]:
    """What a shape is compared by: its GPUs first."""
    return shape.gpus, shape.gpu_memory or 0, shape.cpus or 0, shape.memory or 0


def relative_throughputs(throughputs: Mapping[str, float], best: float = 0.0) -> RelativeThroughputs:
    """Throughputs by type of GPU, of any unit, in thousandths of the fastest (or of `best`), by name."""
    best = best or max(throughputs.values(), default=0)
    return tuple((name, max(1, round(ONE * throughput / best))) for name, throughput in sorted(throughputs.items()))


@dataclass(frozen=True, slots=True)
class After:
    """Another job that must have succeeded, or only ended (`afterany`), before this one may start."""

    job: JobId
    afterany: bool = False


@dataclass(frozen=True, slots=True)
class ArrayPlace:
    """A job's place among the many that were sent as one. At most `max_parallel` of them hold GPUs at the same time."""

    id: str
    index: int
    size: int
    max_parallel: int | None = None


@dataclass(frozen=True, slots=True)
class WorkerGroup:
    """Some workers of a gang, of one shape of their own: a launcher, say, or parameter servers.

    When all that are a `leader` have ended well the job has succeeded, and the others are stopped.
    """

    name: str
    workers: int
    shape: Shape
    leader: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """What a workload asks of the scheduler. `workers` is the most it wants, `min_workers` the gang.

    With `groups` the gang is made of workers of several shapes, whose ranks run through the groups in order; `workers`
    and `min_workers` are then all of them, and `shape` is the largest. `throughputs` is how fast jobs like it have run
    on which type of GPU, in thousandths of the fastest, and `spread_throughputs` the same over several nodes: measured,
    never asked for. `avoids` names nodes that could not run it, for as long as it stays away from them.
    """

    project: ProjectName
    user: UserName | None = None
    environment: Environment = Environment.TRAIN
    shape: Shape = Shape()
    workers: int = 1
    min_workers: int = 1
    priority: int = 50
    preemptible: bool = True
    gpu_types: tuple[str, ...] | None = None
    node_pools: tuple[str, ...] | None = None
    require: str | None = None
    prefer: str | None = None
    min_runtime: float = 0.0
    expected_runtime: float | None = None
    after: tuple[After, ...] = ()
    array: ArrayPlace | None = None
    groups: tuple[WorkerGroup, ...] = ()
    throughputs: RelativeThroughputs = ()
    spread_throughputs: RelativeThroughputs = ()
    avoids: tuple[NodeName, ...] = ()

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shape of each worker, by rank."""
        if not self.groups:
            return (self.shape,) * self.workers
        return tuple(group.shape for group in self.groups for _ in range(group.workers))

    @property
    def leaders(self) -> tuple[int, ...]:
        """The ranks with whose good end the job ends; none where it ends with all of them."""
        leads = [group.leader for group in self.groups for _ in range(group.workers)]
        return tuple(rank for rank, leader in enumerate(leads) if leader)

    @property
    def gpus(self) -> Milli:
        """What all workers together ask for (memory on a GPU is not counted)."""
        return sum(shape.gpus for shape in self.shapes)


def session_request(user: UserName, shape: Shape) -> Request:
    """What a notebook server asks for: build GPUs, which nobody takes back."""
    return Request(project=ProjectName(""), user=user, environment=Environment.BUILD, shape=shape, preemptible=False)


@dataclass(frozen=True, slots=True)
class LargeFile:
    """A file of a job's working directory that is kept by itself: the bytes of `blobs`, one after the other."""

    path: str
    blobs: tuple[str, ...]
    executable: bool = False


@dataclass(frozen=True, slots=True)
class Container:
    """What a worker's container is made of, where the engine runs containers: its `image` (`None`: the engine's own),
    and `volumes` with their `mounts`, each an object as the engine's API has it."""

    image: str | None = None
    volumes: tuple[Mapping[str, Any], ...] = ()
    mounts: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Program:
    """What a job runs: `command` (argv) in a working directory filled from the content-addressed `bundle` and `files`.

    `outputs` are the names a cell brings back. `grace` is the time between SIGTERM and SIGKILL,
    `max_runtime` the longest that one attempt may take, `idle_timeout` how long it may leave its GPUs idle,
    `retries` how often a failed attempt is tried again.
    `parameters` are values by name that tell it from the other jobs of a sweep. `container` is what it runs in.
    """

    kind: JobKind
    command: tuple[str, ...]
    bundle: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    grace: float = 30.0
    max_runtime: float | None = None
    idle_timeout: float | None = None
    retries: int = 0
    files: tuple[LargeFile, ...] = ()
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    framework: Framework = Framework.NONE
    container: Container = Container()

    @property
    def blobs(self) -> frozenset[str]:
        """Everything of the store of blobs that it needs to start."""
        parts = {blob for file in self.files for blob in file.blobs}
        return frozenset(parts if self.bundle is None else {self.bundle, *parts})
