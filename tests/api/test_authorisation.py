"""The response of every route to every caller: the table of scopes as data, checked both ways."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from scheduler.api.app import ROUTES
from scheduler.discovery.statefolder import StateFolder
from scheduler.engines.agents.agents import Agents
from scheduler.engines.backend import NodeAgents, Setup
from scheduler.engines.local.backend import local
from scheduler.engines.rendezvous import Rendezvous
from scheduler.model import JobState, NodeName
from scheduler.telemetry import Reading
from tests.api.conftest import OF_JOBS, Service, Start
from tests.engines.workplace import launch

EVERYBODY = ("nobody", "wrong", "powerless", "reader", "owner", "mate", "stranger", "admin", "worker", "node", "job")

OPEN = {("/healthz", "GET"), ("/readyz", "GET"), ("/api/v1/openapi.json", "GET")}
"""The only routes that need no credentials."""

# The columns are EVERYBODY's. The worker has the token of its attempt, the node that of its agent, the job that of a
# job of the owner's that may submit; it has not submitted the jobs of this table.
# Job, bundle and session are the owner's; the mate and the reader are in their project.
TABLE = """
GET    /api/v1/me                            401 401 403 200 200 200 200 200 401 401 403
GET    /api/v1/pool                          401 401 403 200 200 200 200 200 401 401 403
GET    /api/v1/policies                      401 401 403 403 403 403 403 200 401 401 403
GET    /api/v1/pool/file                     401 401 403 403 403 403 403 200 401 401 403
POST   /api/v1/pool/apply                    401 401 403 403 403 403 403 200 401 401 403
POST   /api/v1/pool/preview                  401 401 403 403 403 403 403 200 401 401 403
GET    /api/v1/pool/snapshot                 401 401 403 403 403 403 403 200 401 401 403
GET    /api/v1/pool/history                  401 401 403 403 403 403 403 200 401 401 403
GET    /api/v1/audit                         401 401 403 403 403 403 403 200 401 401 403
GET    /api/v1/usage                         401 401 403 200 200 200 200 200 401 401 403
GET    /api/v1/usage.csv                     401 401 403 200 200 200 200 200 401 401 403
GET    /api/v1/usage/forecast                401 401 403 403 403 403 403 200 401 401 403
GET    /api/v1/usage/record                  401 401 403 403 403 403 403 200 401 401 403
POST   /api/v1/usage/what-if                 401 401 403 403 403 403 403 422 401 401 403
PUT    /api/v1/nodes/{node}/drain            401 401 403 403 403 403 403 204 401 401 403
DELETE /api/v1/nodes/{node}/drain            401 401 403 403 403 403 403 204 401 401 403
PUT    /api/v1/nodes/{node}/node-pool        401 401 403 403 403 403 403 200 401 401 403
GET    /api/v1/nodes/{node}/gpus             401 401 403 200 200 200 200 200 401 401 403
GET    /api/v1/nodes/{node}/gpus/{gpu}/history 401 401 403 200 200 200 200 200 401 401 403
GET    /api/v1/projects                      401 401 403 200 200 200 200 200 401 401 403
GET    /api/v1/projects/{name}               401 401 403 200 200 200 200 200 401 401 403
PUT    /api/v1/projects/{name}               401 401 403 403 403 403 403 200 401 401 403
DELETE /api/v1/projects/{name}               401 401 403 403 403 403 403 204 401 401 403
POST   /api/v1/jobs                          401 401 403 403 201 201 403 201 401 401 201
POST   /api/v1/jobs/check                    401 401 403 403 204 204 403 204 401 401 403
POST   /api/v1/jobs/dry-run                  401 401 403 403 200 200 403 200 401 401 403
POST   /api/v1/arrays                        401 401 403 403 201 201 403 201 401 401 403
GET    /api/v1/jobs                          401 401 403 200 200 200 200 200 401 401 403
GET    /api/v1/jobs/{job_id}                 401 401 403 200 200 200 404 200 401 401 404
DELETE /api/v1/jobs/{job_id}                 401 401 403 403 409 403 404 409 401 401 403
GET    /api/v1/jobs/{job_id}/explain         401 401 403 200 200 200 404 200 401 401 403
GET    /api/v1/jobs/{job_id}/submission      401 401 403 403 200 403 404 403 401 401 403
PATCH  /api/v1/jobs/{job_id}                 401 401 403 403 200 403 404 200 401 401 403
POST   /api/v1/jobs/{job_id}/cancel          401 401 403 403 200 403 404 200 401 401 404
POST   /api/v1/jobs/{job_id}/pause           401 401 403 403 200 403 404 200 401 401 403
POST   /api/v1/jobs/{job_id}/resume          401 401 403 403 200 403 404 200 401 401 403
GET    /api/v1/jobs/{job_id}/logs            401 401 403 403 200 403 404 403 401 401 403
GET    /api/v1/jobs/{job_id}/gpu-use         401 401 403 200 200 200 404 200 401 401 403
GET    /api/v1/jobs/{job_id}/log-times       401 401 403 403 200 403 404 403 401 401 403
GET    /api/v1/jobs/{job_id}/display         401 401 403 403 200 403 404 403 401 401 403
GET    /api/v1/jobs/{job_id}/metrics         401 401 403 403 200 403 404 403 401 401 404
GET    /api/v1/reports                       401 401 403 403 200 200 200 200 401 401 403
GET    /api/v1/jobs/{job_id}/outputs         401 401 403 403 200 403 404 403 401 401 403
GET    /api/v1/jobs/{job_id}/outputs/{path}  401 401 403 403 200 403 404 403 401 401 403
HEAD   /api/v1/blobs/{digest}                401 401 403 403 200 404 404 404 401 401 403
PUT    /api/v1/blobs/{digest}                401 401 403 403 200 200 200 200 401 401 403
POST   /api/v1/sessions                      401 401 403 403 201 403 403 201 401 401 403
GET    /api/v1/sessions                      401 401 403 200 200 200 200 200 401 401 403
DELETE /api/v1/sessions/{session_id}         401 401 403 403 200 404 404 200 401 401 403
POST   /api/v1/sessions/{session_id}/stop    401 401 403 403 204 404 404 204 401 401 403
POST   /api/v1/sessions/activity             401 401 403 403 200 404 404 404 401 401 403
GET    /api/v1/me/notices                    401 401 403 403 200 200 200 200 401 401 403
PUT    /api/v1/me/notices                    401 401 403 403 200 200 200 200 401 401 403
POST   /api/v1/me/notices/test               401 401 403 403 422 422 422 422 401 401 403
POST   /api/v1/schedules                     401 401 403 403 201 201 403 403 401 401 403
GET    /api/v1/schedules                     401 401 403 200 200 200 200 200 401 401 403
GET    /api/v1/schedules/{schedule}          401 401 403 404 200 404 404 404 401 401 403
PATCH  /api/v1/schedules/{schedule}          401 401 403 403 200 404 404 404 401 401 403
DELETE /api/v1/schedules/{schedule}          401 401 403 403 204 404 404 404 401 401 403
POST   /api/v1/schedules/{schedule}/run      401 401 403 403 201 404 404 404 401 401 403
GET    /api/v1/users                         401 401 403 403 403 403 403 200 401 401 403
PUT    /api/v1/users/{name}/build-quota      401 401 403 403 403 403 403 204 401 401 403
DELETE /api/v1/users/{name}/build-quota      401 401 403 403 403 403 403 204 401 401 403
PUT    /api/v1/groups/{name}/build-quota     401 401 403 403 403 403 403 204 401 401 403
DELETE /api/v1/groups/{name}/build-quota     401 401 403 403 403 403 403 204 401 401 403
GET    /api/v1/events                        401 401 403 200 200 200 200 200 401 401 403
POST   /api/v1/events/{stream_id}            401 401 403 404 204 404 404 404 401 401 403
GET    /api/v1/agent/spec                    401 401 401 401 401 401 401 401 200 401 401
POST   /api/v1/agent/state                   401 401 401 401 401 401 401 401 204 401 401
GET    /api/v1/agent/orders                  401 401 401 401 401 401 401 401 200 401 401
GET    /api/v1/agent/blobs/{digest}          401 401 401 401 401 401 401 401 200 401 401
GET    /api/v1/agent/tools/{path}            401 401 401 401 401 401 401 401 200 401 401
PUT    /api/v1/agent/streams/{path}          401 401 401 401 401 401 401 401 200 401 401
GET    /api/v1/agent/files/{area}            401 401 401 401 401 401 401 401 200 401 401
GET    /api/v1/agent/files/{area}/{path}     401 401 401 401 401 401 401 401 200 401 401
PUT    /api/v1/agent/files/{area}/{path}     401 401 401 401 401 401 401 401 200 401 401
DELETE /api/v1/agent/files/{area}/{path}     401 401 401 401 401 401 401 401 204 401 401
POST   /api/v1/node-samples                  401 401 401 401 401 401 401 401 401 200 401
GET    /api/v1/openapi.json                  200 200 200 200 200 200 200 200 200 200 200
GET    /healthz                              200 200 200 200 200 200 200 200 200 200 200
GET    /readyz                               200 200 200 200 200 200 200 200 200 200 200
GET    /metrics                              401 401 403 403 403 403 403 200 401 401 403
"""

CASES = {
    (method, path): dict(zip(EVERYBODY, map(int, statuses), strict=True))
    for method, path, *statuses in map(str.split, TABLE.strip().splitlines())
}

BUNDLE = b"bundle of the owner's"
DIGEST = hashlib.sha256(BUNDLE).hexdigest()
BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "/api/v1/pool/apply"): {"projects": [{"name": "vision", "members": ["ann", "ben", "rex"]}]},
    ("POST", "/api/v1/pool/preview"): {"name": "spare", "guaranteed": 1},
    ("PUT", "/api/v1/projects/{name}"): {"name": "spare", "guaranteed": 1},
    ("PUT", "/api/v1/nodes/{node}/node-pool"): {"node_pool": "train"},
    ("PUT", "/api/v1/users/{name}/build-quota"): {"gpus": 1},
    ("PUT", "/api/v1/groups/{name}/build-quota"): {"gpus": 1},
    ("POST", "/api/v1/jobs"): {"command": ["true"], "project": "vision"},
    ("PATCH", "/api/v1/jobs/{job_id}"): {"priority": 60},
    ("POST", "/api/v1/jobs/check"): {"command": ["true"], "project": "vision"},
    ("POST", "/api/v1/jobs/dry-run"): {"command": ["true"], "project": "vision"},
    ("POST", "/api/v1/arrays"): {
        "job": {"command": ["true"], "project": "vision"},
        "members": [{"index": 0}],
    },
    ("POST", "/api/v1/schedules"): {"cron": "0 2 * * *", "job": {"command": ["true"], "project": "vision"}},
    ("PATCH", "/api/v1/schedules/{schedule}"): {"active": False},
    ("PUT", "/api/v1/me/notices"): {"channel": "none"},
    ("POST", "/api/v1/events/{stream_id}"): {"jobs": []},
    ("POST", "/api/v1/sessions/activity"): {"busy": True},
    ("POST", "/api/v1/sessions"): {"user": "ann", "gpus": 1},
    ("POST", "/api/v1/agent/state"): {"agent": "a" * 32, "state": "running", "started": 1.0},
    ("POST", "/api/v1/node-samples"): {"run": "a" * 32, "samples": []},
}


class OneNode(NodeAgents):
    """Node agents, of which one has the token `node`."""

    async def node(self, token: str) -> NodeName | None:
        return NodeName("n") if token == "node" else None

    async def take(self, node: NodeName, run: str, readings: Sequence[Reading]) -> float:
        return 5.0


@pytest.fixture
async def service(start: Start, tmp_path: Path) -> AsyncIterator[Service]:
    """With the agents of a worker and of a node among the callers."""
    agents = Agents(StateFolder(tmp_path))
    backend = local(Setup(StateFolder(tmp_path), declared_gpus=8))
    found = await start(backend=replace(backend, agents=agents, node_agents=OneNode()))
    await agents.open(lambda status: None)
    await agents.recover([])
    order = launch("w", ("true",), bundle=DIGEST)
    (token,) = await agents.admit(order, Rendezvous(order.program.framework, order.workers, ("here",), (), ""))
    for who, own in (("worker", token), ("node", "node")):
        found.http[who] = httpx.AsyncClient(headers={"Authorization": f"Bearer {own}"}, timeout=30)
    yield found
    await agents.close()


def test_the_table_has_every_route_and_no_other() -> None:
    assert set(CASES) == {(method, path) for path, handler in ROUTES for method in handler.endpoints}


def test_only_the_listed_routes_are_open() -> None:
    without_scope = {
        (path, method)
        for path, handler in ROUTES
        for method, endpoint in handler.endpoints.items()
        if endpoint.scope is None
    }
    assert without_scope == OPEN


def test_every_route_refuses_users_that_the_hub_does_not_know() -> None:
    for (method, path), statuses in CASES.items():
        closed = (path, method) not in OPEN
        assert (statuses["nobody"] == statuses["wrong"] == 401) is closed


@pytest.mark.parametrize(("method", "path"), CASES, ids=[" ".join(case) for case in CASES])
async def test_each_caller_gets_the_answer_of_the_table(service: Any, method: str, path: str) -> None:
    for who, expected in CASES[method, path].items():
        if who == "job":  # the last
            service.http[who] = await a_job(service)
        # A new setup for each caller who may change something, so that none sees another's changes.
        target = await a_target(service, method, path) if expected < 400 else await first_target(service, path)
        status = await status_of(
            service.http[who], method, f"{service.url.rstrip('/')}{target}", BODIES.get((method, path))
        )
        assert status == expected, f"{who} got {status}"


async def a_job(service: Any) -> httpx.AsyncClient:
    """A running job of the owner's that may submit."""
    job = (await service.submit(gpus=0, may_submit=True))["id"]
    await service.until(job, JobState.RUNNING)
    return httpx.AsyncClient(headers={"Authorization": f"token {OF_JOBS.of(job, 1)}"}, timeout=30)


