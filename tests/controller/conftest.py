"""A controller with a real store, declared nodes and a scripted engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.controller.stage import Bench, World, opened


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
async def bench(tmp_path: Path, world: World) -> AsyncIterator[Bench]:
    async with opened(tmp_path, world) as made:
        yield made
