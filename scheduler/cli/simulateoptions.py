"""The options of `simulate`."""

from __future__ import annotations

from argparse import ArgumentParser

from scheduler.cli import values
from scheduler.cli.command import Commands, add_command


def _recorded(command: ArgumentParser) -> None:
    """What if: the record of the pool instead of a trace."""
    command.add_argument(
        "--recorded",
        action="store_true",
        help="instead of a trace, simulate the jobs that the scheduler has recorded, on its pool and on a changed one",
    )
    command.add_argument(
        "--since",
        type=values.instant,
        metavar="WHEN",
        help="with --recorded: from this day or instant on, or as long ago: 2026-03-01, 7d (30 days)",
    )
    command.add_argument("--until", type=values.instant, metavar="WHEN", help="with --recorded: until then (now)")
    command.add_argument(
        "--gpus", type=values.more_gpus, metavar="+N", help="with --recorded: what if the pool had N more GPUs"
    )
    command.add_argument(
        "--guaranteed",
        type=values.guarantee,
        action="append",
        metavar="PROJECT=N",
        help="with --recorded: what if this project were guaranteed N GPUs; may be repeated",
    )


def add_simulate(commands: Commands) -> None:
    command = add_command(
        commands, "simulate", "simulate:run", "simulate a trace of jobs with this and other policies, and compare them"
    )
    command.add_argument("trace", nargs="?", metavar="TRACE", help="a CSV table of jobs, plain or gzip")
    _recorded(command)
    command.add_argument("--ignore", type=values.names, metavar="COLUMN,…", help="columns of the table to ignore")
    command.add_argument("--nodes", type=values.count, metavar="N", help="nodes of the shared pool")
    command.add_argument(
        "--gpus-per-node", type=values.count, default=8, metavar="N", help="GPUs of a node (default: 8)"
    )
    command.add_argument("--pool", metavar="FILE", help="a pool file with the projects and their guarantees")
    command.add_argument(
        "--quantile",
        type=values.share,
        default=0.95,
        help="quantile of demand for partitions and guarantees (default: 0.95)",
    )
    command.add_argument(
        "--learn",
        type=values.amount,
        default=0.0,
        metavar="DAYS",
        help="size partitions on the first days, simulate the rest",
    )
    command.add_argument("--policies", type=values.names, metavar="A,B", help="the policies to simulate (default: all)")
    command.add_argument(
        "--scale", type=values.numbers, metavar="X,Y", help="also simulate pools larger by these factors"
    )
    command.add_argument(
        "--restart-cost",
        type=values.amounts,
        metavar="S,T",
        help="seconds that a stop costs (60); further values are simulated in addition to the first",
    )
    command.add_argument(
        "--checkpoint-every",
        type=values.amount,
        metavar="SECONDS",
        help="jobs save at this interval, and not when they are stopped",
    )
    command.add_argument(
        "--sessions",
        type=values.whole,
        default=0,
        metavar="PEOPLE",
        help="also simulate build sessions of this many people, with and without lending",
    )
    command.add_argument(
        "--slow-gpus",
        type=values.names,
        metavar="A,B",
        help="also simulate GPUs slower than others of their type: clustered, scattered, one-kind",
    )
    command.add_argument(
        "--seed", type=values.whole, default=1, metavar="N", help="random seed of sessions and slow GPUs (1)"
    )
    command.add_argument(
        "--every",
        type=values.amount,
        default=0.0,
        metavar="SECONDS",
        help="plan at most once in this time",
    )
    command.add_argument(
        "--estimate-every",
        type=values.amount,
        metavar="SECONDS",
        help="estimate the starts of waiting jobs at this interval, and measure how good the estimates were",
    )
    command.add_argument("--report", metavar="FILE", help="draw the results as a page")
    command.add_argument("-o", "--output", choices=["json"], help="print the result as JSON")
