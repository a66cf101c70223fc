"""The package installed with pip works without the checkout."""

from __future__ import annotations

import gzip
import json
import re
import signal
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.hub.running import eventually
from tests.packaging.conftest import ROOT, Installed

IN_THE_WHEEL = (
    r"hub_spawner/examples/First steps\.ipynb",
    r"hub_spawner/templates/page\.html",
    r"hub_spawner/chp/bin/configurable-http-proxy\.mjs",
    r"hub_spawner/chp/bin/error/404\.html",
    r"hub_spawner/chp/LICENSES\.txt",
    r"scheduler/store/.*/versions/.*\.py",
    r"scheduler/api/templates/page\.html",
    r"scheduler/api/static/admin\.js",
    r"jupyter_ext/labextension/static/remoteEntry\..*\.js",
    r".*\.data/data/share/jupyter/labextensions/jupyter-runai/package\.json",
    r".*\.data/data/share/jupyter/labextensions/jupyter-runai/install\.json",
    r".*\.data/data/share/jupyter/labextensions/jupyter-runai/static/remoteEntry\..*\.js",
    r".*\.data/data/etc/jupyter/jupyter_server_config\.d/jupyter_ext\.json",
    r".*\.data/data/etc/ipython/ipython_kernel_config\.json",
)
NOT_IN_THE_WHEEL = (r"tests/", r".*node_modules", r".*\.tsx?$", r".*\.map$")


@pytest.mark.parametrize("pattern", IN_THE_WHEEL)
def test_the_wheel_has_all_needed_files(wheel: Path, pattern: str) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert any(re.fullmatch(pattern, name) for name in names)


@pytest.mark.parametrize("pattern", NOT_IN_THE_WHEEL)
def test_the_wheel_has_no_other_files(wheel: Path, pattern: str) -> None:
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if re.match(pattern, name)]


def test_the_script_of_the_page_is_small(wheel: Path) -> None:
    script = zipfile.ZipFile(wheel).read("scheduler/api/static/admin.js")
    assert len(gzip.compress(script)) <= 300_000


def test_the_scripts_in_jupyterlab_are_small(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        scripts = [packed.read(name) for name in packed.namelist() if re.fullmatch(r"jupyter_ext/.*\.js", name)]
    assert len(scripts) > 1
    assert sum(len(gzip.compress(script)) for script in scripts) <= 150_000


def test_one_version_everywhere(installed: Installed) -> None:
    version = json.loads((ROOT / "labextension" / "package.json").read_text())["version"]
    said = installed.run(
        "python",
        "-c",
        "import importlib.metadata as m, scheduler; print(m.version('jupyter-runai'), scheduler.__version__)",
    )
    assert said.split() == [version, version]


def test_the_server_extension_is_enabled_and_valid(installed: Installed) -> None:
    said = installed.run("jupyter", "server", "extension", "list")
    assert re.search(r"jupyter_ext.*enabled", said)
    assert re.search(r"jupyter_ext.*OK", said)


def test_the_lab_extension_is_enabled_and_valid(installed: Installed) -> None:
    assert re.search(r"jupyter-runai v\S+ .*enabled.*OK", installed.run("jupyter", "labextension", "list"))


@pytest.fixture
def served(installed: Installed, tmp_path: Path) -> Iterator[dict[str, str]]:
    """A scheduler of the installed package with its own folder; yields the environment to reach it."""
    state = tmp_path / "state"
    with (tmp_path / "log").open("w+") as log:
        process = subprocess.Popen(
            [
                f"{installed.prefix}/bin/jupyter",
                "runai",
                "serve",
                "--state-dir",
                state,
                "--declared-gpus",
                "2",
            ],
            cwd=installed.elsewhere,
            env=installed.environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            eventually("the scheduler has told its address", (state / "endpoint.json").exists)
            yield {**installed.environment, "RUNAI_STATE_DIR": str(state)}
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0, (tmp_path / "log").read_text()


def test_a_job_runs(installed: Installed, served: dict[str, str]) -> None:
    def runai(*words: str) -> str:
        done = subprocess.run(
            [f"{installed.prefix}/bin/jupyter", "runai", *words],
            cwd=installed.elsewhere,
            env=served,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    said = runai("submit", "--gpus", "1", "--name", "hello", "--", "python", "-c", "print('hello', 6 * 7)")
    (job,) = set(re.findall(r"\bj[-\w]{6,}\b", said)) or {said.split()[0]}
    assert "hello 42" in runai("logs", "-f", job)


def test_one_command_gives_a_hub(installed: Installed, tmp_path: Path) -> None:
    log = tmp_path / "said"
    with log.open("w") as out:
        process = subprocess.Popen(
            [
                f"{installed.prefix}/bin/jupyter",
                "runai",
                "up",
                "--state-dir",
                tmp_path / "hub",
                "--allow-root",
            ],
            cwd=installed.elsewhere,
            env=installed.environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        (url,) = eventually("the hub has told its address", lambda: re.findall(r"http://\S+", log.read_text()))
        assert httpx.get(url, follow_redirects=True).is_success
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0, log.read_text()
