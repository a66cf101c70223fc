"""Identity behind a real JupyterHub: tokens of each scope, revoked tokens, services, groups, and a browser's login."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from jupyterhub.services.auth import HubOAuth
from tornado.httputil import HTTPHeaders

from scheduler.api.directory import HubDirectory
from scheduler.api.hub_auth import HubAuthenticator
from scheduler.errors import Unavailable
from scheduler.model import GroupName, Pool, Project, ProjectName, UserName

BASE = "/services/runai/"
ACCESS = "access:services!service=runai"


@dataclass
class Hub:
    """A running hub; `url` is its own port, `service` and `robot` the tokens of its services."""

    url: str
    service: str
    robot: str
    admin: httpx.Client

    def token(self, user: str, *scopes: str, access: bool = True) -> tuple[str, str]:
        """A new token of a user, and its id. With `access` it may be used at the service."""
        asked = [*scopes, *([ACCESS] if access else [])]
        made = self.admin.post(f"users/{user}/tokens", json={"scopes": asked})
        assert made.status_code == 201, made.text
        return made.json()["token"], made.json()["id"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("hub")
    port, service, admin, robot = free_port(), *(secrets.token_hex(16) for _ in range(3))
    environment = {
        **os.environ,
        "TEST_HUB_PORT": str(port),
        "TEST_HUB_PUBLIC_PORT": str(free_port()),
        "TEST_SERVICE_TOKEN": service,
        "TEST_ADMIN_TOKEN": admin,
        "TEST_ROBOT_TOKEN": robot,
    }
    config = Path(__file__).with_name("jupyterhub_config.py")
    log = (folder / "hub.log").open("wb")
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyterhub", "-f", str(config)],
        cwd=folder,
        env=environment,
        stdout=log,
        stderr=log,
    )
    url = f"http://127.0.0.1:{port}"
    client = httpx.Client(base_url=f"{url}/hub/api/", headers={"Authorization": f"token {admin}"}, timeout=30)
    try:
        for _ in range(600):
            assert process.poll() is None, (folder / "hub.log").read_text()
            try:
                if client.get("").status_code == 200:
                    break
            except httpx.TransportError:
                time.sleep(0.1)
        else:
            raise AssertionError((folder / "hub.log").read_text())
        for user in ("ann", "ben", "root"):
            assert client.post(f"users/{user}").status_code in (201, 409)
        yield Hub(url, service, robot, client)
    finally:
        client.close()
        process.terminate()
        process.wait(20)
        log.close()


@pytest.fixture
async def behind(hub: Hub, start: Any) -> Any:
    """The scheduler under test as that hub's service."""
    auth = HubOAuth(
        api_url=f"{hub.url}/hub/api",
        api_token=hub.service,
        base_url=BASE,
        hub_prefix="/hub/",
        oauth_client_id="service-runai",
        oauth_redirect_uri=f"{BASE}oauth_callback",
        access_scopes={ACCESS},
        cache_max_age=1,
    )
    pool = Pool(
        projects=(
            Project(ProjectName("own"), members=frozenset({UserName("ann")})),
            Project(ProjectName("vision"), groups=frozenset({GroupName("vision-team")})),
        )
    )
    return await start(authenticator=HubAuthenticator(auth), base_url=BASE, pool=pool)


async def me(service: Any, token: str) -> httpx.Response:
    async with httpx.AsyncClient(timeout=30) as http:
        return await http.get(f"{service.url}api/v1/me", headers={"Authorization": f"token {token}"})


@pytest.mark.parametrize(
    ("user", "scope", "expected"),
    [
        ("ann", "custom:runai:read", ["read"]),
        ("ann", "custom:runai:submit", ["read", "submit"]),
        ("root", "custom:runai:admin", ["read", "submit", "admin"]),
    ],
)
async def test_a_token_has_the_permissions_of_its_scopes(
    hub: Hub, behind: Any, user: str, scope: str, expected: list[str]
) -> None:
    token, _ = hub.token(user, scope)
    answer = await me(behind, token)
    assert answer.status_code == 200
    assert answer.json()["name"] == user
    assert answer.json()["scopes"] == expected


async def test_a_token_without_our_scopes_is_forbidden(hub: Hub, behind: Any) -> None:
    token, _ = hub.token("ann", "read:users:name!user")
    assert (await me(behind, token)).status_code == 403


