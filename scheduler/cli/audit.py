"""`jupyter runai audit`: the changes of the pool and their authors."""

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
    screen.table(["WHEN", "WHO", "WHAT"], [row(entry) for entry in found])
    return 0


def row(entry: AuditEntry) -> tuple[str, str, str]:
    """When, by whom and what was changed."""
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.at))
    if entry.kind == "gpu":
        return when, _who(entry), _gpu_words(entry)
    return when, _who(entry), describe(entry) + _owned(entry) + _stop_reason(entry)


def _who(entry: AuditEntry) -> str:
    if entry.user is not None:
        return clean(entry.user)
    return "(scheduler)" if entry.kind == "gpu" or _stop_reason(entry) else "(pool file)"


def _gpu_words(entry: AuditEntry) -> str:
    failure = (entry.after or {}).get("failure")
    does = "works again and gets work." if failure is None else f"fails and gets no more work. {failure}"
    return clean(f"GPU {entry.name} {does}")


def _stop_reason(entry: AuditEntry) -> str:
    """Why the scheduler itself stopped a server."""
    return clean(f": {entry.after['reason']}") if entry.action == "remove" and entry.after else ""


def _owned(entry: AuditEntry) -> str:
    """The owner of the job or session."""
    before = entry.before or {}
    if not before.get("owner"):
        return ""
    return " " + clean(f"({before.get('name') or ''} of {before['owner']})".replace("( ", "("))
