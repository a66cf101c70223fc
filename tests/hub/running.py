"""A real hub with its real proxy, wired by `configure`, whose users get real notebook servers."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil

from hub_spawner.ports import any_free
from scheduler.client import Client
from scheduler.schema import SessionView

PATIENCE = 90.0
PASSWORD = "only-in-tests"
TOKEN = "0123456789abcdef" * 4

CONFIG = """
import os

import hub_spawner

c.JupyterHub.bind_url = "http://127.0.0.1:{public}"
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{hub}"
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{proxy}"
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = "{password}"
c.Authenticator.allow_all = True
c.Authenticator.admin_users = {{"boss"}}
c.JupyterHub.spawner_class = "{spawner}"
c.SimpleLocalProcessSpawner.home_dir_template = "{folder}/users/{{username}}"
c.Spawner.poll_interval = 1
if os.geteuid() == 0:
    c.Spawner.args = ["--allow-root"]
# the tests act as this service
c.JupyterHub.services = [{{"name": "tests", "api_token": "{token}"}}]
c.JupyterHub.load_roles = [
    {{
        "name": "tests",
        "services": ["tests"],
        "scopes": ["admin:users", "admin:groups", "admin:servers", "access:servers", "access:services", "tokens"],
    }},
    {{"name": "runai-admin", "services": ["tests"]}},
]
{more}
hub_spawner.configure(
    c, state_dir="{folder}/pool", pool_file="{folder}/pool.yaml", declared_gpus={gpus}, jobs_as={jobs_as!r}
)
"""

POOL = """
node_pools:
  - {name: build, environment: build, gpus: 2}
  - {name: train, environment: train}
projects:
  - {name: default, members: ["*"]}
users:
  - {name: half, build_quota: 0.5}
  - {name: nobody, build_quota: 0}
"""


def eventually(what: str, found: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """The result of `found` once it is true; fails with `what` after the time limit."""
    until = time.monotonic() + patience
    while not (answer := found()):
        if time.monotonic() > until:
            raise AssertionError(f"after {patience:g} s still not: {what}")
        time.sleep(0.05)
    return answer


class Hub:
    """A hub in its own folder. `api` is the hub's REST API with all rights, `scheduler` the pool's.

    `more` is added to its configuration. With `system_users`, its users are this machine's, and it has the defaults of
    `configure`.
    """

    def __init__(
        self,
        folder: Path,
        gpus: int = 4,
        *,
        system_users: bool = False,
        spawner: str = "",
        port: int | None = None,
        password: str = PASSWORD,
        more: str = "",
    ) -> None:
        self.folder = folder
        self.environment: dict[str, str] = {}
        self.hub_port = any_free()
        self.url = f"http://127.0.0.1:{(public := port or any_free())}"
        self.log = folder / "hub.log"
        (folder / "pool.yaml").write_text(POOL)
        (folder / "jupyterhub_config.py").write_text(
            CONFIG.format(
                public=public,
                hub=self.hub_port,
                proxy=any_free(),
                folder=folder,
                gpus=gpus,
                spawner=spawner or ("localprocess" if system_users else "simple"),
                jobs_as=None if system_users else "scheduler",
                password=password,
                token=TOKEN,
                more=more,
            )
        )
        self.api = httpx.Client(
            base_url=f"{self.url}/hub/api", headers={"Authorization": f"token {TOKEN}"}, timeout=PATIENCE
        )
        self.scheduler = Client(f"{self.url}/services/runai", TOKEN)
        self._browsers: list[httpx.Client] = []

    def start(self) -> None:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, **self.environment}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "jupyterhub"],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        eventually("the hub and the pool answer", self._answers)

    def _answers(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"The hub ended with {self.process.returncode}:\n{self.log.read_text()[-4000:]}")
        with contextlib.suppress(httpx.TransportError):
            return all(httpx.get(self.url + path).is_success for path in ("/hub/health", "/services/runai/readyz"))
        return False

    def kill(self) -> None:
        """Kill only the hub, as the kernel does when memory runs out."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE)

    def clean(self) -> None:
        """Clean up, whatever a test has killed."""
        if self.process.poll() is None:
            self.stop()
        clients: list[httpx.Client | Client] = [self.api, self.scheduler, *self._browsers]
        for client in clients:
            client.close()
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if str(self.folder) in " ".join([*process.cmdline(), process.cwd()]):
                    process.kill()
        with contextlib.suppress(OSError, ValueError):
            os.kill(int((self.folder / "jupyterhub-proxy.pid").read_text()), signal.SIGKILL)

    # -- users and their servers ------------------------------------------------------------------------

    def add(self, user: str) -> None:
        self.api.post(f"/users/{user}").raise_for_status()

    def scheduler_of(self, user: str) -> Client:
        """The pool's API with a token of the user."""
        answer = self.api.post(f"/users/{user}/tokens", json={}).raise_for_status()
        return Client(f"{self.url}/services/runai", answer.json()["token"])

    def spawn(self, user: str, **options: Any) -> None:
        """Start the user's server; a refusal raises AssertionError with its sentence."""
        answer = self.api.post(f"/users/{user}/server", json=options)
        if answer.is_error:
            raise AssertionError(answer.json()["message"])
        eventually(f"the server of {user} is ready", lambda: self._ready(user))

    def _ready(self, user: str) -> bool:
        server = self.server(user)
        if server is None:
            raise AssertionError(f"The server of {user} has failed:\n{self.log.read_text()[-4000:]}")
        return bool(server["ready"])

    def server(self, user: str) -> dict[str, Any] | None:
        found: dict[str, Any] = self.api.get(f"/users/{user}").raise_for_status().json()["servers"]
        return found.get("")

    def stop_server(self, user: str) -> None:
        self.api.delete(f"/users/{user}/server").raise_for_status()
        eventually(f"the server of {user} has stopped", lambda: self.server(user) is None)

    def server_process(self, user: str) -> psutil.Process:
        """The process of the user's server."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                environment = process.environ()
                if environment.get("HOME") == f"{self.folder}/users/{user}" and "singleuser" in " ".join(
                    process.cmdline()
                ):
                    return process
        raise AssertionError(f"{user} has no server process")

    def session(self, user: str) -> SessionView | None:
        return next((session for session in self.scheduler.sessions() if session.user == user), None)

    def login(self, user: str) -> httpx.Client:
        """A browser's cookies, from the login page."""
        browser = httpx.Client(base_url=self.url, follow_redirects=True, timeout=PATIENCE)
        self._browsers.append(browser)
        page = browser.get("/hub/login")
        xsrf = re.search(r'name="_xsrf"\s+value="([^"]+)"', page.text)
        assert xsrf, page.text
        form = {"username": user, "password": PASSWORD, "_xsrf": xsrf.group(1)}
        browser.post("/hub/login?next=%2Fhub%2Fhome", data=form).raise_for_status()
        return browser
