"""What a person requests: the program of a job, and the request that the policy evaluates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from scheduler.model.amounts import ONE, MiB, Milli
from scheduler.model.declared import Environment
from scheduler.model.names import ArrayId, GpuType, JobId, NodeName, NodePoolName, ProjectName, UserName

RelativeThroughputs = tuple[tuple[GpuType, Milli], ...]

Parameter = bool | int | float | str


class JobKind(StrEnum):
    """What a job runs: a notebook cell, a script, a whole notebook or any command."""

    CELL = "cell"
    SCRIPT = "script"
    NOTEBOOK = "notebook"
    COMMAND = "command"


class Framework(StrEnum):
    """How the workers of a job find each other: in the way that the framework's scripts expect, or not at all."""

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
    """A sort key of shapes: GPUs first."""
    return shape.gpus, shape.gpu_memory or 0, shape.cpus or 0, shape.memory or 0


def relative_throughputs(throughputs: Mapping[GpuType, float], best: float = 0.0) -> RelativeThroughputs:
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
    """A job's index in its array. At most `max_parallel` jobs of the array hold GPUs at the same time."""

    id: ArrayId
    index: int
    size: int
    max_parallel: int | None = None


@dataclass(frozen=True, slots=True)
class WorkerGroup:
    """Some workers of a gang, of one shape of their own: a launcher, say, or parameter servers.

    When all workers of groups with `leader` have succeeded, the job has succeeded and the others are stopped.
    """

    name: str
    workers: int
    shape: Shape
    leader: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """What a workload requests. `workers` is the most that it wants, `min_workers` the size of the gang.

    With `groups` the gang is made of workers of several shapes, whose ranks run through the groups in order; `workers`
    and `min_workers` are then all of them, and `shape` is the largest. `throughputs` is how fast jobs like it ran on
    each type of GPU, in thousandths of the fastest, and `spread_throughputs` the same over several nodes: measured,
    never requested. `avoids` names nodes that could not run it and that it avoids for a while. `build_quota` is that of
    a session's user when it was asked for; `None`: what the pool says of the user, or of all.
    """

    project: ProjectName
    user: UserName | None = None
    environment: Environment = Environment.TRAIN
    shape: Shape = Shape()
    workers: int = 1
    min_workers: int = 1
    priority: int = 50
    preemptible: bool = True
    gpu_types: tuple[GpuType, ...] | None = None
    node_pools: tuple[NodePoolName, ...] | None = None
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
    build_quota: Milli | None = None

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shape of each worker, by rank."""
        if not self.groups:
            return (self.shape,) * self.workers
        return tuple(group.shape for group in self.groups for _ in range(group.workers))

    @property
    def leaders(self) -> tuple[int, ...]:
        """The ranks whose success ends the job; empty where it ends with all of them."""
        leads = [group.leader for group in self.groups for _ in range(group.workers)]
        return tuple(rank for rank, leader in enumerate(leads) if leader)

    @property
    def gpus(self) -> Milli:
        """The GPUs of all workers together (requests by GPU memory are not counted)."""
        return sum(shape.gpus for shape in self.shapes)


def session_request(user: UserName, shape: Shape) -> Request:
    """The request of a notebook server: build GPUs, which are never reclaimed."""
    return Request(project=ProjectName(""), user=user, environment=Environment.BUILD, shape=shape, preemptible=False)


@dataclass(frozen=True, slots=True)
class LargeFile:
    """A file of a job's working directory that is stored separately: the bytes of `blobs`, concatenated."""

    path: str
    blobs: tuple[str, ...]
    executable: bool = False


@dataclass(frozen=True, slots=True)
class Container:
    """The container of a worker, where the engine runs containers: its `image` (`None`: the engine's default), and
    `volumes` with their `mounts`, each an object of the engine's API. `owner` names the object there that it goes
    with."""

    image: str | None = None
    volumes: tuple[Mapping[str, Any], ...] = ()
    mounts: tuple[Mapping[str, Any], ...] = ()
    owner: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class GitState:
    """The Git repository that a job was submitted from: its commit and branch (empty: none), and how many files of it
    differed from the commit."""

    commit: str
    branch: str = ""
    changed: int = 0


@dataclass(frozen=True, slots=True)
class NotebookCell:
    """The cell that a job was submitted from: its id, and the path of its `notebook` below the root folder of the
    notebook server."""

    notebook: str
    id: str


@dataclass(frozen=True, slots=True)
class Program:
    """What a job runs: `command` (argv) in a working directory filled from the content-addressed `bundle` and `files`.

    `outputs` are the names that a cell returns. `grace` is the time between SIGTERM and SIGKILL, `max_runtime` the
    longest time of one attempt, `idle_timeout` how long it may leave its GPUs idle, `retries` how often a failed
    attempt is retried. `parameters` are its values in a sweep, by name. `container` is what it runs in, and `git`
    and `cell` say where it is from. `may_submit`: it has a token with which it submits jobs; `submitter` is the job
    that has submitted this one in that way.
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
    git: GitState | None = None
    cell: NotebookCell | None = None
    may_submit: bool = False
    submitter: JobId | None = None

    @property
    def blobs(self) -> frozenset[str]:
        """The blobs that it needs to start."""
        parts = {blob for file in self.files for blob in file.blobs}
        return frozenset(parts if self.bundle is None else {self.bundle, *parts})
