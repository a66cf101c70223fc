"""The one call that wires a hub: spawner, scheduler, scopes, roles and the link in the navigation bar.

`configure` adds to what the administrator has set and never overwrites it; called twice it changes nothing more. It
works the same on JupyterHub 5.3 to 6. Call it at the end of `jupyterhub_config.py`, so that it sees the other settings.
"""

from __future__ import annotations

import os
import pwd
import secrets
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from jupyter_core.paths import jupyter_data_dir
from jupyterhub.spawner import LocalProcessSpawner, SimpleLocalProcessSpawner, Spawner
from traitlets.config import Config

from hub_spawner.lease import LeaseSpawner
from hub_spawner.ports import LOCAL, any_free, is_free, is_locked, lock_shared, read_port, reserve
from hub_spawner.profiles import read_profiles
from hub_spawner.proxy import bundled_proxy
from hub_spawner.spawners import LocalLeaseSpawner, leasing
from scheduler.discovery.statefolder import StateFolder, read_secret, write_durably
from scheduler.errors import Invalid

JobsAs = Literal["owner", "scheduler"]

SERVICE = "runai"
"""The scheduler's name among the hub's services, and the end of its address: `/services/runai/`."""

READ, SUBMIT, ADMIN = (f"custom:runai:{verb}" for verb in ("read", "submit", "admin"))
SCOPES: dict[str, dict[str, Any]] = {
    READ: {"description": "See the GPU pool, its projects and the jobs of your projects"},
    SUBMIT: {"description": "Send jobs to the GPU pool and manage your own jobs", "subscopes": [READ]},
    ADMIN: {"description": "Administer the GPU pool and all jobs", "subscopes": [SUBMIT]},
}
OF_THE_HUB = ("list:users", "read:users:groups", "read:users:activity", "delete:servers")
"""What the scheduler may ask of the hub: its users, and to stop a notebook server that an administrator stops."""
ACCESS = f"access:services!service={SERVICE}"
TEMPLATES = Path(__file__).parent / "templates"


def configure(
    c: Config,
    *,
    state_dir: str | Path | None = None,
    pool_file: str | Path | None = None,
    declared_gpus: int | None = None,
    spawner_class: type[Spawner] | str | None = None,
    admins: Iterable[str] | None = None,
    admin_groups: Iterable[str] = (),
    jobs_as: JobsAs | None = None,
) -> None:
    """Wire the hub whose configuration is `c`.

    `state_dir` is the scheduler's folder (default: `runai` in Jupyter's data folder, or `/var/lib/runai` where jobs run
    as their owners). `pool_file` declares projects and quotas. `declared_gpus` is how many GPUs the pool has where NVML
    finds none. `spawner_class` is what starts notebook servers (default: the one that `c` names, else local processes
    of the system's users); it is given a lease where it has none. `admins` and `admin_groups` administer the pool
    (default: the hub's `admin_users`).

    `jobs_as` is the user that runs jobs: `"owner"`, the system user who owns each, or `"scheduler"`, the user who
    runs the scheduler. Where it is left out, it is the owner if the hub runs as root and its servers are processes
    of the system's users. Raises `Invalid` where everybody's jobs would run as root unasked.
    """
    c.JupyterHub.spawner_class = _lease_spawner(c, spawner_class)
    read_profiles(_read(c.LeaseSpawner, "profiles"), c.JupyterHub.spawner_class)
    as_owner = (jobs_as or _jobs_as(c)) == "owner"
    data = "/var/lib" if as_owner else jupyter_data_dir()
    folder = Path(state_dir or Path(data) / "runai").expanduser().absolute()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    token = _token(folder)
    origin = f"http://{LOCAL}:{_port(folder, _scheduler_user(c))}"

    c.LeaseSpawner.scheduler_url = f"{origin}{_base_url(c)}services/{SERVICE}"
    c.LeaseSpawner.scheduler_token = token

    _define_scopes(c)
    extra = _read(c.JupyterHub, "extra_user_scopes")  # the hub leaves these out once the role is configured
    _extend_role(c, "user", [ACCESS, SUBMIT], base=["self", *extra])
    _extend_role(c, "server", [ACCESS, SUBMIT], base=["users:activity!user", "access:servers!server"])
    _extend_role(
        c,
        "runai-admin",
        [ACCESS, ADMIN],
        users=_admin_users(c) if admins is None else list(admins),
        groups=list(admin_groups),
    )
    _extend_role(c, "runai-service", [ACCESS, ADMIN, *OF_THE_HUB], services=[SERVICE])

    linked = _add_template(c)
    command = [
        sys.executable,
        "-m",
        "scheduler.service.app",
        "--auth=hub",
        f"--state-dir={folder}",
    ]
    if as_owner:
        command.append("--jobs-as=owner")
    if pool_file is not None:
        command.append(f"--pool-file={Path(pool_file).expanduser().absolute()}")
    if declared_gpus is not None:
        command.append(f"--declared-gpus={declared_gpus}")
    _add_service(
        c,
        {
            "name": SERVICE,
            "url": origin,
            "command": command,
            "api_token": token,
            "oauth_no_confirm": True,
            "oauth_client_allowed_scopes": [ADMIN],
            "display": not linked,
        },
    )
    _use_bundled_proxy(c)


