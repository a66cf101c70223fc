"""The token of a worker gives access to that worker alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.discovery.statefolder import StateFolder
from scheduler.engines.agents import uploads
from scheduler.engines.agents.tokens import Tokens
from scheduler.engines.files import Area
from scheduler.model import JobId
from tests.engines.act import Act
from tests.engines.agents.workers import FIRST, Ask, agents_of
from tests.engines.backends import RemoteBackendSetup, Scheduler
from tests.engines.workplace import launch


async def test_the_token_of_an_ended_worker_is_refused(here: Scheduler, ask: Ask, tokens: tuple[str, ...]) -> None:
    own, other = (ask(token) for token in tokens)
    end = {"agent": "a" * 32, "state": "exited", "started": 1.0, "at": 2.0, "exit_code": 0}
    assert (await own.post("state", json=end)).status_code == 204
    assert (await own.post("state", json=end)).status_code == 401
    for path in ("spec", "orders", "files/output", "files/output/a"):
        assert (await own.get(path)).status_code == 401
    assert (await own.put("streams/log", params={"offset": 0}, content=b"more")).status_code == 401
    assert (await other.get("spec")).status_code == 200
    await here.restart(("j", 1, 2))
    assert (await own.get("spec")).status_code == 401
    assert (await other.get("spec")).status_code == 200


async def test_a_token_cannot_be_made_from_another(tmp_path: Path) -> None:
    tokens = Tokens(StateFolder(tmp_path))
    token = tokens.of(FIRST)
    assert tokens.worker(token) == FIRST
    assert Tokens(StateFolder(tmp_path)).of(FIRST) == token
    for forged in (token.replace("j.1.0", "j.1.1"), token[:-1], token.upper(), "j.1.0.", "", f"{token}0"):
        assert tokens.worker(forged) is None
    other = tmp_path / "other"
    other.mkdir()
    assert Tokens(StateFolder(other)).worker(token) is None


async def test_only_one_agent_runs_a_worker(ask: Ask, tokens: tuple[str, ...]) -> None:
    own = ask(tokens[0])
    assert (await own.post("state", json={"agent": "a" * 32, "state": "pulling"})).status_code == 204
    assert (await own.post("state", json={"agent": "a" * 32, "state": "pulling"})).status_code == 204
    refused = await own.post("state", json={"agent": "b" * 32, "state": "pulling"})
    assert (refused.status_code, refused.json()["detail"]) == (409, "Another agent runs worker 0 already.")


async def test_the_files_of_other_jobs_do_not_exist_for_a_worker(
    here: Scheduler, ask: Ask, tokens: tuple[str, ...]
) -> None:
    await here.backend.engine.launch(launch("k", Act(say="secret", writes="out.txt").command))
    await here.end("k")
    own = ask(tokens[0])
    assert (await own.get("files/output")).json() == {"files": []}
    for path in ("out.txt", "../../k/output/out.txt", "%2e%2e/%2e%2e/k/output/out.txt", "/etc/passwd"):
        answer = await own.get(f"files/output/{path}")
        assert answer.status_code == 404 or answer.content == b""
    assert (await own.get("files/log")).status_code == 404
    assert (await own.get(f"blobs/{'a' * 64}")).status_code == 404
    assert (await own.get("tools/supervisor.py")).status_code == 404


@pytest.mark.parametrize("path", ["..%2fout", "a/..%2f..%2fb", "a%00b", "a//b"])
async def test_nothing_is_written_outside(here: Scheduler, ask: Ask, tokens: tuple[str, ...], path: str) -> None:
    answer = await ask(tokens[0]).put(f"files/output/{path}", params={"size": 1}, content=b"x")
    assert answer.status_code in (404, 422)
    assert await here.backend.files.list(JobId("j"), Area.OUTPUT) == ()


async def test_nothing_is_written_through_a_link(here: Scheduler, setup: RemoteBackendSetup, tmp_path: Path) -> None:
    files = agents_of(here).files
    output = setup.folder / "jobs/j/output"
    output.mkdir(parents=True)
    (output / "link").symlink_to(tmp_path)
    (tmp_path / "mine").write_text("as it was")
    (output / "file").symlink_to(tmp_path / "mine")
    piece = uploads.Piece(0, b"x", 1, 1.0, "1")
    with pytest.raises(Exception, match="cannot be written"):
        await files.put(FIRST, Area.OUTPUT, "link/new", piece)
    await files.put(FIRST, Area.OUTPUT, "file", piece)
    assert not (tmp_path / "new").exists()
    assert (tmp_path / "mine").read_text() == "as it was"
    assert (output / "file").read_bytes() == b"x"
