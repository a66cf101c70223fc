"""Real hubs, with their real proxies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hub.running import Hub


@pytest.fixture
def make_hub(tmp_path: Path) -> Iterator[Callable[[], Hub]]:
    hubs = []

    def make() -> Hub:
        hub = Hub(tmp_path)
        hubs.append(hub)
        hub.start()
        return hub

    yield make
    for hub in hubs:
        hub.clean()


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """One hub for the tests that leave it unchanged."""
    hub = Hub(tmp_path_factory.mktemp("hub"))
    hub.start()
    yield hub
    hub.clean()
