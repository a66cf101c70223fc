"""`jupyter runai apply`: the pool file."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from scheduler.cli.connect import connect
from scheduler.cli.text import Screen, amount, clean
from scheduler.files.text import read_text

if TYPE_CHECKING:
    from scheduler.schema import Applied, Change, PoolFile

SIGNS = {"add": ("+", "good"), "change": ("~", "note"), "remove": ("-", "bad")}


def run(options: argparse.Namespace) -> int:
    file = None if options.show else _read(options.file)
    with connect() as client:
        if file is None:
            _print_file(client.pool_file())
            return 0
        applied = client.apply(file, preview=options.preview)
    if options.output:
        from scheduler.cli.formats import emit

        emit(applied, options.output)
    else:
        _tell(applied)
    return 0


def _read(name: str) -> PoolFile:
    from scheduler.pool.file import parse

    text, source = read_text(name, "pool file")
    return parse(text, source=source)


def _print_file(file: PoolFile) -> None:
    from scheduler.pool.file import dump

    print(dump(file), end="")


def _tell(applied: Applied) -> None:
    screen = Screen()
    for change in applied.changes:
        sign, style = SIGNS[change.action]
        screen.line(screen.style(f"{sign} {describe(change)}", style))
    if not applied.changes:
        screen.line("Nothing to change.")
    elif applied.preview:
        screen.line("Nothing has been changed; without --preview this would be brought about.")
    sys.stdout.flush()
    for warning in applied.warnings:
        print(f"Note: {warning}", file=sys.stderr)


def describe(change: Change) -> str:
    """`project vision: guaranteed 2 → 4`; what is added comes with what it says, what is removed without."""
    kind = change.kind.replace("_", " ")
    subject = clean(kind if kind == change.name else f"{kind} {change.name}")
    before, after = change.before or {}, change.after or {}
    if change.action == "change":
        return f"{subject}: " + ", ".join(
            f"{_word(key)} {_value(before.get(key))} → {_value(value)}" for key, value in after.items()
        )
    if change.action == "remove":
        return subject
    told = [
        f"{_word(key)} {_value(value)}" for key, value in after.items() if key != "name" and value not in (None, [])
    ]
    return f"{subject}: {', '.join(told)}" if told else subject


def _word(key: str) -> str:
    return key.replace("_", " ")


def _value(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return clean(", ".join(map(str, value))) or "nobody"
    return amount(value) if isinstance(value, float) else clean(value)
