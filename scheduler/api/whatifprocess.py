"""Runs a what-if simulation as a process of its own, with limits: the service itself does no simulation.

What must hold: one simulation at a time; none outlives its time limit, nor the request that it is for.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from scheduler.errors import Conflict, Invalid, Unavailable

PROGRAM = (sys.executable, "-P", "-m", "scheduler.cli.whatif")

SECONDS = 300
"""The longest time that a simulation may take …"""

GIB = 4
"""… and the most memory."""

_TOO_LARGE = "give a shorter span"


class Simulations:
    """The simulations of this scheduler."""

    def __init__(self) -> None:
        self.busy = False

    async def run(self, record: str, change: dict[str, Any]) -> dict[str, Any]:
        """The answer of the program. Raises `Conflict` while another simulation runs, and `Invalid` for a change that
        is refused or a record that takes too long."""
        if self.busy:
            raise Conflict("Another what-if simulation is running; try again when it has ended.")
        self.busy = True
        try:
            return await self._run(f'{{"record": {record}, "change": {json.dumps(change)}}}')
        finally:
            self.busy = False

    async def _run(self, asked: str) -> dict[str, Any]:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*PROGRAM, str(SECONDS), str(GIB), stdin=pipe, stdout=pipe)
        try:
            async with asyncio.timeout(SECONDS):
                out, _ = await process.communicate(asked.encode())
        except TimeoutError:
            raise Invalid(
                f"The simulation takes more than {SECONDS // 60} minutes; {_TOO_LARGE}.", field="since"
            ) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()
        if process.returncode:
            raise Unavailable(f"The simulation ended without an answer, for lack of time or memory; {_TOO_LARGE}.")
        answer: dict[str, Any] = json.loads(out)
        if "refused" in answer:
            raise Invalid(answer["refused"], field=answer["field"])
        return answer
