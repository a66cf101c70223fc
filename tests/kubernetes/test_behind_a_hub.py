"""The scheduler as started by the chart behind an external JupyterHub, configured as documented."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import psutil
import pytest

from hub_spawner.ports import any_free
from tests.kubernetes.chart import NEEDED, rendered
from tests.kubernetes.programs import eventually

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "install-on-kubernetes.md"
TOKEN = "0123456789abcdef" * 4
TESTS = "fedcba9876543210" * 4

REST = """
c.JupyterHub.bind_url = "http://127.0.0.1:{public}"
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{hub}"
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{proxy}"
c.ConfigurableHTTPProxy.command = {command!r}
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.services.append({{"name": "tests", "api_token": "{tests}"}})
c.JupyterHub.load_roles.append({{"name": "tests", "services": ["tests"], "scopes": ["admin:users", "tokens"]}})
"""


def python_of_the_page() -> str:
    (block,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return str(block)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[str]:
    """The address of a hub whose service is the scheduler."""
    from hub_spawner.proxy import bundled_proxy

    public, api, scheduler = any_free(), any_free(), any_free()
    url = f"http://127.0.0.1:{public}"
    config = python_of_the_page().replace("http://runai.runai.svc:8000", f"http://127.0.0.1:{scheduler}")
    config = config.replace('"<token>"', repr(TOKEN))
    assert TOKEN in config
    rest = REST.format(public=public, hub=api, proxy=any_free(), command=bundled_proxy(), tests=TESTS)
    (tmp_path / "jupyterhub_config.py").write_text(config + rest)

    values = {
        **NEEDED,
        "auth": "hub",
        "hub": {"apiUrl": f"http://127.0.0.1:{api}/hub/api", "existingSecret": "token"},
        # specific to this machine
        "options": {"engine": "local", "port": scheduler, "ip": "127.0.0.1", "state_dir": str(tmp_path / "state")},
    }
    manifests = rendered(tmp_path, values)
    options = json.loads(manifests["ConfigMap/runai"]["data"]["jupyter_runai_config.json"])
    (tmp_path / "options.json").write_text(json.dumps({"RunaiService": options["RunaiService"]}))
    (container,) = manifests["Deployment/runai"]["spec"]["template"]["spec"]["containers"]
    given = {entry["name"]: entry.get("value", TOKEN) for entry in container["env"]}
    assert given["JUPYTERHUB_API_TOKEN"] == TOKEN
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    serve = [sys.executable, "-m", "scheduler.cli", "serve", f"--config={tmp_path / 'options.json'}"]

    with ExitStack() as stack:
        for command, environment in (
            ([sys.executable, "-m", "jupyterhub"], {**os.environ, "PATH": path}),
            (serve, {**given, "PATH": path, "HOME": str(tmp_path)}),
        ):
            log = stack.enter_context((tmp_path / f"{command[2]}.log").open("wb"))
            process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
            stack.callback(_end, process)
        eventually("hub and scheduler answer", lambda: _answers(f"{url}/services/runai/readyz"))
        yield url


def _answers(url: str) -> bool:
    try:
        return httpx.get(url).is_success
    except httpx.TransportError:
        return False


def _end(process: subprocess.Popen[bytes]) -> None:
    children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.terminate()
    process.wait(60)
    for child in children:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()


def test_users_of_the_hub_are_who_the_hub_says(hub: str) -> None:
    own = {"Authorization": f"token {TESTS}"}

    def asks(user: str, **token: list[str]) -> httpx.Response:
        """The identity of a user at the scheduler, with their token."""
        httpx.post(f"{hub}/hub/api/users/{user}", headers=own)
        made = httpx.post(f"{hub}/hub/api/users/{user}/tokens", headers=own, json=token).raise_for_status()
        headers = {"Authorization": f"token {made.json()['token']}"}
        return httpx.get(f"{hub}/services/runai/api/v1/me", headers=headers)

    ann, boss = asks("ann").json(), asks("boss").json()
    assert (ann["name"], ann["admin"], ann["scopes"]) == ("ann", False, ["read", "submit"])
    assert (boss["name"], boss["admin"]) == ("boss", True)
    assert asks("ann", scopes=["read:users!user=ann"]).status_code == 403
    assert httpx.get(f"{hub}/services/runai/api/v1/me", headers={"Authorization": "token none"}).status_code == 401
