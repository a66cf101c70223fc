"""The log of a worker, printed as it is or with the time of each line."""

from __future__ import annotations

import argparse
import math
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING

from scheduler.cli.connect import connect

if TYPE_CHECKING:
    from scheduler.client import Client


AGAIN = 1.0
"""Seconds until times that are not known yet are asked for again."""


def logs(options: argparse.Namespace) -> int:
    with connect() as client:
        job = client.job(options.job).id  # the newest job with this name may change
        if options.timestamps:
            _stamped(client, job, options)
        elif options.follow:
            for piece in client.logs(job, rank=options.rank, attempt=options.attempt):
                write(piece)
        else:
            for piece in _pages(client, job, options.rank, options.attempt):
                write(piece)
    return 0


def write(piece: bytes) -> None:
    """A job's output is written unchanged: it comes from the owner's own program."""
    sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def _pages(client: Client, job: str, rank: int, attempt: int | None) -> Iterator[bytes]:
    offset = 0
    while piece := client.log(job, rank=rank, attempt=attempt, offset=offset):
        yield piece
        offset += len(piece)


# -- with times ---------------------------------------------------------------------------------------------


def _stamped(client: Client, job: str, options: argparse.Namespace) -> None:
    from scheduler.schema import ATTEMPT_LINE

    found, rank, follow = client.job(job), options.rank, options.follow
    attempt = options.attempt or max(1, len(found.attempts))
    while True:
        pieces = client.logs(job, rank=rank, attempt=attempt) if follow else _pages(client, job, rank, attempt)
        live = all(each.number != attempt or each.ended is None for each in found.attempts)
        for line in stamped(pieces, LineTimes(partial(_times, client, job, rank, attempt), live=live)):
            write(line)
        found = client.job(job)
        if options.attempt or not follow or (found.state.final and len(found.attempts) <= attempt):
            return
        attempt += 1
        write(ATTEMPT_LINE.format(attempt).encode())


def _times(client: Client, job: str, rank: int, attempt: int, offset: int) -> list[tuple[int, float]]:
    return client.log_times(job, rank=rank, attempt=attempt, offset=offset).times


class LineTimes:
    """When the lines of a log were written, in seconds since the epoch. `read` returns lengths of the log with their
    times, from an offset on. `live`: lines whose time is not known yet have just been written."""

    def __init__(self, read: Callable[[int], list[tuple[int, float]]], *, live: bool = False) -> None:
        self._read = read
        self._live = live
        self._known: list[tuple[int, float]] = []
        self._ask_at = 0.0

    def of(self, end: int) -> float | None:
        """The time of the line that ends before byte `end`; None where it is not known and will not be."""
        now = time.time()
        while not self._reach(end) and now >= self._ask_at:
            more = self._read(self._known[-1][0] if self._known else 0)
            self._known += more
            if not more:
                self._ask_at = now + AGAIN if self._live else math.inf
        if self._reach(end):
            return self._known[bisect_left(self._known, end, key=itemgetter(0))][1]
        return now if self._live else None

    def _reach(self, end: int) -> bool:
        return bool(self._known) and self._known[-1][0] >= end


def stamped(pieces: Iterable[bytes], times: LineTimes) -> Iterator[bytes]:
    """The lines of a log, each behind its time where that is known, as `2026-03-01T14:10:05Z`."""
    end, rest = 0, b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            end += len(line) + 1
            yield _prefix(times.of(end)) + line + b"\n"
    if rest:
        yield _prefix(times.of(end + len(rest))) + rest


def _prefix(at: float | None) -> bytes:
    return b"" if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ} ".encode()
