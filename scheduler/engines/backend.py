"""A backend: an engine with its files, nodes and leadership, chosen by the setting `engine` and found by entry point.

A package adds one by an entry point of the group `jupyter_runai.engines` that names a `Factory`:

```toml
[project.entry-points."jupyter_runai.engines"]
slurm = "runai_slurm:backend"
```
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points

from traitlets.config import Config

from scheduler.discovery.statefolder import StateFolder
from scheduler.engines.agents.agents import Agents
from scheduler.engines.base import Engine, PlacementStatus, Traits, UnplacedAttempt
from scheduler.engines.files import JobFiles
from scheduler.engines.leadership import Leadership
from scheduler.errors import Invalid
from scheduler.model import AttemptKey, Container, JobId, NodeName, UserName
from scheduler.telemetry import Inventory, Reading

GROUP = "jupyter_runai.engines"

OWN = (
    EntryPoint("local", "scheduler.engines.local.backend:local", GROUP),
    EntryPoint("kubernetes", "scheduler.engines.kubernetes.backend:kubernetes", GROUP),
)
"""The backends of this package. Others are searched for among all installed packages, which takes longer."""


@dataclass(frozen=True, slots=True)
class Setup:
    """The settings from which the service makes a backend.

    `patience` is how many seconds to wait for another scheduler that is about to end; infinite for a `standby`, which
    takes over from the leader. `config` is the whole configuration of the service, for the backend's own settings.
    """

    folder: StateFolder
    declared_gpus: int | None = None
    jobs_as: str = "scheduler"
    gpu_isolation: str = "auto"
    patience: float = 0.0
    standby: bool = False
    config: Config = field(default_factory=Config)


class Notebooks(ABC):
    """The images and volumes of users' notebook servers, as far as the engine knows them."""

    @abstractmethod
    async def container(self, user: UserName, server: str) -> Container:
        """The container of a user's server, as far as a job can have the same. `server` is the engine's name for it.

        Raises `Invalid` where it is not a server of that user, and `Unavailable` where that cannot be read now.
        """


class NodeAgents(ABC):
    """The agents that report the GPUs of nodes where the scheduler does not run."""

    @abstractmethod
    async def node(self, token: str) -> NodeName | None:
        """The node whose agent has a token; `None` if it is no agent's. Raises `Unavailable`."""

    @abstractmethod
    async def take(self, node: NodeName, run: str, readings: Sequence[Reading]) -> float:
        """Take the readings of a run of a node's agent; returns the seconds until the next request. Repeatable."""


class Delegation(ABC):
    """Has another scheduler decide when attempts start and on which nodes. `scheduler` is its name (`Kueue`)."""

    scheduler: str

    @abstractmethod
    def watch(self, report: Callable[[PlacementStatus], None], delegated: Collection[AttemptKey]) -> None:
        """Report every change of a delegated attempt. Those that may have been delegated before a restart stay in line
        until `delegate` or `withdraw` is called for them. Called before the engine is opened."""

    @abstractmethod
    async def delegate(self, wanted: UnplacedAttempt) -> None:
        """Let the other scheduler place an attempt. Idempotent on (job, attempt), also after a restart.

        Once all its workers are placed, the engine's `launch` starts them. What prevents that is reported and retried.
        """

    @abstractmethod
    async def withdraw(self, job: JobId, attempt: int) -> None:
        """Withdraw an attempt that has not been launched; no effect where it was never delegated."""


@dataclass(frozen=True, slots=True)
class LackingAttempt:
    """An attempt that waits because nodes are lacking, and the sentence that says so."""

    attempt: UnplacedAttempt
    reason: str


class Autoscaling(ABC):
    """Shows what adds nodes to the cluster which workers wait for nodes, at most `most` of them."""

    most: int

    @abstractmethod
    def show(self, lacking: Sequence[LackingAttempt]) -> None:
        """Show the workers of these attempts and no others. Returns at once; what prevents it is retried."""


@dataclass(frozen=True, slots=True)
class Backend:
    """An engine, its files, its nodes and its leadership. The parts are opened one by one, leadership first.

    `traits` describe what the engine can do: a job that needs more is refused before it is queued. `agents` answers the
    agents of its workers, where it uses agents, and `node_agents` those of its nodes. `delegation`: another scheduler
    places the jobs. `autoscaling`: nodes are added for jobs that wait. `notebooks` are the servers whose images and
    volumes jobs can share.
    `url` is the address at which its workers reach the service, where that is not its address on this machine.
    """

    engine: Engine
    files: JobFiles
    inventory: Inventory
    leadership: Leadership
    agents: Agents | None = None
    node_agents: NodeAgents | None = None
    delegation: Delegation | None = None
    autoscaling: Autoscaling | None = None
    notebooks: Notebooks | None = None
    traits: Traits = field(default_factory=Traits)
    url: str = ""


Factory = Callable[[Setup], Backend]
"""Makes a backend without opening it. Raises `Invalid` for unusable settings."""


def backend(name: str, setup: Setup) -> Backend:
    """The backend of that name. Raises `Invalid` where no installed package has one."""
    found = {entry.name: entry for entry in OWN}
    if name not in found:
        found = {entry.name: entry for entry in (*entry_points(group=GROUP), *OWN)}
    if name not in found:
        raise Invalid(f"There is no engine {name!r}; choose one of: {', '.join(sorted(found))}.", field="engine")
    factory: Factory = found[name].load()
    return factory(setup)
