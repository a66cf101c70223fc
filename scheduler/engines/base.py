"""The interface of engines: an engine runs workers. It knows nothing of the policy, the API or the store.

What must hold on every engine:
- What `launch` has accepted is started, or reported as not started: whatever dies meanwhile, each worker is started at
  most once.
- `launch` is idempotent on (job, attempt): called twice, also with a `kill -9` in between, it starts each worker once.
- A worker outlives the scheduler. After a restart `recover` finds every worker of the given attempts, and reports the
  state of each: starting, running, exited (with its status) or lost.
- An exit status is never lost and never invented.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from scheduler.model import (
    AttemptKey,
    Fault,
    GpuType,
    JobId,
    Node,
    NodeName,
    NodePoolName,
    Program,
    SessionId,
    Shape,
    UserName,
    WorkerGroup,
    WorkerPlacement,
)


@dataclass(frozen=True, slots=True)
class Traits:
    """What an engine declares of itself.

    `shares`: a worker or a session can have part of a GPU. `picks_gpus`: the engine chooses which GPUs of its node a
    worker gets (as a device plugin does). The numbers in a placement then only count them: a number does not identify a
    GPU, and nodes have no `devices`. `images`: a job can choose the image that its workers run in. `shared_folders`:
    workers see the submitter's folders at the same paths. Without it a job has only the files that were sent.
    `autoscaled`: nodes are added for jobs that the present ones are too small or too few for.
    """

    shares: bool = True
    picks_gpus: bool = False
    images: bool = False
    shared_folders: bool = True
    autoscaled: bool = False


class WorkerState(StrEnum):
    """`pending → pulling → running → exited`; the first two are reported where they take time.

    `pending` waits for its node, `pulling` for its image. `lost` did not start, or its end is unknown (its supervisor
    was killed, its node is gone).
    """

    PENDING = "pending"
    PULLING = "pulling"
    RUNNING = "running"
    EXITED = "exited"
    LOST = "lost"

    @property
    def begun(self) -> bool:
        return self not in (WorkerState.PENDING, WorkerState.PULLING)

    @property
    def over(self) -> bool:
        return self in (WorkerState.EXITED, WorkerState.LOST)


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """What an engine reports of one worker.

    `exit_code` is negative for a signal, as in `subprocess`; 127 where the command could not be started. An exited
    worker without one never started. `reason` is for people and adds what the exit code does not say; `fault` is the
    cause where a worker did not start or was lost. `error_excerpt` is the end of a failed worker's log; only its owner
    may read it. `throughput` is the reported steps per second of an exited worker. `stopped` is whether an exited
    worker was asked to stop before it ended; `None` where the engine does not know, and their times decide.
    """

    job: JobId
    attempt: int
    rank: int
    state: WorkerState
    at: float
    exit_code: int | None = None
    reason: str = ""
    error_excerpt: str = ""
    throughput: float | None = None
    fault: Fault | None = None
    stopped: bool | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """One attempt of a job, ready to run: `workers[rank]` is the placement of that rank, `nodes` has each node by name.

    Where the engine picks GPUs, those of a worker are numbered from 0, as the worker sees them.

    `env` is the part of a worker's contract that the engine cannot know (`RUNAI_JOB_NAME`, `RUNAI_PROJECT`); the engine
    adds the rest. `user` is the job's owner. `groups` are those of the gang, where it has some: ranks run through them
    in order. `shapes` is the request of each rank; empty where unknown.
    """

    job: JobId
    attempt: int
    program: Program
    workers: tuple[WorkerPlacement, ...]
    nodes: Mapping[NodeName, Node]
    env: Mapping[str, str]
    user: UserName
    groups: tuple[WorkerGroup, ...] = ()
    shapes: tuple[Shape, ...] = ()


@dataclass(frozen=True, slots=True)
class UnplacedAttempt:
    """An attempt that waits for its nodes: the workers of `launch` have no node (an empty name).

    They must run on nodes of these node pools, whose GPUs are of these types, and in one domain of the topology level
    `require`. They should not run on the nodes of `avoids`.
    """

    launch: Launch
    node_pools: tuple[NodePoolName, ...]
    gpu_types: tuple[GpuType, ...] | None = None
    require: str | None = None
    avoids: tuple[NodeName, ...] = ()


@dataclass(frozen=True, slots=True)
class PlacementStatus:
    """What an engine reports of a delegated attempt: `nodes[rank]` once every worker has its node, and
    until then the `reason` for which it waits."""

    job: JobId
    attempt: int
    reason: str = ""
    nodes: tuple[NodeName, ...] = ()


@dataclass(frozen=True, slots=True)
class Seat:
    """The GPUs of a session: `workers` is its placement, `nodes` has each node by name; both as in `Launch`."""

    session: SessionId
    user: UserName
    server: str
    workers: tuple[WorkerPlacement, ...]
    nodes: Mapping[NodeName, Node]


@dataclass(frozen=True, slots=True)
class ServerPod:
    """What a session's server must have where it is a pod that the engine binds to the session's node.

    It is in `namespace`, has `labels`, leaves its node to the scheduler of that name, and its container has `limits`.
    """

    namespace: str
    labels: Mapping[str, str]
    scheduler: str
    limits: Mapping[str, str]
    tolerations: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class Grant:
    """What gives a session's server its GPUs and no others: environment variables, and pod fields where the engine
    places pods."""

    env: Mapping[str, str]
    pod: ServerPod | None = None


def addressed(workers: tuple[WorkerPlacement, ...], traits: Traits) -> tuple[WorkerPlacement, ...]:
    """A placement for the engine: with the numbers of GPUs only where they identify GPUs."""
    if not traits.picks_gpus:
        return workers
    return tuple(replace(worker, gpus=tuple(range(len(worker.gpus)))) for worker in workers)


Report = Callable[[WorkerStatus], None]
"""Called in the event loop's thread. Reports of one worker come in order; a repeated one must be harmless."""


