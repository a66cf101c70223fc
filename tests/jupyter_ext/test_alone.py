"""`jupyter lab` without a hub: the user's own scheduler, started on the first request."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler.discovery import embedded

pytestmark = pytest.mark.filterwarnings("ignore:(?s).*TermSocket:jupyter_server.utils.JupyterServerAuthWarning")


@pytest.fixture
def state_dir(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "own"
    found = embedded.find(tmp_path / "own")
    if found is not None:
        os.kill(found.pid, signal.SIGTERM)
        os.waitpid(found.pid, 0)
    embedded.reap()


@pytest.fixture
def jp_server_config(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    for name in ("RUNAI_URL", "RUNAI_TOKEN", "RUNAI_GPUS", "JUPYTERHUB_API_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RUNAI_STATE_DIR", str(state_dir))
    return {"ServerApp": {"jpserver_extensions": {"jupyter_ext": True}, "allow_unauthenticated_access": False}}


async def test_the_first_request_starts_the_users_own_scheduler(jp_fetch: Any, state_dir: Path) -> None:
    assert embedded.find(state_dir) is None, "Starting the server must not wait for a scheduler."
    status = json.loads((await jp_fetch("runai", "status", request_timeout=60)).body)
    assert (status["connected"], status["mode"], status["lease"]) == (True, "embedded", None)
    found = embedded.find(state_dir)
    assert found is not None
    me = json.loads((await jp_fetch("runai", "api", "v1", "me")).body)
    assert me["scopes"] == ["read", "submit", "admin"]
    # It dies; the next request restarts it.
    os.kill(found.pid, signal.SIGKILL)
    again = json.loads((await jp_fetch("runai", "api", "v1", "pool", request_timeout=60)).body)
    assert again["declared"] is True


async def test_where_none_may_be_started_it_says_so(jp_fetch: Any, jp_serverapp: Any, state_dir: Path) -> None:
    jp_serverapp.web_app.settings["runai_upstream"].embedded = False
    status = json.loads((await jp_fetch("runai", "status")).body)
    assert (status["connected"], status["mode"]) == (False, "none")
    assert embedded.find(state_dir) is None
