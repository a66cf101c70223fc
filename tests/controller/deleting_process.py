"""A scheduler in a separate process that deletes all ended jobs, to be killed: `python -m … STATE_DIR`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from scheduler.controller import deletion
from tests.controller.scheduler_process import scheduling


async def main(state_dir: Path) -> None:
    deletion.STEP, deletion.REST = 3, 0.0
    async with scheduling(state_dir) as controller:
        print("begins", flush=True)
        await controller.tidy()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
