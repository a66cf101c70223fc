"""The overhead of a train cell on an idle pool, measured in a real kernel.

A trivial cell's round trip is compared with the bare start of its interpreter, including imports. Live output is the
time from printing a line in the job to its arrival at the kernel's client. The rate is that of capturing and submitting
an array of random numbers, which cannot be compressed.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.jupyter_ext.pool import Kernel, running_pool

ROUNDS = 15
LINES = 200
MEBIBYTES = 1024
FLOOD = 100_000_000


def main() -> None:
    with tempfile.TemporaryDirectory() as name, running_pool(Path(name) / "state", gpus=8) as pool:
        (Path(name) / "work").mkdir()
        kernel = Kernel(Path(name) / "work", pool.environment)
        try:
            kernel.run("%load_ext jupyter_ext")
            round_trips(kernel)
            live_output(kernel)
            flood(kernel)
            large_data(kernel)
        finally:
            kernel.close()


def round_trips(kernel: Kernel) -> None:
    cell(kernel)  # the first one also opens connections
    times = [(bare(), cell(kernel)) for _ in range(ROUNDS)]
    start, trip = (statistics.median(column) for column in zip(*times, strict=True))
    tell("a trivial cell's round trip beyond its interpreter's start", trip - start, "s")
    tell("a trivial cell's round trip", trip, "s")


def bare() -> float:
    begun = time.time()
    subprocess.run([sys.executable, "-P", "-c", "import jupyter_ext.cell_runner"], check=True)
    return time.time() - begun


def cell(kernel: Kernel) -> float:
    begun = time.time()
    shown = kernel.run("%%runai_train --no-files\n1")
    assert shown.error is None, shown.error
    return time.time() - begun


def live_output(kernel: Kernel) -> None:
    shown = kernel.run(
        "%%runai_train --no-files\nimport time\n"
        f"for i in range({LINES}):\n    print(f'at {{time.time()}}')\n    time.sleep(0.02)"
    )
    behind = sorted(
        arrived - float(printed) for arrived, text in shown.arrived for printed in re.findall(r"at (\d+\.\d+)", text)
    )
    tell(
        "a line is printed in a job → in the notebook, 95th percentile",
        behind[int(len(behind) * 0.95)] * 1000,
        "ms",
    )


def flood(kernel: Kernel) -> None:
    """A job prints 100 MB: the time taken, and the growth of the kernel's memory."""
    process = psutil.Process(int(kernel.pid))
    before = process.memory_info().rss
    begun = time.time()
    shown = kernel.run(f"%%runai_train --no-files\nfor _ in range({FLOOD // 100}):\n    print('x' * 99)", timeout=120)
    assert shown.error is None, shown.error
    tell("a job that prints 100 MB", time.time() - begun, "s")
    tell("the kernel's memory for showing it", (process.memory_info().rss - before) / 2**20, "MiB")


def large_data(kernel: Kernel) -> None:
    """Sent for the first time, and again unchanged. Capturing is the cell's time until its submission."""
    kernel.run(f"import numpy as np\ndata = np.random.default_rng(0).normal(size={MEBIBYTES} * 2**17)")
    for figure in ("numpy data taken along and submitted", "the same data taken along once more"):
        begun = time.time()
        shown = kernel.run("%%runai_train --no-files --detach\ndata.nbytes", timeout=300)
        took = time.time() - begun
        assert shown.error is None, shown.error
        kernel.run("_job.result()")
        tell(figure, MEBIBYTES / took, "MiB/s")


def tell(figure: str, value: float, unit: str) -> None:
    print(json.dumps({"figure": figure, "value": value, "unit": unit}, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
