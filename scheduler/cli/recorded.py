"""`jupyter runai simulate --recorded`: the recorded jobs on the pool as it is and on a changed one, side by side."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from scheduler.cli.connect import connect
from scheduler.cli.text import Screen, took
from scheduler.cli.whatif import what_if
from scheduler.errors import Invalid
from scheduler.model import number
from scheduler.scenario.record import Record
from scheduler.schema.reading import validate

TRACE_ONLY = ("trace", "nodes", "pool", "policies", "scale", "restart_cost", "checkpoint_every", "sessions",
              "slow_gpus", "estimate_every", "report", "ignore", "learn")  # fmt: skip

NOT_IN_THE_RECORD = (
    "The time in which a job held GPUs counts as its work, also work that it repeated after a stop.",
    "Notebook sessions are not simulated: jobs get only GPUs for training, and none on loan.",
    "The pool is today's: nodes, projects and rules that were different then are not in the record.",
    "Jobs that nobody submitted because the queue was long are in no record.",
)


def run(options: argparse.Namespace) -> int:
    for name in TRACE_ONLY:
        if getattr(options, name):
            option = "A trace" if name == "trace" else f"--{name.replace('_', '-')}"
            raise Invalid(f"{option} cannot be combined with --recorded, which takes the pool as it is.", field=name)
    guaranteed = dict(options.guaranteed or ())
    with connect() as client:
        record = validate(Record, client.record(options.since, options.until))
    found = what_if(record, gpus=options.gpus or 0, guaranteed=guaranteed)
    if options.output == "json":
        print(json.dumps(found, indent=2))
    else:
        _show(found, _change(options.gpus, guaranteed), Screen())
    return 0


def _change(gpus: int | None, guaranteed: Mapping[str, float]) -> str | None:
    parts = [f"+{gpus} GPUs"] if gpus else []
    parts += [f"{name}={number(amount)}" for name, amount in guaranteed.items()]
    return ", ".join(parts).upper() or None


def _show(found: dict[str, Any], change: str | None, screen: Screen) -> None:
    sides = {"RECORDED": found["recorded"], "NOW": found["unchanged"]}
    if change:
        sides[change] = found["changed"]
    heads = list(sides)
    span = " to ".join(
        f"{datetime.fromtimestamp(found[end]).astimezone():%Y-%m-%d %H:%M}" for end in ("since", "until")
    )
    jobs = (found["recorded"]["total"] or {"jobs": 0})["jobs"]
    screen.line(f"{span}: {jobs:,} {'job' if jobs == 1 else 'jobs'} submitted and simulated to the end.")
    screen.line()
    rows = [["GPUs", *(str(side["gpus"]) for side in sides.values())]]
    rows.append(["GPU use", *(f"{side['use']:.0%}" for side in sides.values())])
    if jobs:
        rows += [
            [name, *(_cell(side["total"], key) for side in sides.values())]
            for name, key in (
                ("Mean wait", "mean_wait"),
                ("Median wait", "median_wait"),
                ("95th percentile", "p95_wait"),
                ("Mean completion", "mean_completion"),
                ("Stops", "stops"),
            )
        ]
    if any(side["never_started"] for side in sides.values()):
        rows.append(["Never started", *(str(side["never_started"]) for side in sides.values())])
    screen.table(["", *heads], rows, right=heads)
    if jobs:
        screen.line()
        screen.line("Mean wait by project:")
        rows = [
            [project, str(each["jobs"]), *(_cell(side["by_project"][project], "mean_wait") for side in sides.values())]
            for project, each in found["recorded"]["by_project"].items()
        ]
        screen.table(["PROJECT", "JOBS", *heads], rows, right=["JOBS", *heads])
    screen.line()
    for sentence in (*_left_out(found), *NOT_IN_THE_RECORD):
        screen.line(f"- {sentence}")


def _cell(outcome: Mapping[str, Any], key: str) -> str:
    return f"{outcome[key]:,}" if key == "stops" else took(outcome[key])


def _left_out(found: Mapping[str, Any]) -> list[str]:
    sentences = {
        "never_ran": "Left out because they never ran: {:,} jobs.",
        "gone": "Left out because their project or node pool does not exist any more: {:,} jobs.",
        "unfinished": "Simulated as if they had ended, because they had not: {:,} jobs.",
    }
    return [sentence.format(found[key]) for key, sentence in sentences.items() if found[key]]