def _read(section: Config, name: str, empty: type[Any] = list) -> Any:
    """A copy of what the administrator has set under `name`, by assignment or by `append` and the like."""
    value = section.get(name, empty())
    if hasattr(value, "get_value"):  # traitlets' LazyConfigValue
        value = value.get_value(empty())
    return empty(value or ())


def _base_url(c: Config) -> str:
    hub = c.JupyterHub
    path = hub.get("base_url") or urlsplit(hub.get("bind_url") or "").path or "/"
    return f"/{path.strip('/')}/".replace("//", "/")


def _admin_users(c: Config) -> list[str]:
    sections = [section for name, section in c.items() if name.endswith("Authenticator")]
    return sorted(set().union(*(_read(section, "admin_users", set) for section in sections)))


def _define_scopes(c: Config) -> None:
    c.JupyterHub.custom_scopes = {**SCOPES, **_read(c.JupyterHub, "custom_scopes", dict)}


def _extend_role(c: Config, name: str, scopes: list[str], *, base: Iterable[str] = (), **bearers: list[str]) -> None:
    """Add `scopes` and bearers to the role of that name; where its scopes are the hub's own, those are `base`."""
    roles = _read(c.JupyterHub, "load_roles")
    role = dict(next((role for role in roles if role["name"] == name), {"name": name}))
    role["scopes"] = _union(role.get("scopes", base), scopes)
    for kind, names in bearers.items():
        role[kind] = _union(role.get(kind, ()), names)
    c.JupyterHub.load_roles = [*(other for other in roles if other["name"] != name), role]


def _union(have: Iterable[str], more: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*have, *more]))


def _add_template(c: Config) -> bool:
    """Add our page after the administrator's; whether it is the one that the hub will show."""
    paths = _union(_read(c.JupyterHub, "template_paths"), [str(TEMPLATES)])
    c.JupyterHub.template_paths = paths
    first = next((path for path in paths if (Path(path) / "page.html").exists()), None)
    return first == str(TEMPLATES)


def _add_service(c: Config, service: dict[str, Any]) -> None:
    """Add the scheduler; the administrator's settings for a service of this name take precedence."""
    services = _read(c.JupyterHub, "services")
    for known in [known for known in services if known["name"] == service["name"]]:
        services.remove(known)
        service = {**service, **known}
    c.JupyterHub.services = [*services, service]


def _service_user(c: Config) -> str:
    """The user that the administrator has named for the scheduler; empty where it is the hub's own."""
    named = [service.get("user") for service in _read(c.JupyterHub, "services") if service["name"] == SERVICE]
    return (named and named[-1]) or ""


def _scheduler_user(c: Config) -> int:
    """The id of the user that runs the scheduler."""
    name = _service_user(c)
    if name and os.geteuid() == 0:
        with suppress(KeyError):  # the hub itself refuses a user that the system does not know
            return pwd.getpwnam(name).pw_uid
    return os.geteuid()


def _jobs_as(c: Config) -> JobsAs:
    """The user that runs jobs if the configuration does not say: never root."""
    if os.geteuid() != 0 or _service_user(c) not in ("", "root"):
        return "scheduler"
    spawner = c.JupyterHub.spawner_class
    if issubclass(spawner, LocalProcessSpawner) and not issubclass(spawner, SimpleLocalProcessSpawner):
        return "owner"
    raise Invalid(
        'All jobs would run as root: set jobs_as="owner" if the hub\'s users are users of this machine; or '
        'name a user for the scheduler before this call, c.JupyterHub.services = [{"name": "runai", "user": "…"}], and '
        'give it the state folder; or set jobs_as="scheduler" if all users are root anyway.',
        field="jobs_as",
    )


def _lease_spawner(c: Config, wanted: type[Spawner] | str | None) -> type[LeaseSpawner]:
    chosen = wanted or c.JupyterHub.get("spawner_class")
    return leasing(chosen) if chosen else LocalLeaseSpawner


def _use_bundled_proxy(c: Config) -> None:
    """Start the proxy that comes with this package, unless the administrator chose one or has one installed."""
    if "command" in c.ConfigurableHTTPProxy or "proxy_class" in c.JupyterHub:
        return
    if command := bundled_proxy():
        c.ConfigurableHTTPProxy.command = command


def _token(folder: Path) -> str:
    """The token of hub and scheduler: stored, so that it outlives a crash of either."""
    path = folder / "hub-token"
    token = read_secret(path)
    if token is None:
        token = secrets.token_hex(32)
        write_durably(path, token)
    return token


def _port(folder: Path, owner: int) -> int:
    """The scheduler's port: the one it had before, since notebook servers that keep running know it, else a free one.

    This process reserves it, so that while the scheduler is down no other user can listen there and be sent tokens.
    """
    path = folder / "hub-port"
    port = read_port(path)
    # In this order: the holder releases the port before the lock, so one of the two is seen.
    if port is None or not ((_is_ours(folder, port) or is_free(port)) and reserve(port, owner)):
        port = any_free()
        while not reserve(port, owner):
            port = any_free()
        write_durably(path, str(port))
    lock_shared(path)
    return port


def _is_ours(folder: Path, port: int) -> bool:
    """Whether a hub of this folder has reserved the port, or a scheduler that a killed hub has left still listens
    there."""
    endpoint = StateFolder(folder).endpoint()
    return is_locked(folder / "hub-port") or (endpoint is not None and f":{port}/" in endpoint.url)
