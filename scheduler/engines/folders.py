"""The folders of jobs in the state folder: who they are called, and how a worker stands by what is written there.

```
jobs/<id>/work/  checkpoint/  output/         the working directory; what an attempt leaves to the next; what comes back
jobs/<id>/attempts/<n>/stop                   the attempt is to stop, and how long it may take
jobs/<id>/attempts/<n>/<rank>/                one worker:
    spec.json         what to run, written by the engine before anything else
    claim             who starts it (the supervisor's process; 0: nobody ever will), locked while the supervisor lives
    status.json       the worker's process, once it has started
    exit.json         how it ended, or why it could not start
    done              the supervisor has ended, and before it everything that came of the worker
    log               what it printed;  supervisor.log  what its supervisor had to complain of
running/<id>.<n>      an attempt that may have processes, so that all of them are found without looking at every job
```

All functions here wait for the disk: call them off the event loop.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any

from scheduler.errors import NotFound
from scheduler.worker import supervisor

CLOSED, PASSABLE = 0o700, 0o711
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")


class Stand(Enum):
    """`UNCLAIMED`: nobody has started it. `NEVER`: nobody ever will. `ALIVE`: its supervisor is."""

    UNCLAIMED = auto()
    NEVER = auto()
    ALIVE = auto()
    EXITED = auto()
    LOST = auto()


@dataclass(frozen=True, slots=True)
class Standing:
    """How a worker stands; `started` is None where it is not known to have run.

    `unclean` is true where processes of it may be left that no supervisor looks after.
    """

    stand: Stand
    supervisor: int = 0
    started: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    reason: str = ""
    unclean: bool = False


@dataclass(frozen=True, slots=True)
class WorkerFolder:
    """The folder of one worker of an attempt."""

    path: Path

    def write_spec(self, spec: dict[str, Any]) -> None:
        """Write down what to run; harmless where the worker is there already."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = self.path / "spec.json.tmp"
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(spec, file)
        os.replace(beside, self.path / "spec.json")

    @property
    def spec(self) -> dict[str, Any]:
        return _read(self.path / "spec.json")

    def ports(self) -> tuple[int, ...]:
        """Those at which the workers of its attempt meet."""
        return tuple(self.spec.get("ports", ()))

    @property
    def status(self) -> dict[str, Any]:
        return _read(self.path / "status.json")

    @property
    def log(self) -> Path:
        return self.path / "log"

    @property
    def complaint(self) -> str:
        """The last thing that the supervisor said, where something went wrong with it itself."""
        try:
            lines = (self.path / "supervisor.log").read_text(errors="replace").split("\n")
        except OSError:
            return "its supervisor was killed"
        return next((line for line in reversed(lines) if line), "its supervisor was killed")

    def alive(self) -> bool:
        """Whether a supervisor holds the claim."""
        try:
            claim = os.open(self.path / "claim", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(claim, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(claim)
        return False

    def stand(self) -> Standing:
        """How the worker stands now. What is written last is looked for first, so that nothing is missed in between."""
        try:
            claimed = int((self.path / "claim").read_text())
        except FileNotFoundError:
            return Standing(Stand.UNCLAIMED, reason=self.complaint)
        alive = self.alive()
        end = _read(self.path / "exit.json")
        started = self.status.get("started")
        if alive and not (
            end and started is None
        ):  # a supervisor that could start nothing is as good as gone
            return Standing(Stand.ALIVE, claimed, started)
        if end:
            ended, code, reason = end["ended"], end["exit_code"], end["reason"]
            unclean = started is not None and not (self.path / "done").exists()
            return Standing(Stand.EXITED, claimed, started, ended, code, reason, unclean)
        if claimed == 0:
            return Standing(Stand.NEVER, reason="it was stopped before it started.")
        return Standing(Stand.LOST, claimed, started, reason=self.complaint, unclean=True)

    def never(self) -> bool:
        """See to it that nobody starts the worker; False where somebody has claimed it."""
        claim = supervisor.claim(str(self.path), 0)
        if claim is not None:
            os.close(claim)
        return claim is not None


@dataclass(frozen=True, slots=True)
class AttemptFolder:
    """The folder of one attempt."""

    path: Path
    marker: Path

    def worker(self, rank: int) -> WorkerFolder:
        return WorkerFolder(self.path / str(rank))

    def workers(self) -> Iterator[tuple[int, WorkerFolder]]:
        """Those that have a folder, by rank."""
        with contextlib.suppress(FileNotFoundError):
            ranks = [
                int(each.name) for each in os.scandir(self.path) if each.name.isdigit() and each.is_dir()
            ]
            for rank in sorted(ranks):
                yield rank, self.worker(rank)

    def alive(self) -> bool:
        """Whether any of its workers has a supervisor."""
        return any(worker.alive() for _, worker in self.workers())

    @property
    def stopping(self) -> bool:
        return (self.path / "stop").exists()

    def write_stop(self, grace: float, now: float) -> None:
        """Write down that the attempt is to stop; an earlier end that is written there already stays."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self.path / "stop"
        if _read(file).get("end", float("inf")) > now + grace:
            beside = file.with_suffix(".tmp")
            beside.write_text(json.dumps({"grace": grace, "end": now + grace}))
            os.replace(beside, file)

    def mark(self) -> None:
        """Before anything of it may run: note that something may."""
        self.marker.touch(mode=0o600)

    def unmark(self) -> None:
        """Nothing of it runs any more."""
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

    def attempt(self, number: int) -> AttemptFolder:
        return AttemptFolder(self.attempts / str(int(number)), self.running / f"{self.path.name}.{number}")


class Folders:
    """All of them, of one state folder."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = Path(state_dir).absolute()
        self.jobs = self.state_dir / "jobs"
        self.running = self.state_dir / "running"

    def make(self, *, passable: bool = False) -> None:
        """Make those that every engine has; where `passable`, others can pass through to a folder of their own."""
        for folder in (self.state_dir, self.jobs, self.running):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self.state_dir, self.jobs):
            folder.chmod(PASSABLE if passable else CLOSED)

    def job(self, job: str) -> JobFolder:
        """A job's folder, there or not. Raises `NotFound` for what cannot be a job's id."""
        if not _ID.fullmatch(job):
            raise NotFound(f"There is no job {job!r}.")
        return JobFolder(self.jobs / job, self.running)

    def attempt(self, job: str, number: int) -> AttemptFolder:
        return self.job(job).attempt(number)

    def marked(self) -> Iterator[tuple[str, int]]:
        """The attempts that may have processes."""
        for name in os.listdir(self.running):
            job, _, number = name.rpartition(".")
            if _ID.fullmatch(job) and number.isdigit():
                yield job, int(number)


def _read(file: Path) -> dict[str, Any]:
    """A JSON file's content; empty where there is none."""
    try:
        content = json.loads(file.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
