"""Imports run one way: each room may know only the rooms that docs/explanation/architecture.md lets it know."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

NOUNS = {"model", "errors"}
CLIENT_FACE = NOUNS | {
    "amounts",
    "client",
    "bundle",
    "jobfile",
    "sweeps",
    "notebooks",
    "embedded",
    "statefolder",
    "api.schema",
}
"""What a user's side may import: the client, and the small modules that come with it."""

MAY_KNOW = {
    "scheduler/model.py": set(),
    "scheduler/errors.py": set(),
    "scheduler/bundle.py": {"errors", "gzipped"},
    "scheduler/statefolder.py": {"errors"},
    "scheduler/worker": {"worker"},
    "scheduler/policy": {"model", "policy"},
    "scheduler/engines": {*NOUNS, "engines", "worker", "blobs", "statefolder"},
    "scheduler/store": {*NOUNS, "store"},
    "scheduler/telemetry": {*NOUNS, "telemetry"},
    "scheduler/client": {*NOUNS, "client", "bundle", "api.schema", "statefolder"},
    "jupyter_ext": CLIENT_FACE,
    "hub_spawner": CLIENT_FACE,
}


def imports_of(path: Path) -> Iterator[str]:
    """The modules of the scheduler that a file imports, without `scheduler.` in front."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
            if node.module == "scheduler":
                names = [f"scheduler.{alias.name}" for alias in node.names]
        for name in names:
            if name.startswith("scheduler.") and name != "scheduler.__version__":
                yield name.removeprefix("scheduler.")


@pytest.mark.parametrize("room", MAY_KNOW)
def test_a_room_knows_only_what_it_may(room: str) -> None:
    place = ROOT / room
    files = [place] if place.is_file() else sorted(place.rglob("*.py"))
    assert files, f"{room} is gone; take it out of the table"
    allowed = MAY_KNOW[room]
    for file in files:
        for name in imports_of(file):
            known = any(name == rule or name.startswith(rule + ".") for rule in allowed)
            assert known, f"{file.relative_to(ROOT)} imports scheduler.{name}"


def test_code_in_a_job_needs_the_standard_library_alone() -> None:
    """`jupyter_ext.job` and the supervisor run in environments that have nothing of ours but their files."""
    import sys

    for file in (ROOT / "jupyter_ext/job.py", *sorted((ROOT / "scheduler/worker").glob("*.py"))):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                tops = {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                tops = {(node.module or "").partition(".")[0]}
            else:
                continue
            outside = tops - set(sys.stdlib_module_names)
            assert not outside - {"scheduler"} or "TYPE_CHECKING" in file.read_text(), (
                f"{file.name} imports {outside}"
            )
