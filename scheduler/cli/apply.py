"""`jupyter runai apply`: the pool file."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from scheduler.cli.connect import connect
from scheduler.cli.text import Screen, amount, clean
from scheduler.files.text import read_text
from scheduler.model import ONE, gpu_count

if TYPE_CHECKING:
    from scheduler.schema import Applied, Change, EffectView, PoolFile

EFFECTS = {
    "stop": "stop and queue again",
    "move": "move to other GPUs",
    "resize": "continue with a different number of workers",
    "start": "start",
}
SIGNS = {"add": ("+", "good"), "change": ("~", "note"), "remove": ("-", "bad")}


def run(options: argparse.Namespace) -> int:
    file = None if options.show else _read(options.file)
    with connect() as client:
        if file is None:
            _print_file(client.pool_file())
            return 0
        found = client.apply(file, preview=True)
        applied = found if options.preview else client.apply(file)
    if options.output:
        from scheduler.cli.formats import emit

        emit(applied, options.output)
    else:
        tell(applied, found.effects)
    return 0


def _read(name: str) -> PoolFile:
    from scheduler.pool.file import parse

    text, source = read_text(name, "pool file")
    return parse(text, source=source)


def _print_file(file: PoolFile) -> None:
    from scheduler.pool.file import dump

    print(dump(file), end="")


def tell(applied: Applied, effects: Sequence[EffectView]) -> None:
    screen = Screen()
    for change in applied.changes:
        sign, style = SIGNS[change.action]
        screen.line(screen.style(f"{sign} {describe(change)}", style))
    if not applied.changes:
        screen.line("Nothing to change.")
    tell_effects(screen, effects, preview=applied.preview)
    if applied.changes and applied.preview:
        screen.line("Nothing has been changed; run it without --preview to apply this.")
    tell_warnings(applied.warnings)


def tell_effects(screen: Screen, effects: Sequence[EffectView], *, preview: bool) -> None:
    """`2 jobs of nlp (2 GPUs) would stop and queue again: 7f3a, 81bc`, a line for each effect on a project."""
    for effect in effects:
        jobs = f"{effect.jobs} job{'' if effect.jobs == 1 else 's'} of {effect.project}"
        verb = f"{'would' if preview else 'will'} {EFFECTS[effect.action]}"
        more = ", …" if effect.jobs > len(effect.ids) else ""
        screen.line(clean(f"{jobs} ({gpu_count(round(effect.gpus * ONE))}) {verb}: {', '.join(effect.ids)}{more}"))


def tell_warnings(warnings: Sequence[str]) -> None:
    sys.stdout.flush()
    for warning in warnings:
        print(f"Note: {warning}", file=sys.stderr)


def describe(change: Change) -> str:
    """`project vision: guaranteed 2 → 4`; an added entry is shown with its content, a removed one without."""
    kind = change.kind.replace("_", " ")
    subject = clean(kind if kind == change.name else f"{kind} {change.name}")
    before, after = change.before or {}, change.after or {}
    if change.action == "change":
        return f"{subject}: " + ", ".join(
            f"{_word(key)} {_value(key, before.get(key))} → {_value(key, value)}" for key, value in after.items()
        )
    if change.action == "remove":
        return subject
    told = [
        f"{_word(key)} {_value(key, value)}"
        for key, value in after.items()
        if key != "name" and value not in (None, [])
    ]
    return f"{subject}: {', '.join(told)}" if told else subject


def _word(key: str) -> str:
    return key.replace("_", " ")


def _listed(value: Any) -> str:
    if isinstance(value, dict) and "timezone" in value:
        from scheduler.pool.windows import in_words
        from scheduler.schema import WindowEntry

        return in_words(WindowEntry.model_validate(value))
    return str(value)


def _value(key: str, value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return clean(", ".join(map(_listed, value))) or ("nobody" if key in ("members", "groups") else "none")
    return amount(value) if isinstance(value, float) else clean(value)
