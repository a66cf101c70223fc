"""A scheduler to be killed while a job is paused for another: `python -m … STATE_DIR`, its clock nine hours ahead.

It finds a long job running, and submits the short job for which that is paused.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from tests.controller.scheduler_process import command, scheduling

AHEAD = 9 * 3600.0
SHORT = """echo "$RUNAI_ATTEMPT" >> ran-short; until test -e end-short; do sleep 0.05; done"""


def now() -> float:
    return time.time() + AHEAD


async def main(state_dir: Path) -> None:
    async with scheduling(state_dir, gpus=2, clock=now) as controller:
        if len(await controller.jobs()) < 2:
            await controller.submit(command(f"cd {state_dir}; {SHORT}", user="ben", expected_runtime=1200.0))
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
