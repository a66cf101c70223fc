"""Write the tables of options into the reference pages, from `scheduler/submission/options.py`.

    python docs/tables.py            write them
    python docs/tables.py --check    say whether they are up to date

A table stands between two comments of Markdown, the first of which names it.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from scheduler.submission.options import Group, Interface, Option, of
from scheduler.submission.values import (
    AMOUNT,
    COUNT,
    DURATION,
    GROUPS,
    MEMORY,
    NAMES,
    SWITCH,
    VARIABLES,
    WHOLE,
)

REFERENCE = Path(__file__).parent / "reference"


def magic() -> str:
    """A table for each group."""
    groups = {group: [option for option in of(Interface.MAGIC) if option.group is group] for group in Group}
    return "\n".join(_table((group.value, ""), map(_line, options)) for group, options in groups.items() if options)


def command_line() -> str:
    return _table(("option", "meaning"), map(_line, of(Interface.COMMAND_LINE)))


def job_file() -> str:
    rows = (
        (f"`{option.name}`", _value(option), _meaning(_as_in_a_file(option).meaning("`"), option))
        for option in of(Interface.JOB_FILE)
    )
    return _table(("key", "value", "meaning"), rows)


TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "magic.md": ("options of the magic", magic),
    "cli.md": ("options of submit", command_line),
    "job-file.md": ("keys of a job file", job_file),
}
"""By page: what its table is called, and what makes it."""


def render(page: str) -> str:
    """The page with its table as it should be."""
    name, make = TABLES[page]
    text = (REFERENCE / page).read_text("utf-8")
    marks = rf"(<!-- {name}: .*? -->\n).*?(<!-- end -->)"
    if not re.search(marks, text, re.DOTALL):
        raise ValueError(f"{page} has no place for the table {name!r}")
    return re.sub(marks, lambda found: f"{found[1]}\n{make()}\n{found[2]}", text, flags=re.DOTALL)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n".replace("|  |", "| |") for cells in lines)


def _line(option: Option) -> tuple[str, str]:
    value = "" if option.kind is SWITCH else f" {option.metavar}"
    flags = ", ".join(f"`{flag}{value}`" for flag in option.flags)
    return flags, _meaning(option.meaning_on_a_line("`"), option)


def _meaning(text: str, option: Option) -> str:
    return f"{text}. {option.more}" if option.more else text


def _as_in_a_file(option: Option) -> Option:
    """With amounts in the units of a file: what people write on a line is none there."""
    if option.kind not in (DURATION, MEMORY):
        return option
    default = option.default
    with contextlib.suppress(ValueError):
        default = f"{option.kind.read(default):g}"
    return replace(option, example="", default=default)


_VALUES = {
    **dict.fromkeys((AMOUNT, COUNT, WHOLE), "number"),
    **dict.fromkeys((NAMES, GROUPS), "list"),
    DURATION: "seconds",
    MEMORY: "GiB",
    VARIABLES: "mapping",
}


def _value(option: Option) -> str:
    """What stands behind the key, in people's words."""
    return f"`{str(option.sets).lower()}`" if option.kind is SWITCH else _VALUES.get(option.kind, "text")


def main() -> int:
    stale = [page for page in TABLES if (REFERENCE / page).read_text("utf-8") != render(page)]
    if "--check" in sys.argv[1:]:
        for page in stale:
            print(f"{REFERENCE / page} is not what the options say: run python docs/tables.py", file=sys.stderr)
        return 1 if stale else 0
    for page in stale:
        (REFERENCE / page).write_text(render(page), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
