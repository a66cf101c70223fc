"""One quick request to a running scheduler: none is started, and nothing is retried."""

from __future__ import annotations

from typing import Any

import httpx

from scheduler.client.finding import find
from scheduler.client.wire import options

SOON = 1.0
"""The time limit of the request, in seconds."""


def ask(path: str) -> Any:
    """The JSON answer for a path below `/api/v1/`. Errors of any kind are raised."""
    with httpx.Client(**{**options(find()), "timeout": SOON}) as client:
        return client.get(path).raise_for_status().json()
