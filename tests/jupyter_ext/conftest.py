"""A notebook for tests: a real IPython shell in its own folder."""

from __future__ import annotations

import asyncio
import builtins
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from pytest_jupyter.jupyter_core import *  # noqa: F403 (fixtures: jp_environ, …)
from pytest_jupyter.jupyter_server import *  # noqa: F403 (fixtures: jp_serverapp, jp_fetch, …)
from traitlets.config import Config

from tests.jupyter_ext.pool import Kernel, RunningPool, running_pool


@pytest.fixture  # type: ignore[no-redef]
async def jp_asyncio_loop() -> asyncio.AbstractEventLoop:
    """The server uses the test's event loop."""
    return asyncio.get_running_loop()


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPool]:
    """A real scheduler with four declared GPUs."""
    with running_pool(tmp_path_factory.mktemp("pool") / "state", gpus=4) as pool:
        yield pool


@pytest.fixture(scope="module")
def kernel(pool: RunningPool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A real kernel that sends to it."""
    folder = tmp_path_factory.mktemp("kernel") / "work"
    folder.mkdir()
    kernel = Kernel(folder, pool.environment)
    kernel.run("%load_ext jupyter_ext")
    yield kernel
    kernel.close()


class Notebook:
    """Runs cells in turn; returns a cell's output, and raises its error."""

    def __init__(self) -> None:
        config = Config()
        config.HistoryManager.enabled = False
        config.InteractiveShell.colors = "nocolor"
        module = ModuleType("__main__")
        sys.modules["__main__"] = module
        self.shell: Any = InteractiveShell.instance(config=config, user_module=module, user_ns=module.__dict__)

    def run(self, *cells: str) -> str:
        printed = ""
        for cell in cells:
            with capture_output(display=False) as captured:
                result = self.shell.run_cell(cell, store_history=True)
            printed = captured.stdout.replace("\r\n", "\n")
            result.raise_error()
        return printed

    def refused(self, cell: str) -> str:
        """The output of a failing cell."""
        with capture_output() as captured:
            result = self.shell.run_cell(cell, store_history=True)
        assert not result.success, f"This was not refused: {cell}\n{captured.stdout}"
        return f"{captured.stdout}{captured.stderr}"

    def __getitem__(self, name: str) -> Any:
        return self.shell.user_ns[name]


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    kept: dict[str, Any] = {"main": sys.modules["__main__"], "path": [*sys.path], "hook": sys.displayhook}
    kept_modules, kept_builtins = set(sys.modules), dict(vars(builtins))
    sys.path[:0] = [""]
    try:
        yield Notebook()
    finally:
        InteractiveShell.clear_instance()
        sys.modules["__main__"] = kept["main"]
        sys.path[:] = kept["path"]
        sys.displayhook = kept["hook"]
        for name in set(vars(builtins)) - set(kept_builtins):
            delattr(builtins, name)
        for name in set(sys.modules) - kept_modules:
            file = getattr(sys.modules[name], "__file__", None)
            if file and Path(file).is_relative_to(tmp_path):
                del sys.modules[name]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """Put a file into the notebook's folder."""

    def put(name: str, text: str) -> Path:
        file = tmp_path / "work" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    return put


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, **more}
