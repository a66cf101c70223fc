"""`configure` adds to the administrator's settings, overwrites nothing, and is idempotent."""

from __future__ import annotations

import re
import stat
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from jupyterhub.spawner import LocalProcessSpawner, SimpleLocalProcessSpawner, Spawner
from traitlets.config import Config

import hub_spawner
from hub_spawner import LeaseSpawner, LocalLeaseSpawner, SimpleLeaseSpawner
from scheduler.errors import Invalid


@pytest.fixture
def c() -> Config:
    return Config()


def role(c: Config, name: str) -> dict[str, Any]:
    found: dict[str, Any]
    (found,) = [role for role in c.JupyterHub.load_roles if role["name"] == name]
    return found


def service(c: Config) -> dict[str, Any]:
    found: dict[str, Any]
    (found,) = [service for service in c.JupyterHub.services if service["name"] == "runai"]
    return found


def test_an_empty_configuration_is_completed(c: Config, tmp_path: Path) -> None:
    hub_spawner.configure(c, state_dir=tmp_path, pool_file=tmp_path / "pool.yaml", declared_gpus=4, jobs_as="scheduler")
    assert c.JupyterHub.spawner_class is LocalLeaseSpawner
    assert role(c, "user")["scopes"] == ["self", "access:services!service=runai", "custom:runai:submit"]
    assert role(c, "server")["scopes"] == [
        "users:activity!user",
        "access:servers!server",
        "access:services!service=runai",
        "custom:runai:submit",
    ]
    assert role(c, "runai-service")["services"] == ["runai"]
    assert service(c)["command"][1:] == [
        "-m",
        "scheduler.service.app",
        "--auth=hub",
        f"--state-dir={tmp_path}",
        f"--pool-file={tmp_path}/pool.yaml",
        "--declared-gpus=4",
    ]
    assert service(c)["url"].startswith("http://127.0.0.1:")
    assert c.LeaseSpawner.scheduler_url == service(c)["url"] + "/services/runai"
    assert c.LeaseSpawner.scheduler_token == service(c)["api_token"]


def test_configuring_twice_changes_nothing(c: Config, tmp_path: Path) -> None:
    c.Authenticator.admin_users = {"ada"}
    hub_spawner.configure(c, state_dir=tmp_path)
    once = deepcopy(c)
    hub_spawner.configure(c, state_dir=tmp_path)
    assert c == once


def test_the_administrators_settings_are_kept(c: Config, tmp_path: Path) -> None:
    c.JupyterHub.load_roles = [
        {"name": "user", "scopes": ["self", "shares!user"], "users": ["eve"]},
        {"name": "teacher", "scopes": ["list:users"], "users": ["ada"]},
        {"name": "runai-admin", "users": ["boss"]},
    ]
    c.JupyterHub.services = [
        {"name": "cull", "command": ["cull"]},
        {"name": "runai", "environment": {"A": "1"}},
    ]
    c.JupyterHub.custom_scopes = {
        "custom:runai:read": {"description": "mine"},
        "custom:else": {"description": "x"},
    }
    c.ConfigurableHTTPProxy.command = ["my-proxy"]
    hub_spawner.configure(c, state_dir=tmp_path, admins=["ada"], admin_groups=["ops"])

    assert role(c, "user")["scopes"][:2] == ["self", "shares!user"]
    assert role(c, "user")["users"] == ["eve"]
    assert role(c, "teacher") == {"name": "teacher", "scopes": ["list:users"], "users": ["ada"]}
    assert role(c, "runai-admin")["users"] == ["boss", "ada"]
    assert role(c, "runai-admin")["groups"] == ["ops"]
    assert [known["name"] for known in c.JupyterHub.services] == ["cull", "runai"]
    assert service(c)["environment"] == {"A": "1"}
    assert c.JupyterHub.custom_scopes["custom:runai:read"] == {"description": "mine"}
    assert set(c.JupyterHub.custom_scopes) > {"custom:else", "custom:runai:admin"}
    assert c.ConfigurableHTTPProxy.command == ["my-proxy"]


def test_appended_settings_are_read_too(c: Config, tmp_path: Path) -> None:
    c.JupyterHub.services.append({"name": "cull", "command": ["cull"]})
    c.JupyterHub.template_paths.append("/somewhere")
    c.Authenticator.admin_users.update({"ada"})
    hub_spawner.configure(c, state_dir=tmp_path)
    assert [known["name"] for known in c.JupyterHub.services] == ["cull", "runai"]
    assert c.JupyterHub.template_paths[0] == "/somewhere"
    assert role(c, "runai-admin")["users"] == ["ada"]


def test_extra_user_scopes_are_not_lost(c: Config, tmp_path: Path) -> None:
    c.JupyterHub.extra_user_scopes = ["shares!user"]
    hub_spawner.configure(c, state_dir=tmp_path)
    assert "shares!user" in role(c, "user")["scopes"]


def test_hub_admins_administer_the_pool(c: Config, tmp_path: Path) -> None:
    c.Authenticator.admin_users = {"ada"}
    c.PAMAuthenticator.admin_users = {"bob"}
    hub_spawner.configure(c, state_dir=tmp_path)
    assert role(c, "runai-admin")["users"] == ["ada", "bob"]


