"""The time until the scheduler is ready, and until the command line prints its first output."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from scheduler.discovery.statefolder import StateFolder

ROUNDS = 7


def ready(state_dir: Path) -> float:
    """Seconds from the scheduler's start until it writes its address, when it is ready."""
    folder = StateFolder(state_dir)
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "scheduler.service.app", f"--state-dir={state_dir}"],
        stderr=subprocess.DEVNULL,
    )
    try:
        while folder.endpoint() is None:
            assert process.poll() is None, "it did not start"
            time.sleep(0.002)
        return time.perf_counter() - begun
    finally:
        process.terminate()
        process.wait()


def command(*words: str) -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-m", "scheduler.cli", *words], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun


def median(measure: Callable[[], float], rounds: int = ROUNDS) -> float:
    return statistics.median(measure() for _ in range(rounds))


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        state = Path(name) / "state"
        tell("the scheduler's first start, with a new state", ready(state))
        tell("the scheduler's start until it is ready", median(lambda: ready(state)))
        tell("jupyter-runai --help", median(lambda: command("--help")))
        os.environ["RUNAI_STATE_DIR"] = str(state)
        process = subprocess.Popen([sys.executable, "-m", "scheduler.service.app"], stderr=subprocess.DEVNULL)
        try:
            while StateFolder(state).endpoint() is None:
                time.sleep(0.002)
            tell("jupyter-runai list against a running scheduler", median(lambda: command("list")))
        finally:
            process.terminate()
            process.wait()


def tell(figure: str, value: float) -> None:
    print(json.dumps({"figure": figure, "value": value, "unit": "s"}), flush=True)


if __name__ == "__main__":
    main()
