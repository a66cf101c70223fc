"""Real control groups, where the tests may make some."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from scheduler.errors import Unavailable
from scheduler.telemetry.cgroups import root


def needs_control_groups() -> None:
    """Skip the test where control groups of version 2 cannot be made."""
    with suppress(Unavailable, OSError):
        probe = root() / f"test-{os.getpid()}"
        probe.mkdir()
        probe.rmdir()
        return
    pytest.skip("needs root and control groups of version 2")


@pytest.fixture
def group() -> Iterator[Path]:
    """An empty control group."""
    needs_control_groups()
    folder = root() / f"runai-test-{os.getpid()}"
    folder.mkdir()
    yield folder
    folder.rmdir()
