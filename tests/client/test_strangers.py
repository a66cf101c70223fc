"""After the scheduler of a state folder has ended, the token is not sent to another listener at its address."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from scheduler.client import AsyncClient, Client, find
from scheduler.client.finding import Address
from scheduler.discovery.statefolder import StateFolder
from scheduler.errors import Unavailable
from scheduler.schema import JobCounts, Me

ME = (
    Me(name="ann", admin=True, scopes=[], build_quota=1, projects=[], jobs=JobCounts(), team_jobs=JobCounts())
    .model_dump_json()
    .encode()
)


class Listener(HTTPServer):
    """Answers `GET /me`, and keeps the received tokens."""

    def __init__(self) -> None:
        self.tokens = list[str | None]()
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        assert isinstance(self.server, Listener)
        self.server.tokens.append(self.headers["Authorization"])
        self.send_response(200)
        self.send_header("Content-Length", str(len(ME)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(ME)

    def log_message(self, *words: object) -> None:
        """Nothing."""


@pytest.fixture
def listener() -> Iterator[Listener]:
    with Listener() as found:
        serving = threading.Thread(target=found.serve_forever)
        serving.start()
        yield found
        found.shutdown()
        serving.join()


@pytest.fixture
def address(tmp_path: Path, listener: Listener) -> Iterator[tuple[Address, StateFolder]]:
    folder = StateFolder(tmp_path)
    folder.lock()
    folder.token()
    folder.write_endpoint(listener.url)
    yield find({"RUNAI_STATE_DIR": str(tmp_path)}), folder
    folder.unlock()


def test_a_client_that_is_kept_sends_nothing_to_a_stranger(
    address: tuple[Address, StateFolder], listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.client.sync.AGAIN", (0.0,))
    found, folder = address
    with Client(found.url, found.token, found.folder) as client:
        assert client.me().name == "ann"
        folder.unlock()
        with pytest.raises(Unavailable):
            client.me()
        assert listener.tokens == [f"Bearer {found.token}"]
        folder.lock()
        assert client.me().name == "ann"


async def test_an_async_client_sends_nothing_to_a_stranger_either(
    address: tuple[Address, StateFolder], listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.client.aio.AGAIN", (0.0,))
    found, folder = address
    async with AsyncClient(found.url, found.token, found.folder) as client:
        assert (await client.me()).name == "ann"
        folder.write_endpoint("http://127.0.0.1:1/")  # another scheduler runs now, elsewhere
        with pytest.raises(Unavailable):
            await client.me()
    assert listener.tokens == [f"Bearer {found.token}"]
