"""Connects a command to the scheduler: the one that the environment names, or this user's own, which is started if none
runs."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.client import Client


def connect() -> Client:
    """A client for the scheduler. Raises `RunaiError` where there is none and none can be started."""
    from scheduler.client import Client

    if os.environ.get("RUNAI_URL"):
        return Client.from_environment()
    from scheduler.discovery import embedded
    from scheduler.discovery.statefolder import StateFolder, default_state_dir

    folder = default_state_dir()
    endpoint = embedded.find(folder)
    if endpoint is None:
        endpoint = embedded.ensure(folder)
        print(
            f"No scheduler answered, so one was started (process {endpoint.pid}, state in {folder}).",
            file=sys.stderr,
        )
    return Client(endpoint.url, StateFolder(folder).token(), folder)
