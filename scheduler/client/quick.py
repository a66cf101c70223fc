"""One question to a scheduler that runs, for who cannot wait: none is started for it, and nothing is tried again."""

from __future__ import annotations

from typing import Any

import httpx

from scheduler.client.finding import find
from scheduler.client.wire import options

SOON = 1.0
"""Seconds that the scheduler has for an answer."""


def ask(path: str) -> Any:
    """The JSON that the API answers for a path below `/api/v1/`. Raises whatever goes wrong."""
    with httpx.Client(**{**options(find()), "timeout": SOON}) as client:
        return client.get(path).raise_for_status().json()
