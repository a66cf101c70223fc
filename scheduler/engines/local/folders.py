"""The folders of jobs in the state folder: their names, and the state of a worker by its files.

```
jobs/<id>/work/  checkpoint/  output/         the working directory; what an attempt leaves to the next; what comes back
jobs/<id>/save.<n>                            attempt n is asked to save its state: for when, the latest request
jobs/<id>/attempts/<n>/stop                   the attempt is to stop, and how long it may take
jobs/<id>/attempts/<n>/<rank>/                one worker:
    spec.json         what to run, written by the engine before anything else
    claim             who starts it (the supervisor's process; 0: nobody ever will), locked while the supervisor lives
    status.json       the worker's process, once it has started
    exit.json         how it ended, or why it could not start
    done              the supervisor has ended, and before it everything that came of the worker
    log               what it printed;  log.times  when that had which length;  supervisor.log  its supervisor's errors
running/<id>.<n>      an attempt that may have processes, so that all of them are found without looking at every job
boot                  the boot of the machine in which all of this was written
```

Only `exit.json` and the input of a job are durable. All other files describe processes, which no power cut survives, so
they are not synced: after a boot other than that in `boot`, they may be incomplete.

All functions here block on the disk: call them outside the event loop.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any

from scheduler.engines.local.processes import holder, holds
from scheduler.engines.local.workerfiles import (
    DAMAGED,
    printable,
    read_claim,
    read_end,
    read_json,
    read_number,
    read_ports,
    read_start,
)
from scheduler.errors import NotFound
from scheduler.files.locks import holder_of
from scheduler.model import AttemptKey, JobId
from scheduler.worker import supervisor

CLOSED, PASSABLE = 0o700, 0o711
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_KILLED = "its supervisor was killed"
_RESTARTED = "it was lost when the machine was restarted"
_EARLIER = str(uuid.UUID(int=0))
"""Any boot of the machine before this one."""


class RecordState(Enum):
    """`UNCLAIMED`: not started. `NEVER`: it will never start. `ALIVE`: its supervisor is alive."""

    UNCLAIMED = auto()
    NEVER = auto()
    ALIVE = auto()
    EXITED = auto()
    LOST = auto()


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """The state of a worker by its files.

    `started` is None if it is not known to have run. `supervisor` is 0 if unknown.

    `unclean` is true if unsupervised processes of it may be left.
    """

    state: RecordState
    supervisor: int = 0
    started: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    reason: str = ""
    unclean: bool = False
    stopped: bool | None = None


@dataclass(frozen=True, slots=True)
class WorkerFolder:
    """The folder of one worker of an attempt."""

    path: Path

    def write_spec(self, spec: dict[str, Any]) -> None:
        """Write the specification; no effect if the worker exists."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self.path / "spec.json", json.dumps(spec))

    @property
    def spec(self) -> dict[str, Any]:
        return read_json(self.path / "spec.json")

    def ports(self) -> tuple[int, ...]:
        """The rendezvous ports of its attempt."""
        return read_ports(self.spec)

    @property
    def status(self) -> dict[str, Any]:
        return read_json(self.path / "status.json")

    @property
    def log(self) -> Path:
        return self.path / "log"

    @property
    def log_times(self) -> Path:
        return self.path / "log.times"

    @property
    def supervisor_error(self) -> str:
        """The last line of the supervisor's log, if the supervisor itself failed."""
        try:
            with open(self.path / "supervisor.log", "rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
                lines = file.read(4096).decode(errors="replace").split("\n")
        except OSError:
            return _KILLED
        return next(filter(None, map(printable, reversed(lines))), _KILLED)

    def alive(self) -> bool:
        """Whether a supervisor holds the claim."""
        return holder_of(self.path / "claim") is not None

    def held_by(self, pid: int) -> bool:
        """Whether a process holds the claim: a recorded pid may have been reused."""
        return self.alive() and holds(pid, self.path / "claim")

    def read(self) -> WorkerRecord:
        """Read the files, the last one written first, so that nothing is missed in between."""
        taker = read_claim(self.path / "claim")
        alive = self.alive()
        end = read_end(self.path / "exit.json")
        started = read_start(self.path / "status.json")
        if alive and not (end and started is None):  # one that could start nothing counts as gone
            return WorkerRecord(RecordState.ALIVE, holder(self.path / "claim", taker.pid if taker else 0), started)
        if end:
            unclean = started is not None and not (self.path / "done").exists()
            return WorkerRecord(RecordState.EXITED, 0, started, end.at, end.exit_code, end.reason, unclean, end.stopped)
        if end is DAMAGED:
            return self._lost(started, self._damaged("exit.json"))
        if taker is None:
            return WorkerRecord(RecordState.UNCLAIMED, reason=self.supervisor_error)
        if taker is DAMAGED:
            return self._lost(started, self._damaged("claim"))
        if taker.of_earlier_boot:
            return self._lost(started, _RESTARTED)
        if taker.pid == 0:
            return WorkerRecord(RecordState.NEVER, reason="it was stopped before it started.")
        return self._lost(started, f"{_KILLED} together with it")

    def _lost(self, started: float | None, reason: str) -> WorkerRecord:
        return WorkerRecord(RecordState.LOST, 0, started, reason=reason, unclean=True)

    def _damaged(self, name: str) -> str:
        return f"it was lost: its file {'/'.join((*self.path.parts[-3:], name))} is damaged"

    def never(self) -> bool:
        """Prevent the worker from starting; False if it has been claimed."""
        claim = supervisor.claim(str(self.path), 0)
        if claim is not None:
            os.close(claim)
        return claim is not None

    def mark_lost(self) -> None:
        """Mark the worker as lost after a reboot, unless it has ended."""
        if self.read().state in (RecordState.ALIVE, RecordState.EXITED):
            return
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self.path / "claim", f"0 {_EARLIER}")


