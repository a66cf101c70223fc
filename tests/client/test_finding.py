"""Where the client looks for its scheduler, and its message if there is none."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from scheduler.client import Address, AsyncClient, Client, find
from scheduler.discovery.statefolder import StateFolder
from scheduler.errors import Unauthenticated, Unavailable


def test_an_address_and_a_token_are_taken_from_the_environment() -> None:
    assert find({"RUNAI_URL": "http://a/", "RUNAI_TOKEN": "t"}) == Address("http://a/", "t")


def test_a_token_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t\n")
    found = find({"RUNAI_URL": "http://a/", "RUNAI_TOKEN_FILE": str(tmp_path / "token")})
    assert found == Address("http://a/", "t")


def test_inside_a_hubs_server_the_hubs_token_is_used() -> None:
    assert find({"RUNAI_URL": "http://a/", "JUPYTERHUB_API_TOKEN": "h"}).token == "h"
    assert find({"RUNAI_URL": "http://a/", "JUPYTERHUB_API_TOKEN": "h", "RUNAI_TOKEN": "t"}).token == "t"


def test_otherwise_the_scheduler_of_the_state_folder_is_found(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "state")
    folder.open()
    token = folder.token()
    folder.lock()
    folder.write_endpoint("http://127.0.0.1:1234/")
    assert find({"RUNAI_STATE_DIR": str(folder.path)}) == Address("http://127.0.0.1:1234/", token, folder.path)
    folder.unlock()
    with pytest.raises(Unavailable, match="No scheduler is running"):
        find({"RUNAI_STATE_DIR": str(folder.path)})


def test_without_a_scheduler_it_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="jupyter runai serve"):
        find({"RUNAI_STATE_DIR": str(tmp_path / "nothing")})


def test_an_address_without_a_token_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(Unauthenticated, match="RUNAI_TOKEN"):
        find({"RUNAI_URL": "http://a/"})
    with pytest.raises(Unauthenticated, match="No such file"):
        find({"RUNAI_URL": "http://a/", "RUNAI_TOKEN_FILE": str(tmp_path / "nothing")})


def test_a_token_is_not_shown() -> None:
    assert "secret" not in repr(Address("http://a/", "secret"))


class _Elsewhere(BaseHTTPRequestHandler):
    """A hub whose proxy does not know the scheduler: it redirects all requests to its own pages."""

    def do_GET(self) -> None:
        self.send_response(302)
        self.send_header("Location", "/hub/services/runai/api/v1/me")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


async def test_a_hub_that_answers_instead_is_not_taken_for_the_scheduler() -> None:
    with HTTPServer(("127.0.0.1", 0), _Elsewhere) as server:
        answering = threading.Thread(target=server.serve_forever)
        answering.start()
        url = f"http://127.0.0.1:{server.server_port}"
        try:
            with Client(url, "token") as client, pytest.raises(Unavailable, match="does not answer"):
                client.me()
            async with AsyncClient(url, "token") as other:
                with pytest.raises(Unavailable, match="does not answer"):
                    await other.me()
        finally:
            server.shutdown()
            answering.join()
