"""`/runai/…` of a real notebook server: who has access, what is forwarded, and the message without a scheduler."""

from __future__ import annotations

import json
import re
import socket
from typing import Any

import pytest
from tornado.httpclient import HTTPClientError

from jupyter_ext.proxy import ROUTES, Route
from scheduler.api.app import ROUTES as SCHEDULER
from scheduler.api.app import pattern
from scheduler.api.openapi import describe

# Only for other extensions' handlers; a method of this extension without a declaration of who may call it fails every
# test here.
pytestmark = pytest.mark.filterwarnings("ignore:(?s).*TermSocket:jupyter_server.utils.JupyterServerAuthWarning")

SECRET = "a-token-that-no-browser-may-see"


@pytest.fixture
def nobody_listens() -> str:
    """An address without a server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/services/runai"


@pytest.fixture
def jp_server_config(nobody_listens: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("RUNAI_URL", nobody_listens)
    monkeypatch.setenv("RUNAI_TOKEN", SECRET)
    monkeypatch.setenv("RUNAI_GPUS", "GPU-1,GPU-2")
    return {"ServerApp": {"jpserver_extensions": {"jupyter_ext": True}, "allow_unauthenticated_access": False}}


async def refused(fetch: Any, *path: str, **options: Any) -> tuple[int, Any]:
    """The status and the body of a refusal."""
    with pytest.raises(HTTPClientError) as error:
        await fetch(*path, **options)
    response = error.value.response
    assert response is not None
    assert SECRET not in response.body.decode()
    return response.code, response


PATHS = {
    "me": "me",
    "me/notices": "me/notices",
    "me/notices/test": "me/notices/test",
    "pool": "pool",
    "projects": "projects",
    "jobs": "jobs",
    r"jobs/[A-Za-z0-9_-]+": "jobs/j1",
    r"jobs/[A-Za-z0-9_-]+/explain": "jobs/j1/explain",
    r"jobs/[A-Za-z0-9_-]+/logs": "jobs/j1/logs",
    r"jobs/[A-Za-z0-9_-]+/log-times": "jobs/j1/log-times",
    r"jobs/[A-Za-z0-9_-]+/gpu-use": "jobs/j1/gpu-use",
    r"jobs/[A-Za-z0-9_-]+/display": "jobs/j1/display",
    r"jobs/[A-Za-z0-9_-]+/metrics": "jobs/j1/metrics",
    r"jobs/[A-Za-z0-9_-]+/outputs": "jobs/j1/outputs",
    r"jobs/[A-Za-z0-9_-]+/outputs/.+": "jobs/j1/outputs/a/b.txt",
    r"jobs/[A-Za-z0-9_-]+/(?:cancel|pause|resume)": "jobs/j1/cancel",
    r"jobs/[A-Za-z0-9_-]+/submission": "jobs/j1/submission",
    "reports": "reports",
    "schedules": "schedules",
    r"schedules/[A-Za-z0-9_-]+": "schedules/c1",
    r"schedules/[A-Za-z0-9_-]+/run": "schedules/c1/run",
    "sessions": "sessions",
    "events": "events",
}


NOT_FORWARDED = {
    "jobs/{job_id}/display": {"follow"},  # the panel reads displays in short requests
    "events": {"view", "shows", "all_projects"},  # the tabs of a browser share one view
}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_each_parameter_of_a_query_is_forwarded(route: Route) -> None:
    document = describe(SCHEDULER, "/")
    path = f"/api/v1/{PATHS[route.path]}"
    ((described, _),) = [each for each in SCHEDULER if re.fullmatch(pattern(each[0]), path)]
    parameters = document["paths"][described][route.method.lower()].get("parameters", [])
    known = {each["name"] for each in parameters if each["in"] == "query"}
    assert route.query == known - NOT_FORWARDED.get(described.removeprefix("/api/v1/"), set())


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_every_request_needs_a_login(route: Any, jp_fetch: Any) -> None:
    path = ("runai", "api", "v1", *PATHS[route.path].split("/"))
    options: dict[str, Any] = {"method": route.method, "headers": {"Authorization": "token wrong"}}
    if route.method in ("POST", "PATCH", "PUT"):
        options["body"] = ""
    code, _ = await refused(jp_fetch, *path, **options)
    assert code == 403


async def test_the_servers_authorizer_is_applied(jp_fetch: Any, jp_serverapp: Any) -> None:
    asked: list[tuple[str, str]] = []

    def is_authorized(handler: Any, user: Any, action: str, resource: str) -> bool:
        asked.append((action, resource))
        return False

    jp_serverapp.authorizer.is_authorized = is_authorized
    assert (await refused(jp_fetch, "runai", "api", "v1", "pool"))[0] == 403
    assert (await refused(jp_fetch, "runai", "api", "v1", "jobs", "j1", "cancel", method="POST", body=""))[0] == 403
    assert (await refused(jp_fetch, "runai", "status"))[0] == 403
    assert asked == [("read", "runai"), ("write", "runai"), ("read", "runai")]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "pool/file"),
        ("POST", "pool/apply"),
        ("POST", "jobs"),
        ("POST", "schedules"),
        ("PATCH", "sessions/s1"),
        ("DELETE", "projects/vision"),
        ("POST", "sessions"),
        ("GET", "openapi.json"),
        ("GET", "jobs/j1/outputs/../../../me"),
        ("GET", "jobs//logs"),
        ("GET", "jobs/a%2Fb"),
        ("POST", "jobs/j1/explain"),
    ],
)
async def test_unlisted_routes_are_not_forwarded(method: str, path: str, jp_fetch: Any) -> None:
    body = "" if method in ("POST", "PATCH") else None
    code, _ = await refused(jp_fetch, "runai", "api", "v1", path, method=method, body=body)
    assert code in (404, 405)


async def test_a_large_body_is_not_forwarded(jp_fetch: Any) -> None:
    path = ("runai", "api", "v1", "jobs", "j1", "cancel")
    code, response = await refused(jp_fetch, *path, method="POST", body="x" * 70_000)
    assert code == 413
    assert json.loads(response.body)["detail"] == "A request may have at most 65536 bytes."


async def test_a_scheduler_that_is_down_is_one_sentence(jp_fetch: Any) -> None:
    code, response = await refused(jp_fetch, "runai", "api", "v1", "pool")
    assert code == 503
    assert response.headers["Content-Type"] == "application/problem+json"
    problem = json.loads(response.body)
    assert problem["status"] == 503
    assert problem["detail"].startswith("The scheduler does not answer.")


async def test_the_status_says_so_too_and_names_the_lease(jp_fetch: Any) -> None:
    response = await jp_fetch("runai", "status")
    status = json.loads(response.body)
    assert (status["connected"], status["mode"], status["declared"]) == (False, "hub", None)
    assert status["message"].startswith("The scheduler does not answer.")
    assert status["lease"] == {"gpus": ["GPU-1", "GPU-2"]}
    assert SECRET not in response.body.decode()
    assert "http" not in status["message"]


async def test_a_hub_without_a_pool_is_reported(jp_fetch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RUNAI_URL")
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", SECRET)
    status = json.loads((await jp_fetch("runai", "status")).body)
    assert (status["connected"], status["mode"]) == (False, "none")
    assert "This hub has no pool" in status["message"]


async def test_polling_is_not_activity(jp_fetch: Any, jp_serverapp: Any) -> None:
    before = jp_serverapp.web_app.settings.get("api_last_activity")
    await jp_fetch("runai", "status")
    await refused(jp_fetch, "runai", "api", "v1", "pool")
    assert jp_serverapp.web_app.settings.get("api_last_activity") == before


@pytest.mark.parametrize(
    ("method", "path"),
    [("PATCH", "jobs/j1"), ("PATCH", "schedules/c1"), ("DELETE", "schedules/c1"), ("POST", "schedules/c1/run")],
)
async def test_a_cookie_changes_nothing_without_its_xsrf_token(method: str, path: str, jp_fetch: Any) -> None:
    answer = await jp_fetch("runai", "status")
    cookie = "; ".join(one.partition(";")[0] for one in answer.headers.get_list("Set-Cookie"))
    headers = {"Authorization": "", "Cookie": cookie}
    await jp_fetch("runai", "status", headers=headers)  # the cookie is a login
    body = None if method == "DELETE" else ""
    code, response = await refused(
        jp_fetch, "runai", "api", "v1", *path.split("/"), method=method, body=body, headers=headers
    )
    assert code == 403
    assert "_xsrf" in json.loads(response.body)["detail"]