async def test_a_token_for_another_service_is_refused(hub: Hub, behind: Any) -> None:
    """Whatever its other rights: for example, a notebook server's token for another service."""
    for scope in ("custom:runai:read", "custom:runai:submit"):
        answer = await me(behind, hub.token("ann", scope, access=False)[0])
        assert answer.status_code == 403
        assert answer.json()["detail"] == f"This needs the scope {ACCESS}, which your token does not have."


async def test_a_stream_is_not_continued_with_a_token_for_another_service(hub: Hub, behind: Any) -> None:
    """Asked again during the stream, the hub may no longer grant access to this service."""
    for access in (True, False):
        token = hub.token("ann", "custom:runai:read", access=access)[0]
        request: Any = SimpleNamespace(headers=HTTPHeaders({"Authorization": f"token {token}"}))
        handler: Any = SimpleNamespace(request=request)
        caller = await behind.app.settings["api"].authenticator.remember(handler)()
        assert (caller is not None) == access


async def test_a_reader_cannot_submit(hub: Hub, behind: Any) -> None:
    token, _ = hub.token("ann", "custom:runai:read")
    async with httpx.AsyncClient(headers={"Authorization": f"token {token}"}, timeout=30) as http:
        answer = await http.post(f"{behind.url}api/v1/jobs", json={"command": ["true"]})
    assert answer.status_code == 403
    assert "scope submit" in answer.json()["detail"]


async def test_an_unknown_token_is_refused(behind: Any) -> None:
    assert (await me(behind, "made-up")).status_code == 401


async def test_a_revoked_token_stops_working(hub: Hub, behind: Any, eventually: Any) -> None:
    token, token_id = hub.token("ann", "custom:runai:read")
    assert (await me(behind, token)).status_code == 200
    assert hub.admin.delete(f"users/ann/tokens/{token_id}").status_code == 204

    async def refused() -> bool:
        return (await me(behind, token)).status_code == 401

    await eventually(refused)


async def test_groups_of_the_hub_are_members_of_projects(hub: Hub, behind: Any) -> None:
    ann, ben = hub.token("ann", "custom:runai:submit")[0], hub.token("ben", "custom:runai:submit")[0]
    assert (await me(behind, ann)).json()["projects"] == ["own"]
    assert (await me(behind, ben)).json()["projects"] == ["vision"]


async def test_the_directory_has_the_hubs_users_and_says_which_scope_is_missing(hub: Hub) -> None:
    asks = SimpleNamespace(api_url=f"{hub.url}/hub/api", certfile="", keyfile="", client_ca="")
    asks.api_token = hub.admin.headers["Authorization"].split()[1]
    users = {user.name: user for user in await HubDirectory(asks).users()}
    assert users[UserName("ben")].groups == {"vision-team"}
    assert {"ann", "ben", "root"} <= users.keys()
    asks.api_token = hub.service
    with pytest.raises(Unavailable, match="add the scope list:users to the role"):
        await HubDirectory(asks).users()
    with pytest.raises(Unavailable, match="add the scope delete:servers to the role"):
        await HubDirectory(asks).stop_server(UserName("ann"), "")
    asks.api_url = f"http://127.0.0.1:{free_port()}/hub/api"
    with pytest.raises(Unavailable, match="The hub does not answer"):
        await HubDirectory(asks).users()


async def test_a_user_who_has_just_come_is_in_the_directory(hub: Hub) -> None:
    token = hub.admin.headers["Authorization"].split()[1]
    directory = HubDirectory(
        SimpleNamespace(api_url=f"{hub.url}/hub/api", api_token=token, certfile="", keyfile="", client_ca="")
    )
    assert await directory.user(UserName("nora")) is None
    hub.admin.post("users/nora").raise_for_status()
    nora = await directory.user(UserName("nora"))
    assert nora is not None
    assert nora.groups == frozenset()


async def test_the_services_own_token_has_the_admin_scope(hub: Hub, behind: Any) -> None:
    answer = (await me(behind, hub.service)).json()
    assert answer["name"] == "service/runai"
    assert answer["admin"]


async def test_another_service_is_not_the_user_of_its_name(hub: Hub, behind: Any) -> None:
    answer = (await me(behind, hub.robot)).json()
    assert answer["name"] == "service/ann"
    assert answer["scopes"] == ["read", "submit"]
    assert answer["projects"] == []


