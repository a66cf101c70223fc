"""The archive of the agent: one file that any Python from 3.8 on runs."""

from __future__ import annotations

import ast
import io
import shutil
import subprocess
import sys
import zipfile

import pytest

from scheduler.engines.agents.archive import agent_archive
from scheduler.engines.files import log_file
from scheduler.model import JobId
from tests.engines.backends import RemoteBackendSetup, Scheduler
from tests.engines.remote import Containers
from tests.engines.workplace import launch, shell


def archived() -> dict[str, str]:
    """The sources in the agent's archive by name."""
    with zipfile.ZipFile(io.BytesIO(agent_archive())) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


@pytest.mark.parametrize("name", archived())
def test_it_is_written_in_python_3_8_and_imports_nothing_but_itself_and_the_standard_library(name: str) -> None:
    files = archived()
    for node in ast.walk(ast.parse(files[name], feature_version=(3, 8))):
        if isinstance(node, ast.Import):
            assert all(imported.name.split(".")[0] in sys.stdlib_module_names for imported in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            path = node.module.replace(".", "/")
            assert path.split("/")[0] in sys.stdlib_module_names or {f"{path}.py", f"{path}/__init__.py"} & {*files}


def older_python() -> str | None:
    """The oldest Python on this machine from 3.8 on, other than the tests' own."""
    for name in ("python3.8", "python3.9", "python3.10"):
        if found := shutil.which(name):
            try:
                subprocess.run([found, "-c", ""], check=True, capture_output=True)
            except (OSError, subprocess.CalledProcessError):
                continue
            return found
    return None


@pytest.mark.skipif(older_python() is None, reason="There is no Python from 3.8 to 3.10 on this machine.")
async def test_an_older_python_runs_it(here: Scheduler, setup: RemoteBackendSetup) -> None:
    found = older_python()
    assert found is not None
    setup.containers = Containers(setup.containers.folder, found)
    here.setup = setup
    await here.restart()
    await here.backend.engine.launch(launch("j", shell("echo one; exit 3")))
    assert (await here.end("j")).exit_code == 3
    assert await here.backend.files.read(log_file(JobId("j"), 1, 0), 0, 99) == b"one\n"
