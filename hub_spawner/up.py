"""`jupyter runai up`: a hub with the pool behind it, on this machine, in one command.

People log in with a password that is made at the first start; everybody's server runs as the user who started the hub,
so this is for one person, or for people who trust each other. A hub for others is wired with `hub_spawner.configure`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import deque
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_data_dir
from jupyterhub.app import JupyterHub

from hub_spawner.one_machine import ADMIN, KEPT_LOG, HubFolder, Passwords, hub_config
from hub_spawner.reconciliation import Reconciliation
from scheduler.client import AsyncClient
from scheduler.errors import Invalid, RunaiError


def main(argv: list[str] | None = None) -> int:
    """Run the hub until Ctrl-C or SIGTERM; returns the exit status."""
    options = _parser().parse_args(argv)
    as_root = hasattr(os, "geteuid") and os.geteuid() == 0
    if as_root and not options.allow_root:
        raise Invalid("This would run all notebooks as root. Use another user, or add --allow-root.")
    if options.pool_file and not options.pool_file.is_file():
        raise Invalid(f"There is no pool file {options.pool_file}.", field="pool_file")

    folder = HubFolder(options.state_dir.expanduser().absolute())
    folder.open()
    folder.lock()
    folder.check_database()
    ports = folder.ports(options.port)
    passwords = folder.passwords()
    # servers find the commands of this environment, also where it is not activated
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    config = hub_config(
        folder,
        ports,
        passwords,
        declared_gpus=options.gpus,
        pool_file=options.pool_file,
        as_root=as_root,
    )
    print(f"Starting the hub; its log is {folder.log}", flush=True)
    terminal = _log_to(folder.log)
    Hub.instance(config=config, terminal=terminal, passwords=passwords)
    try:
        Hub.launch_instance([])
    except SystemExit as stopped:
        if stopped.code:
            folder.end_proxy()
            print(f"The hub could not start. The end of {folder.log}:\n\n{_tail(folder.log)}", file=terminal)
            return 1
    print("The hub has ended. Jobs keep running, and the next start finds them again.", file=terminal)
    return 0


class Hub(JupyterHub):
    """JupyterHub, which prints its address when it is ready."""

    def __init__(self, *, terminal: Any, passwords: Passwords, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._terminal = terminal
        self._passwords = passwords

    def load_config_file(self, *args: Any, **kwargs: Any) -> None:
        """Use only the configuration made here, and no jupyterhub_config.py in the current folder."""

    async def start(self) -> None:
        await super().start()
        Reconciliation.of_hub(self.tornado_settings, self._client, self.log)
        print(await self._greeting(), file=self._terminal, flush=True)

    def _client(self) -> AsyncClient:
        lease = self.config.LeaseSpawner
        return AsyncClient(lease.scheduler_url, token=lease.scheduler_token)

    async def _greeting(self) -> str:
        async with self._client() as client:
            pool = await client.pool()
        gpus = pool.build.gpus + pool.train.gpus
        found = f"{gpus:g} declared GPUs (none was found here)" if pool.declared else f"{gpus:g} GPUs"
        return (
            f"\n    {self.bind_url}\n\n"
            f"    Log in with any name and the password  {self._passwords.user}\n"
            f"    as the administrator, {ADMIN}, with       {self._passwords.admin}\n\n"
            f"    {found}: {pool.build.gpus:g} for notebooks, {pool.train.gpus:g} for jobs.\n"
            "    Ctrl-C stops the hub; jobs keep running.\n"
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="jupyter runai up", description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--state-dir",
        type=Path,
        default=Path(jupyter_data_dir()) / "runai-hub",
        help="the folder for all state (default: %(default)s)",
    )
    parser.add_argument("--port", type=int, help="where the hub listens (default: 8000, or the next free one)")
    parser.add_argument("--gpus", type=int, help="number of GPUs to declare if none is found (default: 8)")
    parser.add_argument("--pool-file", type=Path, help="a pool file to apply at the start")
    parser.add_argument("--allow-root", action="store_true", help="run the notebooks as root")
    return parser


def _log_to(path: Path) -> Any:
    """Send what this process and its children print into the file `path`; what is returned still writes to the
    terminal."""
    if path.exists() and path.stat().st_size > KEPT_LOG:
        path.replace(path.with_suffix(".log.1"))
    terminal = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        os.dup2(log, stream.fileno())
    os.close(log)
    return terminal


def _tail(path: Path, lines: int = 20) -> str:
    with path.open(errors="replace") as file:
        return "".join(deque(file, lines))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RunaiError as error:
        sys.exit(error.sentence)
