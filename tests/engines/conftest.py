"""An engine in its own state folder; none of its processes outlive the test."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.engines.workplace import Workplace, processes, supervisors


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Workplace]:
    workplace = Workplace(tmp_path / "state")
    await workplace.open()
    try:
        yield workplace
    finally:
        await workplace.close()
        for process in [*processes(workplace.state_dir), *supervisors(workplace.state_dir)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