@dataclass(frozen=True, slots=True)
class AttemptFolder:
    """The folder of one attempt."""

    path: Path
    marker: Path

    def worker(self, rank: int) -> WorkerFolder:
        return WorkerFolder(self.path / str(rank))

    def workers(self) -> Iterator[tuple[int, WorkerFolder]]:
        """The workers that have a folder, by rank."""
        with contextlib.suppress(FileNotFoundError):
            with os.scandir(self.path) as found:
                ranks = [int(each.name) for each in found if _NUMBER.fullmatch(each.name) and each.is_dir()]
            for rank in sorted(ranks):
                yield rank, self.worker(rank)

    def alive(self) -> bool:
        """Whether any of its workers has a supervisor."""
        return any(worker.alive() for _, worker in self.workers())

    @property
    def stopping(self) -> bool:
        return (self.path / "stop").exists()

    def write_stop(self, grace: float, now: float) -> None:
        """Record that the attempt must stop; an earlier deadline stays in force."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self.path / "stop"
        end = read_number(read_json(file), "end")
        if end is None or end > now + grace:
            write_whole(file, json.dumps({"grace": grace, "end": now + grace}))

    def mark(self) -> None:
        """Record, before any of its processes start, that there may be some."""
        self.marker.touch(mode=0o600)

    def unmark(self) -> None:
        """Record that none of its processes runs any more."""
        self.marker.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class JobFolder:
    """The folder of one job."""

    path: Path
    running: Path

    @property
    def work(self) -> Path:
        return self.path / "work"

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint"

    @property
    def output(self) -> Path:
        return self.path / "output"

    @property
    def attempts(self) -> Path:
        return self.path / "attempts"

    def save_request(self, attempt: int) -> Path:
        """The file that asks an attempt to save its state; its owner sees whether it exists, and when it was made."""
        return self.path / f"save.{int(attempt)}"

    def ask_to_save(self, attempt: int, until: float) -> None:
        """Ask an attempt to save its state, unless it was asked for this time already, or its folder is gone."""
        file = self.save_request(attempt)
        before = read_number(read_json(file), "until")
        if before is None or before < until:
            with contextlib.suppress(FileNotFoundError):
                write_whole(file, json.dumps({"until": until}))

    def attempt(self, number: int) -> AttemptFolder:
        return AttemptFolder(self.attempts / str(int(number)), self.running / f"{self.path.name}.{number}")


class Folders:
    """All job folders of one state folder."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = Path(state_dir).absolute()
        self.jobs = self.state_dir / "jobs"
        self.running = self.state_dir / "running"

    def make(self, *, passable: bool = False) -> None:
        """Create the folders that every engine has; if `passable`, other users can traverse them to reach their own."""
        fresh = not self.jobs.exists()
        for folder in (self.state_dir, self.jobs, self.running):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self.state_dir, self.jobs):
            folder.chmod(PASSABLE if passable else CLOSED)
        if fresh:
            self.note_boot()

    def job(self, job: JobId) -> JobFolder:
        """A job's folder, which may not exist. Raises `NotFound` for an invalid id."""
        if not _ID.fullmatch(job):
            raise NotFound(f"There is no job {job!r}.")
        return JobFolder(self.jobs / job, self.running)

    def attempt(self, job: JobId, number: int) -> AttemptFolder:
        return self.job(job).attempt(number)

    def marked(self) -> Iterator[AttemptKey]:
        """The attempts that may have processes."""
        for name in os.listdir(self.running):
            job, _, number = name.rpartition(".")
            if _ID.fullmatch(job) and _NUMBER.fullmatch(number):
                yield AttemptKey((JobId(job), int(number)))

    @property
    def rebooted(self) -> bool:
        """Whether the machine has, or may have, been rebooted since the last `note_boot`."""
        try:
            return (self.state_dir / "boot").read_bytes() != supervisor.boot().encode()
        except OSError:
            return True

    def note_boot(self) -> None:
        """Record that everything from before the last boot has been handled."""
        write_whole(self.state_dir / "boot", supervisor.boot())


def write_whole(file: Path, content: str) -> None:
    """Write a file atomically for other processes; a power cut may leave any part of it."""
    beside = file.with_name(f"{file.name}.tmp")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as writing:
        writing.write(content)
    os.replace(beside, file)
