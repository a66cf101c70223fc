"""`jupyter runai usage`: the use of the pool."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime

from scheduler.cli.connect import connect
from scheduler.cli.text import Screen, amount, took
from scheduler.schema import UsageReport, UsageRow

_HEADS = {"environment": "FOR", "project": "PROJECT", "user": "USER", "gpu_type": "GPU TYPE"}
_FIGURES = ["GPU-HOURS", "IDLE", "STARTS", "MEAN WAIT", "LONGEST", "RECLAIMS", "LOST"]


def run(options: argparse.Namespace) -> int:
    names = ("since", "until", "by", "every", "project", "user", "gpu_type", "environment")
    asked = {name: getattr(options, name) for name in names}
    with connect() as client:
        if options.output == "csv":
            sys.stdout.write(client.usage_table(**asked))
            return 0
        found = client.usage(**asked)
    if options.output:
        from scheduler.cli.formats import emit

        emit(found, options.output)
        return 0
    _show(found, Screen())
    return 0


def _show(found: UsageReport, screen: Screen) -> None:
    if not found.rows:
        screen.line("Nothing was used.")
        return
    heads = [*(["BEGINS"] if found.every else []), *(_HEADS[name] for name in found.by), *_FIGURES]
    rows = [[*_names(row, found), *_figures(row)] for row in found.rows]
    screen.table(heads, rows, right=_FIGURES)


def _names(row: UsageRow, found: UsageReport) -> list[str]:
    begins = [] if row.start is None else [datetime.fromtimestamp(row.start, UTC).strftime("%Y-%m-%d %H:%M UTC")]
    return [*begins, *(getattr(row, name) or "–" for name in found.by)]


def _figures(row: UsageRow) -> list[str]:
    """The figures of a row; idle time is a percentage of the measured hours."""
    idle = f"{row.idle_gpu_hours / row.measured_gpu_hours:.0%}" if row.measured_gpu_hours else "–"
    return [
        amount(round(row.gpu_hours, 2)),
        idle,
        str(row.starts),
        took(row.mean_wait) or "–",
        took(row.longest_wait) if row.starts else "–",
        str(row.reclaims),
        amount(round(row.lost_gpu_hours, 2)),
    ]
