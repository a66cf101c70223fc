"""A hub for one machine, and the folder with all its state.

What must hold: one hub for a folder; the folder is closed to others; addresses and passwords stay the same from one
start to the next, so that servers which outlived a hub (`kill -9`) find the next one, and people their way in. They are
durable before they are published; a damaged file is created again, and the greeting says so.

    hub/      the hub's database, keys, addresses, passwords and log
    pool/     the scheduler's state folder
    users/    one home folder for each user
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import signal
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from traitlets.config import Config

from hub_spawner.ports import any_free, is_free
from hub_spawner.spawners import SimpleLeaseSpawner
from hub_spawner.wiring import configure
from scheduler.discovery.statefolder import read_secret, write_durably
from scheduler.errors import Conflict, Invalid
from scheduler.files.locks import FileLock, Held

ADMIN = "admin"
FIRST_PORT = 8000
KEPT_LOG = 10 * 2**20
"""The size in bytes up to which the next start appends to a log."""


@dataclass(frozen=True)
class Ports:
    """The ports of the hub and of its parts."""

    public: int
    hub: int
    proxy: int


@dataclass(frozen=True)
class Passwords:
    """The password for all users, and the administrator's."""

    user: str
    admin: str


class HubFolder:
    """The folder. `lock` it before anything else."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.hub = path / "hub"
        self.pool = path / "pool"
        self.users = path / "users"
        self.log = self.hub / "hub.log"
        self._lock = FileLock(self.hub / "lock")

    def open(self) -> None:
        try:
            for folder in (self.path, self.hub, self.pool, self.users):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise Invalid(
                f"{self.path} cannot be the hub's folder ({error.strerror}); choose another with --state-dir."
            ) from error

    def lock(self) -> None:
        """Lock the folder until this process ends. Raises `Conflict` where another hub holds it."""
        try:
            self._lock.take()
        except Held:
            raise Conflict(
                f"A hub already runs in {self.path}; stop it first, or choose another folder with --state-dir."
            ) from None

    def jupyter_config(self) -> Path:
        """A Jupyter configuration folder for the servers: JupyterLab does not fetch its news, and terminals find
        `jupyter`."""
        defaults = self.hub / "jupyter" / "labconfig" / "default_setting_overrides.json"
        defaults.parent.mkdir(parents=True, exist_ok=True)
        write_durably(defaults, json.dumps({"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}))
        # The profile of a login shell resets PATH: prepend this environment after it, in the user's own shell.
        first = shlex.quote(str(Path(sys.executable).parent))
        shell = ["/bin/sh", "-l", "-c", f'export PATH={first}:"$PATH"; exec "${{SHELL:-/bin/sh}}"']
        settings = {"ServerApp": {"terminado_settings": {"shell_command": shell}}}
        write_durably(defaults.parents[1] / "jupyter_server_config.json", json.dumps(settings))
        return defaults.parents[1]

    def passwords(self) -> Passwords:
        path = self.hub / "passwords.json"
        found = _read(path)
        if all(isinstance(found.get(name), str) and found[name] for name in ("user", "admin")):
            return Passwords(found["user"], found["admin"])
        made = Passwords(user=secrets.token_hex(6), admin=secrets.token_hex(16))
        write_durably(path, json.dumps(asdict(made)))
        return made

    def cookie_secret(self) -> Path:
        """The secret that keeps users logged in; JupyterHub would write it without waiting for the disk."""
        path = self.hub / "cookie_secret"
        if not re.fullmatch("[0-9a-f]{64}", read_secret(path) or ""):
            write_durably(path, secrets.token_hex(32))
        return path

    def ports(self, wanted: int | None) -> Ports:
        """The ports of the last start if they are free; else other ones, the first from 8000 on."""
        path = self.hub / "ports.json"
        last = _ports(_read(path))
        proxy_left = self._proxy_runs()
        if last and wanted in (None, last.public) and (proxy_left or is_free(last.public)):
            public = last.public
        elif wanted:
            if not is_free(wanted):
                raise Conflict(f"Port {wanted} is taken; choose another with --port.")
            public = wanted
        else:
            public = next((port for port in range(FIRST_PORT, FIRST_PORT + 100) if is_free(port)), any_free())
        if last and is_free(last.hub) and (proxy_left or is_free(last.proxy)):
            ports = Ports(public, last.hub, last.proxy)
        else:
            ports = Ports(public, any_free(), any_free())
        write_durably(path, json.dumps(asdict(ports)))
        return ports

    @property
    def database(self) -> Path:
        return self.hub / "jupyterhub.sqlite"

    def check_database(self) -> None:
        """Raises `Invalid` where the hub's database is damaged: the hub itself would end with a traceback."""
        if not self.database.exists():
            return
        try:
            with closing(sqlite3.connect(self.database)) as connection:
                found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        except sqlite3.DatabaseError as error:
            found = str(error)
        if found != "ok":
            raise Invalid(
                f"The hub's database {self.database} is damaged ({found.strip()}). Restore it from a backup, or move "
                f"it to "
                "another folder to start with a new one; all users must then restart their servers."
            )

    @property
    def proxy_pid(self) -> Path:
        return self.hub / "proxy.pid"

    def end_proxy(self) -> None:
        """End the proxy of a hub that could not start, which the hub itself leaves behind."""
        if self._proxy_runs():
            os.kill(int(self.proxy_pid.read_text()), signal.SIGTERM)
            self.proxy_pid.unlink()

    def _proxy_runs(self) -> bool:
        """Whether the proxy of a hub that is gone still runs; a file that names no such process is removed."""
        try:
            pid = int(self.proxy_pid.read_text())
            command = Path(f"/proc/{pid}/cmdline").read_text()
        except (OSError, ValueError):
            command = ""
        if "configurable-http-proxy" in command:
            return True
        self.proxy_pid.unlink(missing_ok=True)  # the number may belong to another process now
        return False


