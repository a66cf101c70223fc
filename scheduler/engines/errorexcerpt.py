"""Extracts the error from the end of a failed worker's log."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import replace

from scheduler.engines.base import WorkerState, WorkerStatus
from scheduler.model import Fault

TAIL = 64 * 1024
"""How many bytes of the end of a log are read."""

_LONGEST = 200
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")
_RANK = re.compile(r"^\[rank\d+\]:\s*")
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit|Warning|Abort): \S")
_IN_USE = re.compile("EADDRINUSE|address already in use", re.IGNORECASE)


def error_excerpt_of(log: str) -> str:
    """The last exception in a log (`ValueError: …`), else its last line; empty where there is none.

    Output of launchers such as `torchrun` below an exception is ignored.
    """
    lines = [_RANK.sub("", _CONTROL.sub("", line)).strip() for line in log.splitlines()]
    exceptions = [line for line in lines if _EXCEPTION.match(line)]
    said = next(reversed(exceptions or list(filter(None, lines))), "")
    return said if len(said) <= _LONGEST else f"{said[: _LONGEST - 1]}…"


def port_in_use(log: str, ports: Sequence[int]) -> int | None:
    """The port among these that was already in use when a worker tried to listen on it."""
    complaints = [line for line in log.splitlines() if _IN_USE.search(line)]
    return next((port for port in ports if any(str(port) in line for line in complaints)), None)


def with_error(exited: WorkerStatus, log: str, ports: Sequence[int], *, started: bool) -> WorkerStatus:
    """The end of a worker, with the error in its log. A port that another process has taken is not the job's failure.

    `ports` are those it had to listen on; `started` says whether it was.
    """
    if log and (port := port_in_use(log, ports)) is not None:
        reason = f"port {port}, on which it had to listen, was in use."
        return replace(exited, state=WorkerState.LOST, reason=reason, throughput=None)
    killed = exited.exit_code == -signal.SIGKILL  # it could not report an error
    return replace(
        exited,
        error_excerpt="" if killed else error_excerpt_of(log),
        fault=Fault.JOB if exited.exit_code is not None and not started else None,
    )