def test_the_administrators_page_replaces_ours(c: Config, tmp_path: Path) -> None:
    own = tmp_path / "templates"
    own.mkdir()
    (own / "page.html").write_text('{% extends "templates/page.html" %}')
    c.JupyterHub.template_paths = [str(own)]
    hub_spawner.configure(c, state_dir=tmp_path)
    assert c.JupyterHub.template_paths[0] == str(own)
    assert service(c)["display"], "the hub's own list of services has the link then"


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({}, "/services/runai"),
        ({"base_url": "/jupyter/"}, "/jupyter/services/runai"),
        ({"base_url": "jupyter"}, "/jupyter/services/runai"),
        ({"bind_url": "http://:8000/jupyter"}, "/jupyter/services/runai"),
    ],
)
def test_the_address_follows_the_hubs(c: Config, tmp_path: Path, settings: dict[str, Any], url: str) -> None:
    c.JupyterHub.update(settings)
    hub_spawner.configure(c, state_dir=tmp_path)
    assert c.LeaseSpawner.scheduler_url == service(c)["url"] + url


def test_token_and_port_outlive_the_hub_and_are_kept_from_others(tmp_path: Path) -> None:
    first, second = Config(), Config()
    hub_spawner.configure(first, state_dir=tmp_path / "state")
    hub_spawner.configure(second, state_dir=tmp_path / "state")
    assert service(first) == service(second)
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "state" / "hub-token").stat().st_mode) == 0o600
    assert len(service(first)["api_token"]) == 64


@pytest.mark.parametrize("left", [b"", b"0", b"-1", b"99999", b"[", b"\xff\xfe" * 500])
@pytest.mark.parametrize("name", ["hub-token", "hub-port", "endpoint.json"])
def test_a_damaged_token_or_port_is_created_again(tmp_path: Path, name: str, left: bytes) -> None:
    first, second, third = Config(), Config(), Config()
    hub_spawner.configure(first, state_dir=tmp_path)
    (tmp_path / name).write_bytes(left)
    hub_spawner.configure(second, state_dir=tmp_path)
    assert re.fullmatch("[0-9a-f]{64}", service(second)["api_token"])
    assert re.fullmatch(r"http://127\.0\.0\.1:[1-9][0-9]{3,4}", service(second)["url"])
    hub_spawner.configure(third, state_dir=tmp_path)
    assert service(third) == service(second)


class Own(Spawner):
    """A third-party spawner."""

    async def start(self) -> None: ...

    async def stop(self, now: bool = False) -> None: ...

    async def poll(self) -> None: ...


class OwnLocal(LocalProcessSpawner):
    """A local spawner."""


class Leased(LeaseSpawner, Own):  # type: ignore[misc]
    """A spawner that already has a lease."""


@pytest.mark.parametrize(
    ("given", "bases"),
    [
        ("simple", SimpleLeaseSpawner),
        ("jupyterhub.spawner.LocalProcessSpawner", LocalLeaseSpawner),
        (SimpleLocalProcessSpawner, SimpleLeaseSpawner),
        (Own, (LeaseSpawner, Own)),
        (OwnLocal, (LeaseSpawner, OwnLocal)),
        (Leased, Leased),
    ],
)
def test_any_spawner_gets_a_lease(c: Config, tmp_path: Path, given: type | str, bases: type | tuple[type, ...]) -> None:
    c.JupyterHub.spawner_class = given
    hub_spawner.configure(c, state_dir=tmp_path, jobs_as="scheduler")
    made = c.JupyterHub.spawner_class
    if isinstance(bases, tuple):
        assert all(issubclass(made, base) for base in bases)
    else:
        assert made is bases


NAMED = [{"name": "runai", "user": "daemon"}]


@pytest.mark.parametrize(
    ("uid", "spawner", "services", "jobs_as"),
    [
        (1000, LocalProcessSpawner, [], "scheduler"),
        (1000, SimpleLocalProcessSpawner, [], "scheduler"),
        (0, LocalProcessSpawner, [], "owner"),
        (0, LocalProcessSpawner, NAMED, "scheduler"),
        (0, SimpleLocalProcessSpawner, NAMED, "scheduler"),
        (0, SimpleLocalProcessSpawner, [], None),
        (0, SimpleLocalProcessSpawner, [{"name": "other", "user": "daemon"}], None),
        (0, SimpleLocalProcessSpawner, [{"name": "runai", "user": "root"}], None),
        (0, Spawner, [], None),
    ],
)
def test_no_job_runs_as_root_by_default(
    c: Config,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    uid: int,
    spawner: type[Spawner],
    services: list[dict[str, str]],
    jobs_as: str | None,
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: uid)
    c.JupyterHub.services = services
    c.JupyterHub.spawner_class = spawner
    if jobs_as is None:
        with pytest.raises(Invalid, match="All jobs would run as root"):
            hub_spawner.configure(c, state_dir=tmp_path)
        assert not list(tmp_path.iterdir())
        hub_spawner.configure(c, state_dir=tmp_path, jobs_as="owner")  # it can be set
        assert "--jobs-as=owner" in service(c)["command"]
    else:
        hub_spawner.configure(c, state_dir=tmp_path)
        assert ("--jobs-as=owner" in service(c)["command"]) == (jobs_as == "owner")
