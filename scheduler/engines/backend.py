"""A backend: an engine with what belongs to it, chosen by the setting `engine` and found by entry point.

A package adds one by an entry point of the group `jupyter_runai.engines` that names a `Factory`:

```toml
[project.entry-points."jupyter_runai.engines"]
slurm = "runai_slurm:backend"
```
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points

from traitlets.config import Config

from scheduler.discovery.statefolder import StateFolder
from scheduler.engines.agents.agents import Agents
from scheduler.engines.base import Engine, Traits
from scheduler.engines.files import JobFiles
from scheduler.engines.leadership import Leadership
from scheduler.errors import Invalid
from scheduler.model import Container, UserName
from scheduler.telemetry import Inventory

GROUP = "jupyter_runai.engines"

OWN = (
    EntryPoint("local", "scheduler.engines.local.backend:local", GROUP),
    EntryPoint("kubernetes", "scheduler.engines.kubernetes.backend:kubernetes", GROUP),
)
"""Those of this package. The others are looked for among all installed packages, which takes its time."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What the service tells the backend that it is to make.

    `patience` is how many seconds another scheduler that is about to end is waited for; infinite for a `standby`, which
    takes over from whoever leads. `config` is the service's whole configuration, for settings of the backend's own.
    """

    folder: StateFolder
    declared_gpus: int | None = None
    jobs_as: str = "scheduler"
    patience: float = 0.0
    standby: bool = False
    config: Config = field(default_factory=Config)


class Notebooks(ABC):
    """Users' notebook servers, as far as the engine can tell what they are made of."""

    @abstractmethod
    async def container(self, user: UserName, server: str) -> Container:
        """What a user's server runs in, as far as a job can have the same. `server` is how the engine calls it.

        Raises `Invalid` where it is no server of that user's, and `Unavailable` where that cannot be read now.
        """


@dataclass(frozen=True, slots=True)
class Backend:
    """Where workers run, their files, the nodes, and who leads. Its parts are opened one by one, leadership first.

    `traits` say what the engine can do: what it cannot is refused before it is queued.
    `agents` answers the agents of its workers, where it has them run by some. `notebooks` are those whose images and
    volumes jobs have, too.
    """

    engine: Engine
    files: JobFiles
    inventory: Inventory
    leadership: Leadership
    agents: Agents | None = None
    notebooks: Notebooks | None = None
    traits: Traits = field(default_factory=Traits)


Factory = Callable[[Setup], Backend]
"""Makes a backend and opens nothing. Raises `Invalid` for settings that it cannot use."""


def backend(name: str, setup: Setup) -> Backend:
    """The backend of that name. Raises `Invalid` where no installed package has one."""
    found = {entry.name: entry for entry in OWN}
    if name not in found:
        found = {entry.name: entry for entry in (*entry_points(group=GROUP), *OWN)}
    if name not in found:
        raise Invalid(f"There is no engine {name!r}; choose one of: {', '.join(sorted(found))}.", field="engine")
    factory: Factory = found[name].load()
    return factory(setup)
