"""The lock files pin the requirements of pyproject.toml by hash, without their download location."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.conftest import ROOT

DEPLOY = ROOT / "deploy"
LOCKS = sorted(DEPLOY.glob("requirements*.txt"))
NPM_LOCKS = (ROOT / "labextension" / "package-lock.json", DEPLOY / "proxy" / "package-lock.json")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def locked(path: Path) -> dict[str, str]:
    return {
        canonicalize_name(name): version
        for name, version in re.findall(r"^([\w.-]+)(?:\[[^]]*\])?==(\S+)", path.read_text(), re.MULTILINE)
    }


def asked(*extras: str) -> list[Requirement]:
    project = PROJECT["project"]
    lists = [
        project["dependencies"],
        *(project["optional-dependencies"].get(extra, []) for extra in extras),
        PROJECT["dependency-groups"]["frameworks" if "frameworks" in extras else "build"],
    ]
    return [Requirement(line) for lines in lists for line in lines]


@pytest.mark.parametrize(
    ("lock", "extras"),
    [
        ("requirements.txt", ("hub", "examples")),
        ("requirements-frameworks.txt", ("frameworks",)),
        ("requirements-test.txt", tuple(PROJECT["project"]["optional-dependencies"])),
    ],
)
def test_a_lock_holds_what_is_asked_for(lock: str, extras: tuple[str, ...]) -> None:
    versions = locked(DEPLOY / lock)
    for requirement in asked(*extras):
        version = versions.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is missing: run `make lock`"
        assert requirement.specifier.contains(version), f"{requirement} is not {version}: run `make lock`"


def test_the_locks_agree() -> None:
    tests = locked(DEPLOY / "requirements-test.txt")
    for name, version in locked(DEPLOY / "requirements.txt").items():
        assert tests[name] == version
    frameworks = locked(DEPLOY / "requirements-frameworks.txt")
    assert all(tests[name] == frameworks[name] for name in tests.keys() & frameworks.keys())


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_package_has_a_hash_and_no_host_is_named(lock: Path) -> None:
    text = lock.read_text()
    assert "://" not in text
    assert "--index" not in text
    for entry in re.split(r"\n(?=[\w.-]+==)", text)[1:]:
        assert "--hash=sha256:" in entry, entry


@pytest.mark.parametrize("lock", NPM_LOCKS, ids=str)
def test_npm_locks_name_no_host(lock: Path) -> None:
    assert '"resolved"' not in lock.read_text()


def test_slow_modules_are_not_installed() -> None:
    for lock in LOCKS:
        assert "rfc3987-syntax" not in locked(lock)
