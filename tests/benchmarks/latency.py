"""Submit → running on an idle pool through the client, compared with the bare start of the same Python program.

The job writes the time of its first line, after its imports. The bare start runs the same program as a plain child
process. Both are medians, measured in turn so that load on the machine affects both alike.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scheduler.client import Client
from scheduler.discovery.embedded import ensure
from scheduler.discovery.statefolder import StateFolder
from scheduler.model import JobState
from scheduler.schema import JobSubmit

ROUNDS = 15
FIRST_LINE = "{imports}import sys, time; open(sys.argv[1], 'w').write(repr(time.time()))"


@contextmanager
def scheduler(folder: Path) -> Iterator[Client]:
    os.environ["RUNAI_DECLARED_GPUS"] = "8"
    endpoint = ensure(folder)
    try:
        with Client(endpoint.url, StateFolder(folder).token()) as client:
            yield client
    finally:
        os.kill(endpoint.pid, signal.SIGTERM)


def program(imports: str, stamp: Path) -> list[str]:
    return [
        sys.executable,
        "-c",
        FIRST_LINE.format(imports=f"import {imports}; " if imports else ""),
        str(stamp),
    ]


def bare(imports: str, folder: Path) -> float:
    """Seconds from starting the program to its first line."""
    stamp = folder / "bare"
    begun = time.time()
    subprocess.run(program(imports, stamp), check=True)
    return float(stamp.read_text()) - begun


def submitted(client: Client, imports: str, folder: Path) -> tuple[float, float]:
    """Seconds from submission to the first line, and until the client sees it running."""
    stamp = folder / "job"
    begun = time.time()
    job = client.submit(JobSubmit(command=program(imports, stamp), gpus=1))
    heard = 0.0
    for event in client.events(after=0, subject=job.id):
        state = event.data.get("state")
        if state == JobState.RUNNING:
            heard = time.time() - begun
        if state in (JobState.SUCCEEDED, JobState.FAILED):
            assert state == JobState.SUCCEEDED, event
            return float(stamp.read_text()) - begun, heard
    raise AssertionError("the stream of events never ends by itself")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with scheduler(folder / "state") as client:
            submitted(client, "", folder)  # the first job also opens connections
            plain = [(bare("", folder), *submitted(client, "", folder)) for _ in range(ROUNDS)]
            heavy = [(bare("numpy, sklearn", folder), *submitted(client, "numpy, sklearn", folder)) for _ in range(5)]
    start, first, heard = (statistics.median(column) for column in zip(*plain, strict=True))
    heavy_start, heavy_first, _ = (statistics.median(column) for column in zip(*heavy, strict=True))
    tell("submit → the job's first line, against a bare start of it", first / start, "times")
    tell("submit → running as the client sees it, against a bare start", heard / start, "times")
    tell("the same with numpy and sklearn imported", heavy_first / heavy_start, "times")
    tell("a bare start", start * 1000, "ms")
    tell("submit → the job's first line", first * 1000, "ms")


def tell(figure: str, value: float, unit: str) -> None:
    print(json.dumps({"figure": figure, "value": value, "unit": unit}, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