class Browser:
    """Follows redirects between the hub and the service as with a proxy in front of both."""

    def __init__(self, hub: Hub, service: Any) -> None:
        self._hub, self._service = hub.url, service.url.removesuffix(BASE)
        self.http = httpx.AsyncClient(timeout=30)
        self.seen: list[httpx.Response] = []

    def _at(self, path: str) -> str:
        return (self._service if path.startswith(BASE) else self._hub) + path

    async def get(self, path: str, **options: Any) -> httpx.Response:
        for _ in range(10):
            answer = await self.http.get(self._at(path), headers={"Sec-Fetch-Mode": "navigate"}, **options)
            self.seen.append(answer)
            if not answer.is_redirect:
                return answer
            target = urlsplit(answer.headers["Location"])
            path = target.path + (f"?{target.query}" if target.query else "")
        raise AssertionError("redirected for ever")

    async def log_in(self, user: str) -> None:
        form = await self.get("/hub/login")
        xsrf = form.cookies.get("_xsrf") or self.http.cookies.get("_xsrf", path="/hub/")
        answer = await self.http.post(
            self._at("/hub/login"), data={"username": user, "password": "let-me-in", "_xsrf": xsrf}
        )
        assert answer.status_code == 302, answer.text


@pytest.fixture
async def browser(hub: Hub, behind: Any) -> AsyncIterator[Browser]:
    found = Browser(hub, behind)
    yield found
    await found.http.aclose()


@pytest.mark.parametrize(
    ("path", "allowed"),
    [("", "GET"), ("static/admin.js", "GET, HEAD"), ("api/v1/jobs", "GET, POST"), ("api/v1/me", "GET")],
)
async def test_a_wrong_method_is_refused_with_the_allowed_ones(behind: Any, path: str, allowed: str) -> None:
    async with httpx.AsyncClient() as http:
        for method in ("PATCH", "BREW"):
            answer = await http.request(method, behind.url + path)
            assert (answer.status_code, answer.headers["Allow"]) == (405, allowed)


async def test_a_browser_without_a_login_is_redirected_to_the_hub(behind: Any) -> None:
    async with httpx.AsyncClient() as http:
        answer = await http.get(behind.url)
    assert answer.status_code == 302
    assert answer.headers["Location"].startswith("/hub/api/oauth2/authorize")
    assert "code_challenge=" in answer.headers["Location"]


async def test_a_browser_logs_in_through_the_hub_and_sees_the_page(browser: Browser) -> None:
    await browser.log_in("ann")
    page = await browser.get(BASE)
    assert page.status_code == 200, page.text
    assert 'id="runai-admin"' in page.text
    assert f'data-base-url="{BASE}"' in page.text
    assert 'href="/hub/home"' in page.text
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert "unsafe" not in page.headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
    assert page.headers["Cache-Control"] == "no-store"


async def test_requests_from_another_site_have_no_cookie(browser: Browser) -> None:
    await browser.log_in("ann")
    answer = await browser.get(BASE)
    (login,) = [
        cookie
        for response in browser.seen
        for cookie in response.headers.get_list("Set-Cookie")
        if cookie.startswith("service-runai=")
    ]
    assert answer.status_code == 200
    assert "SameSite=Lax" in login
    assert "HttpOnly" in login


async def test_a_cookie_reads_but_changes_nothing_without_its_xsrf_token(browser: Browser, behind: Any) -> None:
    await browser.log_in("ann")
    assert (await browser.get(BASE)).status_code == 200
    xsrf = browser.http.cookies.get("_xsrf", path=BASE)
    url = f"{behind.url}api/v1/"
    assert (await browser.http.get(f"{url}me")).json()["name"] == "ann"

    async def submit(**headers: str) -> int:
        return (await browser.http.post(f"{url}jobs", json={"command": ["true"]}, headers=headers)).status_code

    assert await submit() == 401
    assert await submit(**{"Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "cross-site"}) == 401
    assert await submit(**{"Sec-Fetch-Mode": "no-cors"}) == 401
    assert await submit(**{"X-XSRFToken": "made-up"}) == 401
    assert await submit(**{"X-XSRFToken": str(xsrf), "Sec-Fetch-Mode": "cors"}) == 201


async def test_another_origin_cannot_read_with_the_cookie(browser: Browser, behind: Any) -> None:
    await browser.log_in("ann")
    await browser.get(BASE)
    answer = await browser.http.get(
        f"{behind.url}api/v1/me", headers={"Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "cross-site"}
    )
    assert answer.status_code == 401


async def test_a_token_in_the_url_is_ignored(hub: Hub, behind: Any) -> None:
    token, _ = hub.token("ann", "custom:runai:submit")
    async with httpx.AsyncClient() as http:
        answer = await http.get(f"{behind.url}api/v1/me", params={"token": token})
    assert answer.status_code == 401
