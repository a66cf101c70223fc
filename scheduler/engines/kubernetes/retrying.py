"""Retries of API calls until they succeed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from scheduler.engines.kubernetes.api import ApiError

SHORTEST, LONGEST = 0.1, 10.0
"""Seconds between tries while the API server does not answer."""

T = TypeVar("T")


def retry_delays() -> Iterator[float]:
    """Increasing delays with jitter."""
    longest = SHORTEST
    while True:
        yield longest * (0.5 + random.random() / 2)
        longest = min(2 * longest, LONGEST)


async def with_retries(call: Callable[[], Awaitable[T]]) -> T:
    """Repeat a call until it succeeds. Raises `ApiError` for a permanent refusal."""
    for pause in retry_delays():
        try:
            return await call()
        except ApiError as error:
            if not error.passing:
                raise
            await asyncio.sleep(pause)
    raise AssertionError
