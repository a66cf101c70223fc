"""`jupyter runai simulate`: a trace of jobs, played by the policy and by what it is held against. No scheduler is involved."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from dataclasses import asdict
from pathlib import Path

from scheduler.cli.text import Screen
from scheduler.errors import Invalid
from scheduler.model import Pool
from scheduler.simulation.play import Costs
from scheduler.simulation.study import NAMES, STATIC, Result, Study, prepare, worse_off
from scheduler.simulation.trace import Trace, read_trace

HOUR = 3600.0
DAY = 86400.0
SAVING = 0.25
"""The part of a stop's cost that is spent saving; the rest is restarting."""


def run(options: argparse.Namespace) -> int:
    names = options.policies or list(NAMES)
    for name in names:
        if name not in NAMES:
            raise Invalid(f"There is no policy “{name}”; there are {', '.join(NAMES)}.", field="policies")
    trace = read_trace(Path(options.trace))
    costs = Costs(saving=SAVING * options.restart_cost, restarting=(1 - SAVING) * options.restart_cost)
    study = prepare(
        trace,
        nodes=options.nodes,
        gpus_per_node=options.gpus_per_node,
        quantile=options.quantile,
        learn=options.learn * DAY,
        pool=_pool(options.pool),
        costs=costs,
        every=options.every,
    )
    results = []
    for result in study.play(names, options.scale or [1.0]):
        print(f"{result.name} …", file=sys.stderr, flush=True)
        results.append(result)
    static = next((result for result in results if result.name == STATIC), None)
    if options.report:
        from scheduler.simulation.report import render

        page = render(results, study.played, start=study.start, end=study.end, facts=_facts(trace, study))
        Path(options.report).write_text(page, "utf-8")
    if options.output == "json":
        print(
            json.dumps(
                {"facts": _facts(trace, study), "results": [_figures(r, static) for r in results]}, indent=2
            )
        )
    else:
        _table(results, static)
    return 0


def _pool(path: str | None) -> Pool | None:
    if path is None:
        return None
    from scheduler.poolfile import parse, pool_of

    try:
        text = Path(path).read_text("utf-8")
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}.", field="pool") from None
    return pool_of(parse(text, source=path), Pool(), 0.0)


def _facts(trace: Trace, study: Study) -> dict[str, str]:
    """What has to be known to get the same figures again."""
    return {
        "command": shlex.join(["jupyter", "runai", *sys.argv[1:]]),
        "trace, SHA-256": trace.digest,
        "jobs": f"{len(study.played.jobs):,}",
        "GPU-hours": f"{study.played.gpu_seconds / HOUR:,.0f}",
        "window": f"{(study.end - study.start) / DAY:.1f} days",
        "a stop costs": f"{study.costs.saving + study.costs.restarting:g} s; nothing is done twice",
        "durations": "seen by the policy only where the trace declares them; shortest_first and backfill see all",
    }


def _figures(result: Result, static: Result | None) -> dict[str, object]:
    worse = worse_off(result, static) if static is not None else None
    return {
        "policy": result.name,
        "gpus": result.gpus,
        **asdict(result.figures),
        "worse_off_than_static": worse,
    }


def _table(results: list[Result], static: Result | None) -> None:
    head = [
        "POLICY",
        "GPUS",
        "HELD",
        "BUSY",
        "MEAN H",
        "P99 H",
        "WAIT H",
        "WAIT P99",
        "STOPS",
        "LOST GPU-H",
        "WORSE OFF",
    ]
    rows = []
    for result in results:
        f = result.figures
        worse = "" if static is None else str(len(worse_off(result, static)))
        rows.append(
            (
                result.name,
                str(result.gpus),
                f"{f.held:.1%}",
                f"{f.busy:.1%}",
                *(
                    f"{seconds / HOUR:.2f}"
                    for seconds in (f.completion.mean, f.completion.p99, f.wait.mean, f.wait.p99)
                ),
                f"{f.stops:,}",
                f"{f.gpu_hours_lost:,.0f}",
                worse,
            )
        )
    Screen().table(head, rows, right=head[1:])