async def status_of(http: httpx.AsyncClient, method: str, url: str, body: Any) -> int:
    """The status of a response, without its body: a stream does not end."""
    content = BUNDLE if method == "PUT" and "/blobs/" in url else None
    params = {"preview": "true"} if url.endswith("/apply") else None
    async with http.stream(method, url, json=body, content=content, params=params) as answer:
        if answer.status_code == 403:
            assert answer.headers["Content-Type"] == "application/problem+json"
        return answer.status_code


async def first_target(service: Any, path: str) -> str:
    """A target for refused callers, who do not change it."""
    kept: dict[str, str] = service.__dict__.setdefault("targets", {})
    if path not in kept:
        kept[path] = await a_target(service, "", path)
    return kept[path]


async def a_stream(service: Any) -> str:
    """An open stream of the owner, while the service runs."""
    owner = service.http["owner"]
    request = owner.build_request("GET", "events", params={"view": "true"})
    answer = await owner.send(request, stream=True)
    service.__dict__.setdefault("streams", []).append(answer)
    async for line in answer.aiter_lines():
        if line.startswith("data: "):
            return str(json.loads(line.removeprefix("data: "))["subject"])
    raise AssertionError("the stream has ended")


async def a_target(service: Any, method: str, path: str) -> str:
    """The path with the owner's objects."""
    owner = service.http["owner"]
    if "{job_id}" in path:
        script = 'echo hello; echo done > "$RUNAI_OUTPUT_DIR/result.txt"; '
        outputs = "{path}" in path
        job = await service.submit(command=["sh", "-c", script + ("true" if outputs else "exec sleep 60")])
        if outputs:
            await service.until(job["id"], JobState.SUCCEEDED)
        if path.endswith("resume"):
            await owner.post(f"jobs/{job['id']}/pause")
            await service.until(job["id"], JobState.PAUSED)
        return path.replace("{job_id}", job["id"]).replace("{path}", "result.txt")
    if "/schedules" in path:
        for schedule in list(service.controller.schedules.all.values()):
            await service.controller.schedules.remove(schedule)
        if "{schedule}" in path:
            answer = await owner.post("schedules", json={"cron": "0 2 * * *", "job": {"command": ["true"]}})
            assert answer.status_code == 201, answer.text
            path = path.replace("{schedule}", answer.json()["id"])
        return path
    if "{session_id}" in path:
        answer = await owner.post("sessions", json={"user": "ann", "gpus": 1})
        assert answer.status_code == 201, answer.text
        return path.replace("{session_id}", answer.json()["id"])
    if path.endswith("/sessions/activity"):
        assert (await owner.post("sessions", json={"user": "ann", "gpus": 1})).status_code == 201
    if "{stream_id}" in path:
        return path.replace("{stream_id}", await a_stream(service))
    if "/agent/" in path:
        assert (await owner.put(f"blobs/{DIGEST}", content=BUNDLE)).status_code == 200
        path = path.replace("{area}", "checkpoint").replace("tools/{path}", "tools/mpi.py")
        return path.replace("streams/{path}", "streams/log").replace("{path}", "a/b").replace("{digest}", DIGEST)
    if "{digest}" in path:
        if method != "PUT":
            assert (await owner.put(f"blobs/{DIGEST}", content=BUNDLE)).status_code == 200
        return path.replace("{digest}", DIGEST)
    if "{node}" in path:
        path = path.replace("{node}", service.controller.book.nodes[0].name).replace("{gpu}", "0")
        if method == "DELETE":
            await service.http["admin"].put(path.removeprefix("/api/v1/"), json={})
        return path
    if method == "POST" and path.endswith("/sessions"):
        for session in list(service.controller.book.sessions):
            await service.controller.close_session(session)
    path = path.replace("{name}", "spare")
    if method == "DELETE" and path.endswith("/build-quota"):
        await service.http["admin"].put(path.removeprefix("/api/v1/"), json={"gpus": 1})
    return path
