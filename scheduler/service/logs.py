"""Keeps the log readable when an error repeats."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from scheduler.errors import shortage

MOST = 20
"""The most warnings and errors per minute from one place in the code."""

MINUTE = 60.0


class Repeats(logging.Filter):
    """Drops messages beyond `MOST`, and logs their number with the next one after the minute. A shortage of the machine
    is logged as one sentence: where it was noticed does not matter."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._seen: dict[tuple[object, ...], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        short = shortage(record.exc_info[1]) if record.exc_info else None
        if short is not None:
            record.msg, record.args, record.exc_info = (
                f"{record.getMessage().rstrip('.')}: {short.sentence}",
                None,
                None,
            )
        error = record.exc_info[0] if record.exc_info else None
        place = (record.name, record.pathname, record.lineno, error)
        now = self._clock()
        since, count = self._seen.get(place, (now, 0))
        if now - since >= MINUTE:
            if count > MOST:
                record.msg = f"{record.getMessage()} ({count - MOST} more messages like this were suppressed)"
                record.args = None
            since, count = now, 0
        self._seen[place] = (since, count + 1)
        return count < MOST
