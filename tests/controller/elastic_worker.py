"""A worker of an elastic job that resumes from its saved state: `python elastic_worker.py FOLDER`.

It locks its GPUs by folders in FOLDER, and records there when another worker holds one. It continues until FOLDER/done
exists, and stops slowly on request.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from jupyter_ext import job


def main(folder: Path) -> None:
    locks = [folder / f"gpu-{gpu}" for gpu in os.environ["CUDA_VISIBLE_DEVICES"].split(",")]
    for lock in locks:
        try:
            lock.mkdir()
        except FileExistsError:
            (folder / "twice").write_text(f"{lock.name} in attempt {job.attempt} of {job.id}")
    step = job.restore(default=0)
    while not job.should_stop() and not (folder / "done").exists():
        if job.rank == 0:
            step += 1
            job.checkpoint(step)
            job.report(step=step, workers=job.world_size)
        time.sleep(0.02)
    if job.should_stop():
        (folder / f"asked-{job.attempt}-{job.rank}").touch()
        time.sleep(0.3)
    for lock in locks:
        lock.rmdir()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