def hub_config(
    folder: HubFolder,
    ports: Ports,
    passwords: Passwords,
    *,
    declared_gpus: int | None,
    pool_file: Path | None,
    as_root: bool,
) -> Config:
    """The configuration of JupyterHub."""
    c = Config()
    hub = c.JupyterHub
    hub.bind_url = f"http://127.0.0.1:{ports.public}/"
    hub.hub_bind_url = f"http://127.0.0.1:{ports.hub}"
    hub.db_url = f"sqlite:///{folder.database}"
    hub.upgrade_db = True
    hub.cookie_secret_file = str(folder.cookie_secret())
    c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{ports.proxy}"
    c.ConfigurableHTTPProxy.pid_file = str(folder.proxy_pid)

    hub.authenticator_class = "shared-password"
    c.SharedPasswordAuthenticator.user_password = passwords.user
    c.SharedPasswordAuthenticator.admin_password = passwords.admin
    c.Authenticator.admin_users = {ADMIN}
    c.Authenticator.allow_all = True
    c.Authenticator.username_pattern = r"[a-z0-9][a-z0-9._@+-]{0,63}"  # they name folders

    c.SimpleLocalProcessSpawner.home_dir_template = str(folder.users / "{username}")
    c.LeaseSpawner.ask = "when_needed"
    c.Spawner.default_url = "/lab"
    c.Spawner.environment = {"JUPYTER_CONFIG_PATH": str(folder.jupyter_config())}
    if as_root:
        c.Spawner.args = ["--allow-root"]
    configure(
        c,
        state_dir=folder.pool,
        pool_file=pool_file,
        declared_gpus=declared_gpus,
        spawner_class=SimpleLeaseSpawner,
        jobs_as="scheduler",
    )
    return c


def _read(path: Path) -> dict[str, Any]:
    """The content of a file; empty where it is missing or damaged."""
    try:
        found = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _ports(found: Mapping[str, object]) -> Ports | None:
    public, hub, proxy = (found.get(name) for name in ("public", "hub", "proxy"))
    if not (isinstance(public, int) and isinstance(hub, int) and isinstance(proxy, int)):
        return None
    return Ports(public, hub, proxy) if all(0 < port < 2**16 for port in (public, hub, proxy)) else None
