"""Sends valid and invalid requests to every operation of the API, as an administrator, a project member, a stranger and
without a token: no server error, and only documented responses. 500 is never documented; 503 is, where a resource has
to become free first.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from scheduler.api.app import ROUTES
from scheduler.api.openapi import describe
from scheduler.model import JobState
from tests.api.conftest import Service, running
from tests.chaos.campaign import LONG, tell

EXAMPLES = 100 if LONG else 10
"""Requests to each operation."""

FOUND: Any = schemathesis.openapi.from_dict(describe(ROUTES, "/"), config=SchemathesisConfig())
OPERATIONS = {
    f"{operation.method.upper()} {operation.path}": operation
    for operation in (result.ok() for result in FOUND.get_all_operations())
}
FRAMING = {"connection", "content-length", "expect", "host", "transfer-encoding"}
"""Headers that HTTP itself reads, before the API does."""
CALLERS = {"admin": "admin", "member": "owner", "stranger": "stranger", "nobody": ""}
CHECKS = [
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
]


@dataclass
class Target:
    """The scheduler under test, with an object of each kind."""

    url: str
    things: dict[str, list[str]]
    """The values of path parameters."""
    statuses: Counter[int] = field(default_factory=Counter)


@contextmanager
def in_a_thread(folder: Path) -> Iterator[tuple[Service, Callable[[Any], Any]]]:
    """The service in its own thread, and a function that runs a coroutine there."""
    started: Future[tuple[Service, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        over = asyncio.Event()
        async with running(folder) as service:
            started.set_result((service, asyncio.get_running_loop(), over))
            await over.wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            if started.done():
                ended.set_exception(error)
            else:
                started.set_exception(error)
        else:
            ended.set_result(None)

    ended: Future[None] = Future()
    thread = threading.Thread(target=run)
    thread.start()
    service, loop, over = started.result()
    try:
        yield service, lambda coroutine: asyncio.run_coroutine_threadsafe(coroutine, loop).result(60)
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        ended.result()


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with in_a_thread(tmp_path_factory.mktemp("fuzzed")) as (service, run):
        found = run(prepare(service))
        yield found
        run(service.http["admin"].get("me"))  # it still responds
    tell("fuzzed API: operations", len(OPERATIONS))
    tell("fuzzed API: requests", sum(found.statuses.values()))
    tell(
        "fuzzed API: server errors",
        sum(n for status, n in found.statuses.items() if status >= 500 and status != 503),
    )


async def prepare(service: Service) -> Target:
    """Jobs of the owner (one ended with files, one running, one waiting), a session, a schedule and a blob."""
    writes = 'echo line; echo result > "$RUNAI_OUTPUT_DIR/result"'
    ended = await service.submit(command=["sh", "-c", writes], gpus=1)
    running = await service.submit(gpus=1)
    waiting = await service.submit(gpus=1, after=[running["id"]])
    await service.until(ended["id"], JobState.SUCCEEDED)
    await service.until(running["id"], JobState.RUNNING)
    session = await service.http["owner"].post("sessions", json={"user": "ann"})
    nightly = {"cron": "0 2 * * *", "job": {"command": ["true"], "project": "vision"}}
    schedule = await service.http["owner"].post("schedules", json=nightly)
    blob = b"not a bundle"
    digest = sha256(blob).hexdigest()
    await service.http["owner"].put(f"blobs/{digest}", content=blob)
    return Target(
        service.url,
        {
            "job_id": [ended["id"], running["id"], waiting["id"]],
            "session_id": [session.json()["id"]],
            "schedule": [schedule.json()["id"]],
            "name": ["vision", "speech", "spare"],
            "path": ["result"],
            "area": ["output"],
            "digest": [digest],
        },
    )


@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_request_breaks_the_server_or_gets_an_undocumented_answer(target: Target, operation: str) -> None:
    modes = [OPERATIONS[operation].as_strategy(generation_mode=mode) for mode in schemathesis.GenerationMode]
    session = requests.Session()

    @settings(
        max_examples=EXAMPLES,
        derandomize=not LONG,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        case=st.one_of(modes),
        things=st.fixed_dictionaries({name: st.sampled_from(ids) for name, ids in target.things.items()}),
        real=st.booleans(),
        caller=st.sampled_from(sorted(CALLERS)),
    )
    def fuzz(case: schemathesis.Case[Any], things: dict[str, str], real: bool, caller: str) -> None:
        named = case.path_parameters or {}
        real = real and named.keys() <= things.keys()
        if real:
            case.path_parameters = {name: things[name] for name in named}
        sent = case.as_transport_kwargs(base_url=target.url.rstrip("/"))
        for name in [name for name in sent["headers"] if name.lower() in FRAMING]:
            del sent["headers"][name]
        sent["headers"]["Authorization"] = f"Bearer {CALLERS[caller]}" if CALLERS[caller] else ""
        with session.request(**sent, stream=True, timeout=60) as answer:
            target.statuses[answer.status_code] += 1
            if "Content-Length" in answer.headers or answer.status_code == 204:
                case.validate_response(answer, checks=CHECKS)
            else:  # a stream, which may last
                assert str(answer.status_code) in OPERATIONS[operation].definition.raw["responses"]
            if caller == "nobody" and OPERATIONS[operation].definition.raw["security"]:
                assert answer.status_code == 401 or (answer.status_code == 404 and not real)  # no such path

    fuzz()
