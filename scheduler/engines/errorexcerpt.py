"""What the end of a worker's log says of why it failed."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import replace

from scheduler.engines.base import WorkerState, WorkerStatus
from scheduler.model import Fault

TAIL = 64 * 1024
"""So many bytes of the end of a log are looked at."""

_LONGEST = 200
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")
_RANK = re.compile(r"^\[rank\d+\]:\s*")
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit|Warning|Abort): \S")
_IN_USE = re.compile("EADDRINUSE|address already in use", re.IGNORECASE)


def error_excerpt_of(log: str) -> str:
    """The last exception that a log tells of (`ValueError: …`), else its last line; empty where it says nothing.

    What launchers such as `torchrun` write below an exception is about themselves.
    """
    lines = [_RANK.sub("", _CONTROL.sub("", line)).strip() for line in log.splitlines()]
    exceptions = [line for line in lines if _EXCEPTION.match(line)]
    said = next(reversed(exceptions or list(filter(None, lines))), "")
    return said if len(said) <= _LONGEST else f"{said[: _LONGEST - 1]}…"


def port_in_use(log: str, ports: Sequence[int]) -> int | None:
    """Which of these ports a worker found in another's hands when it wanted to listen there."""
    complaints = [line for line in log.splitlines() if _IN_USE.search(line)]
    return next((port for port in ports if any(str(port) in line for line in complaints)), None)


def with_error(exited: WorkerStatus, log: str, ports: Sequence[int], *, started: bool) -> WorkerStatus:
    """How a worker ended, with what the end of its log says. That a port is another's now is no failure of the job.

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
