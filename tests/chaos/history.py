"""The history of jobs as recorded by themselves, with locks and marks in a folder unknown to the scheduler: independent
of its events.

Each worker locks a file for each of its GPUs and one for its rank of the job, and records when another worker holds a
lock. In its job's file it records its start, each of its steps and its end.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

_WORKER = """
import fcntl, os, sys, time
marks, steps = sys.argv[1], int(sys.argv[2])
job, attempt, rank = (os.environ["RUNAI_" + name] for name in ("JOB_ID", "ATTEMPT", "RANK"))

def mark(name, line):
    with open(os.path.join(marks, name), "a") as file:
        file.write(line + "\\n")

def hold(name):
    file = open(os.path.join(marks, name + ".lock"), "a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        mark("taken", f"{job}, attempt {attempt}, worker {rank}: {name} is somebody else's")
    return file

held = [hold(f"gpu-{gpu}") for gpu in os.environ["RUNAI_GPUS"].split(",")] + [hold(f"{job}-{rank}")]
mark(job, f"{attempt} {rank} begins")
for step in range(steps):
    time.sleep(0.05)
    mark(job, f"{attempt} {rank} {step}")
mark(job, f"{attempt} {rank} ends")
"""


@dataclass(frozen=True)
class History:
    """The marks of one job."""

    begins: Counter[tuple[int, int]]
    """The number of starts by (attempt, rank)."""
    ends: Counter[tuple[int, int]]

    @property
    def attempts(self) -> int:
        return max((attempt for attempt, _ in self.begins), default=0)


class HistoryRecorder:
    """`folder` has the marks of the workers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def command(self, steps: int) -> list[str]:
        """The command of a worker that takes this many steps of 50 ms."""
        return [sys.executable, "-I", "-S", "-c", _WORKER, str(self.folder), str(steps)]

    def of(self, job: str) -> History:
        found = History(Counter(), Counter())
        file = self.folder / job
        for line in file.read_text().splitlines() if file.exists() else ():
            attempt, rank, what = line.split()
            if what in ("begins", "ends"):
                getattr(found, what)[int(attempt), int(rank)] += 1
        return found

    def taken(self) -> list[str]:
        """The GPUs and ranks that two workers held at the same time."""
        file = self.folder / "taken"
        return file.read_text().splitlines() if file.exists() else []
