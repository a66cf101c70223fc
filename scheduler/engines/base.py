"""What an engine is: a place where workers run. An engine knows nothing of policy, of the API or of the store.

What must hold on every engine:
- What `launch` has accepted comes about, or is told not to: whatever dies meanwhile, each worker is started once at the
  most.
- `launch` is idempotent on (job, attempt): asked twice, also over a `kill -9` in between, it starts each worker once.
- A worker outlives the scheduler. After a restart `recover` finds every worker of the attempts it is told of, and
  says of each how it stands now: on its way, running, exited (with its status) or lost.
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
    JobId,
    Node,
    NodeName,
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

    `shares`: a worker or a session can have part of a GPU.
    `picks_gpus`: the engine chooses the GPUs of its node that a worker gets (as a device plugin does). The numbers in a
    placement then only count them: no number is known to be a certain GPU, and the nodes have no `devices`.
    `images`: a job can choose the image that its workers run in.
    `shared_folders`: workers see the folders of who submits at the same paths. Without it a job has only what was sent.
    """

    shares: bool = True
    picks_gpus: bool = False
    images: bool = False
    shared_folders: bool = True


class WorkerState(StrEnum):
    """`pending → pulling → running → exited`, of which the first two are told where they take their time.

    `pending` waits for its node to begin, `pulling` for what it runs in. `lost` did not start, or nobody can say how it
    ended (its supervisor was killed, its node is gone).
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
    worker without one never started. `reason` tells people what the exit code does not say by itself; `fault` says who
    is to blame that a worker did not start, or was lost. `error_excerpt` is what its log ends with where it failed, for
    its owner alone to read. `throughput` is the steps a second that an exited worker has reported, where it has.
    `stopped` is whether an exited worker was told to stop before it ended; `None` where the engine can't tell, and
    their times decide.
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
    """One attempt of a job, ready to run: `workers[rank]` is where that rank stands, `nodes` has each node by name.

    Where the engine picks GPUs, those of a worker are numbered from 0, as the worker sees them.

    `env` is what the engine cannot know of the contract of a worker (`RUNAI_JOB_NAME`, `RUNAI_PROJECT`); it adds the
    rest. `user` is the job's owner. `groups` are those of the gang, where it has some: ranks run through them in order.
    `shapes` is what each rank asked for; empty where nobody has said.
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
class Seat:
    """The GPUs of a session: `workers` is where it stands, `nodes` has each node by name; both as in `Launch`."""

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
    """What a session's server must have to have its GPUs and no others: in its environment, and as a pod, where the
    engine places pods."""

    env: Mapping[str, str]
    pod: ServerPod | None = None


def addressed(workers: tuple[WorkerPlacement, ...], traits: Traits) -> tuple[WorkerPlacement, ...]:
    """A placement as the engine is told of it: with the numbers of GPUs only where they name certain GPUs."""
    if not traits.picks_gpus:
        return workers
    return tuple(replace(worker, gpus=tuple(range(len(worker.gpus)))) for worker in workers)


Report = Callable[[WorkerStatus], None]
"""Called in the event loop's thread. Reports of one worker come in order; a repeated one must be harmless."""


class Engine(ABC):
    """Where workers run."""

    @abstractmethod
    async def open(self, report: Report) -> None:
        """Make ready; from now on every change of a worker is told to `report`."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of everything and leave the workers running."""

    @abstractmethod
    async def launch(self, launch: Launch) -> None:
        """Accept an attempt, durably. What becomes of its workers is told to `report`, before this returns or later.

        One that cannot start is told as exited or lost; to stop the others is not the engine's decision. Where nothing
        of the attempt was accepted, this raises `Unavailable` (try again later) or another `RunaiError` (it is the
        job's fault).
        """

    @abstractmethod
    async def stop(self, job: JobId, attempt: int, grace: float) -> None:
        """SIGTERM now, SIGKILL after `grace` seconds, to every process of the attempt; returns at once.

        Asked for before a worker has started, it never starts. The grace period also ends when the scheduler has died.
        Asked again, the earlier end holds.
        """

    @abstractmethod
    async def recover(self, attempts: Iterable[tuple[JobId, int, int]]) -> frozenset[AttemptKey]:
        """Find the workers of `(job, attempt, world size)` again and report how each stands.

        Returns those attempts of which nothing was ever launched (to be launched now); a gang that was being launched
        is completed. Ends what runs and is not named.
        """

    @abstractmethod
    async def seat(self, seat: Seat) -> Grant:
        """Give a session its GPUs, which a plan has leased to it. Asked again, also after a restart, the same holds.

        Raises `Unavailable` where the session cannot have them now, or another `RunaiError`.
        """

    @abstractmethod
    async def unseat(self, session: SessionId) -> None:
        """Take a session's GPUs back: when this returns they are free. Harmless where it has none."""