class Engine(ABC):
    """Where workers run."""

    @abstractmethod
    async def open(self, report: Report) -> None:
        """Open the engine; from now on every change of a worker is passed to `report`."""

    @abstractmethod
    async def close(self) -> None:
        """Close the engine and leave the workers running."""

    def watch_refused(self, may_start: Callable[[JobId, int], bool]) -> None:  # noqa: B027
        """Call `may_start(job, attempt)` when an attempt that could not be started may succeed if it is tried again; an
        engine that cannot know never does. It returns whether the job waits to be tried again. Called before `open`.
        """

    @abstractmethod
    async def launch(self, launch: Launch) -> None:
        """Accept an attempt, durably. The states of its workers are passed to `report`, before this returns or later.

        A worker that cannot start is reported as exited or lost; the engine does not stop the others for it. Where
        nothing of the attempt was accepted, this raises `Unavailable` (retry later) or another `RunaiError` (the job's
        fault).
        """

    @abstractmethod
    async def stop(self, job: JobId, attempt: int, grace: float) -> None:
        """SIGTERM now, SIGKILL after `grace` seconds, to every process of the attempt; returns at once.

        A worker that has not started yet never starts. The grace period also ends when the scheduler has died. Of
        several calls the earliest end holds.
        """

    @abstractmethod
    async def ask_to_save(self, job: JobId, attempt: int, until: float) -> None:
        """Ask the running workers of an attempt to save their state: each finds a file `RUNAI_SAVE_REQUEST`. They keep
        running and are likely to be stopped at the time `until`.

        They are asked once for each `until`, also after a restart of the scheduler. Does nothing where they have ended.
        """

    @abstractmethod
    async def recover(self, attempts: Iterable[tuple[JobId, int, int]]) -> frozenset[AttemptKey]:
        """Find the workers of `(job, attempt, world size)` and report the state of each.

        Returns the attempts of which nothing was ever launched (to be launched now); a partially launched gang is
        completed. Workers of attempts that are not named are ended.
        """

    @abstractmethod
    async def seat(self, seat: Seat) -> Grant:
        """Assign a session its leased GPUs. Idempotent, also after a restart.

        Raises `Unavailable` where the session cannot have them now, or another `RunaiError`.
        """

    @abstractmethod
    async def unseat(self, session: SessionId) -> None:
        """Release a session's GPUs: when this returns they are free. Does nothing where it has none."""
