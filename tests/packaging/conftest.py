"""A wheel built from this checkout, installed into an environment independent of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")


@dataclass(frozen=True)
class Installed:
    """A virtual environment; `run` runs one of its commands outside the checkout."""

    prefix: Path
    elsewhere: Path

    @property
    def environment(self) -> dict[str, str]:
        kept = ("HOME", "LANG", "PATH", "TMPDIR")
        environment = {name: os.environ[name] for name in kept if name in os.environ}
        return {
            **environment,
            "PATH": f"{self.prefix}/bin{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.elsewhere),
        }

    def run(self, *command: str, **options: Any) -> str:
        done = subprocess.run(
            [f"{self.prefix}/bin/{command[0]}", *command[1:]],
            cwd=self.elsewhere,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            **options,
        )
        told = str(done.stdout + done.stderr)
        assert done.returncode == 0, told
        return told


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    build = [
        str(UV),
        "build",
        "--wheel",
        "--no-build-isolation",
        "--python",
        sys.executable,
        "--out-dir",
        str(out),
        str(ROOT),
    ]
    done = subprocess.run(build, capture_output=True, text=True, env={**os.environ, "PATH": _path()})
    assert done.returncode == 0, done.stderr
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel and its requirements, in the versions of the lock file, which are already available."""
    folder = tmp_path_factory.mktemp("elsewhere")
    lock = (ROOT / "deploy" / "requirements-test.txt").read_text()
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(re.findall(r"^(\S+==\S+(?: ; [^\\\n]+)?)", lock, re.MULTILINE)))
    prefix = folder / "environment"
    for command in (
        ["venv", "--quiet", "--python", sys.executable, str(prefix)],
        [
            "pip",
            "install",
            "--quiet",
            "--python",
            str(prefix),
            "--constraint",
            str(constraints),
            f"{wheel}[hub]",
        ],
    ):
        done = subprocess.run([UV, *command], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return Installed(prefix, folder)


def _path() -> str:
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
