"""The spawners of one machine, and how any other spawner gets a lease."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from jupyterhub.spawner import LocalProcessSpawner, SimpleLocalProcessSpawner, Spawner
from traitlets import default
from traitlets.utils.importstring import import_item

from hub_spawner.lease import LeaseSpawner, refusal
from hub_spawner.ports import is_taken
from hub_spawner.welcome import place_examples
from scheduler.errors import RunaiError

CGROUP = "RUNAI_CGROUP"
"""The variable of a lease that names the control group in which the driver limits the server's GPU memory."""


class _LocalLease(LeaseSpawner, LocalProcessSpawner):
    """A lease for a server that is a process of this machine; a new user finds the sample notebook.

    A notebook server that is stopped while it reads a file may hang at its end, and ignore SIGTERM. It holds its GPUs
    until it is killed, so that is not left to the hub's own timeouts, which add up to a minute.
    """

    @default("interrupt_timeout")
    def _default_interrupt_timeout(self) -> int:
        return 10

    @default("term_timeout")
    def _default_term_timeout(self) -> int:
        return 5

    async def start(self) -> tuple[str, int]:
        """Start it, and wait until it listens: the hub alone would poll less and less often, and not notice its end."""
        ip, port = await super().start()
        while not is_taken(ip, port):
            if (status := await self.poll()) is not None:
                raise refusal(
                    RunaiError(f"The notebook server ended immediately (status {status}); the hub's log says why.")
                )
            await asyncio.sleep(0.02)
        return ip, port

    async def _signal(self, sig: int) -> bool:
        """A server of an earlier hub may have ended and be a zombie: treat it as gone."""
        return not is_zombie(self.pid) and bool(await super()._signal(sig))

    def make_preexec_fn(self, name: str) -> Callable[[], None]:
        become_user: Callable[[], None] = super().make_preexec_fn(name)
        group = self.lease.env.get(CGROUP) if self.lease else None

        def preexec() -> None:
            if group:
                with suppress(OSError), open(f"{group}/cgroup.procs", "w") as file:
                    file.write("0")  # this process, and with it all that it starts
            become_user()  # from here on it runs as the user, in the user's folder
            place_examples()

        return preexec


class LocalLeaseSpawner(_LocalLease):
    """Leases for servers of the system's users. The hub runs as root, or as the one user there is."""


class SimpleLeaseSpawner(_LocalLease, SimpleLocalProcessSpawner):
    """Leases for servers of one system user: for trying things out, since the hub's users are not isolated from each
    other."""


def is_zombie(pid: int) -> bool:
    """Whether the process is a zombie, as in containers whose first process does not reap its children."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] == "Z"


def leasing(spawner: type[Spawner] | str) -> type[LeaseSpawner]:
    """`spawner` (a class, the name of one, or one of the hub's short names) with a lease; itself if it has one."""
    kind = _resolve(spawner) if isinstance(spawner, str) else spawner
    if issubclass(kind, LeaseSpawner):
        return kind
    ready_made = {LocalProcessSpawner: LocalLeaseSpawner, SimpleLocalProcessSpawner: SimpleLeaseSpawner}
    if kind in ready_made:
        return ready_made[kind]
    base: type[LeaseSpawner] = _LocalLease if issubclass(kind, LocalProcessSpawner) else LeaseSpawner
    if any(each.__module__.startswith("kubespawner.") for each in kind.__mro__):
        from hub_spawner.kube import KubeLeaseSpawner  # which needs an extra

        base = KubeLeaseSpawner
        if issubclass(base, kind):
            return base
    return type(f"Lease{kind.__name__}", (base, kind), {"__doc__": kind.__doc__})


def _resolve(name: str) -> Any:
    named = entry_points(group="jupyterhub.spawners", name=name)
    return next(iter(named)).load() if named else import_item(name)
