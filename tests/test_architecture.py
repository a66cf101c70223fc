"""Imports run one way, as in `docs/explanation/architecture.md`: the table there equals the one here.

All imports count, also in functions and under `TYPE_CHECKING`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("scheduler", "jupyter_ext", "hub_spawner")

USER_SIDE = ("client", "discovery", "errors", "files", "model", "schema", "submission")

MAY_KNOW: Mapping[str, tuple[str, ...]] = {
    "errors": (),
    "model": (),
    "worker": (),
    "policy": ("model",),
    "files": ("errors", "model"),
    "discovery": ("errors", "files"),
    "telemetry": ("errors", "model"),
    "store": ("errors", "files", "model"),
    "schema": ("errors", "model"),
    "simulation": ("errors", "model", "policy"),
    "engines": ("discovery", "errors", "files", "model", "telemetry", "worker"),
    "pool": ("errors", "model", "policy", "schema"),
    "submission": ("errors", "model", "schema"),
    "client": ("discovery", "errors", "files", "model", "schema"),
    "scenario": ("errors", "model", "policy", "pool", "schema"),
    "controller": ("engines", "errors", "model", "policy", "pool", "store", "telemetry"),
    "api": (
        *("controller", "engines", "errors", "files", "model", "policy", "pool", "scenario", "schema"),
        *("store", "telemetry"),
    ),
    "operator": ("api", "engines", "errors", "model", "pool", "schema", "store"),
    "service": (
        *(
            "api",
            "controller",
            "discovery",
            "engines",
            "errors",
            "files",
            "model",
            "operator",
            "policy",
            "pool",
            "store",
        ),
        "telemetry",
    ),
    "jupyter_ext": USER_SIDE,
    "hub_spawner": USER_SIDE,
    "cli": (*USER_SIDE, "hub_spawner", "pool", "scenario", "service", "simulation"),
}
"""Each room with those below it that it may import. A room stands below every room that names it."""


def modules() -> dict[str, Path]:
    """Every module of the product by its name."""
    files = (file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    return {".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file for file in files}


MODULES = modules()


def room_of(module: str) -> str | None:
    """The room that a module belongs to; none for the package `scheduler` itself, which holds the version."""
    package, _, below = module.partition(".")
    return below.partition(".")[0] or None if package == "scheduler" else package


def imports_of(module: str) -> Iterator[str]:
    """The modules of the product that a module imports."""
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            within = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in MODULES else node.module for name in within]
        yield from (name for name in names if name in MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_knows_only_the_rooms_below_its_own(module: str) -> None:
    room = room_of(module)
    if room is None:
        return
    assert room in MAY_KNOW, f"{module} is in a room that the table does not name"
    for name in imports_of(module):
        known = room_of(name)
        assert known in (None, room, *MAY_KNOW[room]), f"{module} imports {name}"


@pytest.mark.parametrize("module", MODULES)
def test_a_module_has_fewer_than_400_lines(module: str) -> None:
    assert len(MODULES[module].read_text().splitlines()) < 400


GENERATED = {"api.ts", "options.ts"}
"""Files of the front end generated from `scheduler/schema` and `scheduler/submission`."""


def test_a_module_of_the_front_end_has_fewer_than_400_lines() -> None:
    files = [file for file in (ROOT / "labextension/src").rglob("*.ts*") if "__tests__" not in file.parts]
    assert files
    assert not [file for file in files if file.name not in GENERATED and len(file.read_text().splitlines()) >= 400]


def test_no_two_rooms_know_each_other() -> None:
    TopologicalSorter(MAY_KNOW).prepare()


def test_no_two_modules_know_each_other() -> None:
    """No circle of files either. The face of a package names the modules below it, which don't name the face."""
    known = {module: {name for name in imports_of(module) if name != module} for module in MODULES}
    try:
        TopologicalSorter(known).prepare()
    except CycleError as error:
        pytest.fail(f"in a circle: {' → '.join(error.args[1])}")


def test_the_table_is_the_one_in_the_documentation() -> None:
    page = (ROOT / "docs/explanation/architecture.md").read_text()
    rows = re.findall(r"^\| `([\w/]+)` \| [^|]+ \| ([^|]*) \|$", page, re.MULTILINE)
    told = {room.removeprefix("scheduler/"): tuple(re.findall(r"\w+", known)) for room, known in rows}
    assert {room: sorted(known) for room, known in told.items() if room in MAY_KNOW} == {
        room: sorted(known) for room, known in MAY_KNOW.items()
    }


def test_code_in_a_job_needs_the_standard_library_alone() -> None:
    """`jupyter_ext.job` and the supervisor run in environments without this project's other files."""
    for file in (ROOT / "jupyter_ext/job.py", *sorted((ROOT / "scheduler/worker").glob("*.py"))):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                tops = {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                tops = {(node.module or "").partition(".")[0]}
            else:
                continue
            outside = tops - set(sys.stdlib_module_names)
            assert not outside - {"scheduler"} or "TYPE_CHECKING" in file.read_text(), f"{file.name} imports {outside}"


PRIVATE_ELSEWHERE = {"_actions", "_SubParsersAction", "_exit"}
"""Of the standard library, where it has no other way."""


@pytest.mark.parametrize("file", sorted((ROOT / "tests").rglob("*.py")), ids=lambda file: file.stem)
def test_tests_use_what_is_public(file: Path) -> None:
    """Tests check contracts, so that internals can change."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Attribute) and re.match("_[a-z]", node.attr):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            assert own or node.attr in PRIVATE_ELSEWHERE, f"line {node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            private = [alias.name for alias in node.names if re.match("_[a-z]", alias.name)]
            assert not private, f"line {node.lineno}: {private}"
