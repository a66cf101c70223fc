"""`jupyter runai simulate`: simulates a trace of jobs with the policy and with baselines. No scheduler is involved."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from dataclasses import asdict, replace
from pathlib import Path

from scheduler.cli.text import Screen
from scheduler.errors import Invalid
from scheduler.files.text import read_text
from scheduler.model import Pool
from scheduler.simulation.metrics import Figures
from scheduler.simulation.sessions import PROFILE, sessions_of
from scheduler.simulation.slowgpus import PATTERNS, SlowGpuFigures
from scheduler.simulation.study import NAMES, Result, Study, prepare
from scheduler.simulation.trace import Trace, read_trace

HOUR = 3600.0
DAY = 86400.0


RECORD_ONLY = ("since", "until", "gpus", "guaranteed")


def run(options: argparse.Namespace) -> int:
    if options.recorded:
        from scheduler.cli.recorded import run as run_recorded

        return run_recorded(options)
    for name in RECORD_ONLY:
        if getattr(options, name) is not None:
            raise Invalid(f"--{name} belongs to --recorded; add that, and name no trace.", field=name)
    if options.trace is None:
        raise Invalid("Name a trace of jobs, or simulate the jobs of your pool with --recorded.", field="trace")
    if options.nodes is None:
        raise Invalid("--nodes is missing; say how many nodes the shared pool has.", field="nodes")
    names = options.policies or list(NAMES)
    for name in names:
        if name not in NAMES:
            raise Invalid(f"There is no policy “{name}”; available: {', '.join(NAMES)}.", field="policies")
    for pattern in options.slow_gpus or ():
        if pattern not in PATTERNS:
            raise Invalid(
                f"There is no pattern “{pattern}” of slow GPUs; available: {', '.join(PATTERNS)}.", field="slow_gpus"
            )
    if options.report and not Path(options.report).absolute().parent.is_dir():
        raise Invalid(f"The folder of {options.report} does not exist; create it first.", field="report")
    trace = read_trace(Path(options.trace), ignore=options.ignore or ())
    study = prepare(
        trace,
        nodes=options.nodes,
        gpus_per_node=options.gpus_per_node,
        quantile=options.quantile,
        learn=options.learn * DAY,
        pool=_pool(options.pool),
        costs=options.restart_cost or [60.0],
        scales=options.scale or [],
        every=options.every,
        checkpoint_every=options.checkpoint_every or None,
    )
    if options.sessions:
        sessions = sessions_of(options.sessions, study.start, study.end, options.seed)
        if not sessions:
            raise Invalid("Nobody opens a session in the short time of this trace.", field="sessions")
        study = replace(study, users=options.sessions, sessions=sessions)
    study = replace(study, estimate_every=options.estimate_every or None)
    facts = _facts(trace, study, options)
    if options.report:
        from scheduler.simulation.report import render
    results = []
    for result in study.play(names):
        print(f"{result.name} …", file=sys.stderr, flush=True)
        results.append(result)
    slow = []
    for pattern in options.slow_gpus or ():
        print(f"slow GPUs, {pattern} …", file=sys.stderr, flush=True)
        slow.append(study.with_slow_gpus(pattern, options.seed))
    if options.report:
        Path(options.report).write_text(render(results, study, facts, slow), "utf-8")
    if options.output == "json":
        told = {"facts": facts, "results": [_figures(r) for r in results]}
        if slow:
            told["slow_gpus"] = [{**asdict(each), "recovered": each.recovered, "regret": each.regret} for each in slow]
        print(json.dumps(told, indent=2))
    else:
        for name, fact in facts.items():
            print(f"{name}: {fact}")
        print()
        _table(results)
        _estimates(results)
        _slow_gpus(slow)
    return 0


def _pool(path: str | None) -> Pool | None:
    if path is None:
        return None
    from scheduler.pool.file import parse, pool_of

    text, source = read_text(path, "pool file")
    return pool_of(parse(text, source=source), Pool(), 0.0)


def _facts(trace: Trace, study: Study, options: argparse.Namespace) -> dict[str, str]:
    """What is needed to reproduce the figures."""
    learned = f"the {options.learn:g} days before the window" if options.learn else "the simulated window"
    facts = {
        "command": shlex.join(["jupyter", "runai", *sys.argv[1:]]),
        "trace": f"{Path(options.trace).name}, SHA-256 {trace.digest}",
        "seed": str(options.seed),
        "jobs": f"{len(study.played.jobs):,} of {len(study.played.projects)} projects, "
        f"{study.played.gpu_seconds / HOUR:,.0f} GPU-hours",
        "window": f"{(study.end - study.start) / DAY:.1f} days, from the first submission to the last",
        "partitions": f"{options.quantile:.0%} quantile of each project's demand in {learned}, "
        f"whole nodes: {sum(study.partition.values()) * study.gpus_per_node:,} GPUs",
        "guarantees": f"as {options.pool} says" if options.pool else _promised(study),
        "a stop costs": f"{study.costs[0]:g} s, in which its GPUs are held without progress; {_again(study)}",
        "durations": "seen by the policy only where the trace declares them; shortest_first and backfill see all",
    }
    if study.sessions:
        facts["sessions"] = f"{len(study.sessions):,} of {study.users} people, generated: {PROFILE}"
    if options.slow_gpus:
        facts["slow GPUs"] = "; ".join(f"{name}: {PATTERNS[name]}" for name in options.slow_gpus)
    return facts


def _again(study: Study) -> str:
    if study.checkpoint_every is None:
        return "no work is repeated"
    return f"and what was done since the last checkpoint, made every {study.checkpoint_every:g} s"


def _promised(study: Study) -> str:
    partitions = sum(study.partition.values())
    if study.nodes >= partitions:
        return "each project's own partition"
    return f"each project's own partition × {study.nodes / partitions:.2f}, which is all the pool has"


def _figures(result: Result) -> dict[str, object]:
    compared = result.against_static
    return {
        "policy": result.name,
        "part": result.part,
        "gpus": result.gpus,
        "stop_cost": result.cost,
        **asdict(result.figures),
        "below_guarantee_seconds": result.deprived,
        "against_static": None if compared is None else asdict(compared),
        "worse_off_than_static": None if compared is None else compared.worse_off,
        "sessions": _sessions(result),
        "estimates": None if result.estimates is None else asdict(result.estimates),
    }


def _sessions(result: Result) -> dict[str, float] | None:
    if not result.opened:
        return None
    waits = [run.wait for run in result.opened]
    return {"opened": len(waits), "mean_wait": sum(waits) / len(waits), "longest_wait": max(waits)}


def _table(results: list[Result]) -> None:
    head = [
        "POLICY",
        "GPUS",
        "OFFERED",
        "HELD",
        "BUSY",
        "MEAN H",
        "MEDIAN",
        "P90",
        "P99",
        "WAIT H",
        "WAIT P99",
        "SLOWDOWN",
        "STOPS",
        "LOST GPU-H",
        "WORSE OFF",
    ]
    rows = []
    for result in results:
        compared = result.against_static
        worse = "" if compared is None else str(len(compared.worse_off))
        rows.append((result.name, str(result.gpus), *_columns(result.figures), worse))
    Screen().table(head, rows, right=head[1:])


def _columns(figures: Figures) -> tuple[str, ...]:
    shares = (figures.offered, figures.held, figures.busy)
    completion, wait = figures.completion, figures.wait
    hours = (completion.mean, completion.median, completion.p90, completion.p99, wait.mean, wait.p99)
    return (
        *(f"{share:.1%}" for share in shares),
        *(f"{seconds / HOUR:.2f}" for seconds in hours),
        f"{figures.slowdown:.1f}",
        f"{figures.stops:,}",
        f"{figures.gpu_hours_lost:,.0f}",
    )


def _estimates(results: list[Result]) -> None:
    """The accuracy of the estimated starts of our policies, if there are any."""
    rows = []
    for result in results:
        found = result.estimates
        for when, told in (("at submission", found.first), ("and at each change", found.all)) if found else ():
            if told is not None:
                figures = (told.error, told.error_p90, told.not_later, told.range)
                rows.append((result.name, when, f"{told.statements:,}", *(f"{share:.0%}" for share in figures)))
    if rows:
        print()
        print("Estimated starts of jobs that waited for over a minute; errors and ranges relative to the wait:")
        head = ["POLICY", "TOLD", "ESTIMATES", "ERROR", "P90", "NOT LATER", "RANGE"]
        Screen().table(head, rows, right=head[2:])


def _slow_gpus(slow: list[SlowGpuFigures]) -> None:
    """What learning which GPUs are slow brings."""
    if not slow:
        return
    print()
    print("With GPUs slower than others of their type, which the policy is not told; mean hours to the end:")
    rows = [
        (
            each.pattern,
            *(str(count) for count in (each.slow, each.found, each.wrong)),
            *(f"{seconds / HOUR:.2f}" for seconds in (each.unknown, each.learned, each.known)),
            "" if each.recovered is None else f"{each.recovered:.0%}",
            f"{each.regret:.1%}",
        )
        for each in slow
    ]
    head = ["SLOW GPUS", "SLOW", "FOUND", "WRONGLY", "UNKNOWN H", "LEARNED", "KNOWN", "RECOVERED", "REGRET"]
    Screen().table(head, rows, right=head[1:])
