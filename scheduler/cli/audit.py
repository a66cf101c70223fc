"""`jupyter runai audit`: who changed what of the pool."""

from __future__ import annotations

import argparse
import time

from scheduler.cli.apply import describe
from scheduler.cli.connect import connect
from scheduler.cli.text import Screen, clean
from scheduler.schema import AuditEntry


def run(options: argparse.Namespace) -> int:
    with connect() as client:
        found = client.audit(user=options.user, name=options.name, limit=options.limit).entries
    if options.output:
        from scheduler.cli.formats import emit

        emit(found, options.output)
        return 0
    screen = Screen()
    if not found:
        screen.line("No changes.")
        return 0
    rows = [
        (
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.at)),
            _who(entry.user),
            describe(entry) + _owned(entry),
        )
        for entry in found
    ]
    screen.table(["WHEN", "WHO", "WHAT"], rows)
    return 0


def _who(user: str | None) -> str:
    return "(pool file)" if user is None else clean(user)


def _owned(entry: AuditEntry) -> str:
    """Whose job or session it was."""
    before = entry.before or {}
    if not before.get("owner"):
        return ""
    return " " + clean(f"({before.get('name') or ''} of {before['owner']})".replace("( ", "("))
