"""Finds the scheduler's address and token: from the environment, or from the state folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from scheduler.discovery.statefolder import StateFolder, default_state_dir
from scheduler.errors import Unauthenticated, Unavailable


@dataclass(frozen=True, slots=True)
class Address:
    """`url` is the scheduler's base, before `/api/v1`; `folder` is the state folder that it was found in, if any.

    `notebook` is the engine's name of the caller's notebook server, where that is a pod of the engine.
    """

    url: str
    token: str = field(repr=False)
    folder: Path | None = None
    notebook: str = ""

    def is_held(self) -> bool:
        """Whether this scheduler still runs. After its end another process may listen on its address."""
        if self.folder is None:
            return True
        endpoint = StateFolder(self.folder).endpoint()
        return endpoint is not None and endpoint.url == self.url


def find(environment: Mapping[str, str] | None = None) -> Address:
    """The scheduler that this process should use.

    `RUNAI_URL` with `RUNAI_TOKEN`, `RUNAI_TOKEN_FILE` or the hub's `JUPYTERHUB_API_TOKEN`; else the scheduler that
    runs on the state folder (`RUNAI_STATE_DIR`). Raises `Unavailable` where there is none.
    """
    given = os.environ if environment is None else environment
    if url := given.get("RUNAI_URL"):
        return Address(url, _token(given), notebook=given.get("RUNAI_NOTEBOOK", ""))
    path = given.get("RUNAI_STATE_DIR")
    folder = StateFolder(Path(path).expanduser() if path else default_state_dir())
    endpoint = folder.endpoint()
    token = given.get("RUNAI_TOKEN") or folder.read_token()
    if endpoint is None or token is None:
        raise Unavailable(
            f"No scheduler is running with {folder.path}; start one with `jupyter runai serve`, "
            "or name another with RUNAI_URL and RUNAI_TOKEN."
        )
    return Address(endpoint.url, token, folder.path)


def _token(given: Mapping[str, str]) -> str:
    if token := given.get("RUNAI_TOKEN"):
        return token
    if path := given.get("RUNAI_TOKEN_FILE"):
        try:
            return Path(path).read_text("utf-8").strip()
        except OSError as error:
            raise Unauthenticated(f"RUNAI_TOKEN_FILE names {path}: {error.strerror}.") from None
    if token := given.get("JUPYTERHUB_API_TOKEN"):
        return token
    raise Unauthenticated("RUNAI_URL is set without a token; set RUNAI_TOKEN or RUNAI_TOKEN_FILE, too.")
