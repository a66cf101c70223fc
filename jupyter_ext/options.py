"""The options of `%runai_train` and `%%runai_train`: one parser, from which also the help is made."""

from __future__ import annotations

import argparse
import difflib
import re
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

from IPython.core.error import UsageError

from scheduler.model import Framework
from scheduler.submission.amounts import read_array, read_duration, read_memory
from scheduler.submission.sweeps import read_parameter, read_space

WIDTH = 86
"""Characters of a line of the help, at most."""

DESCRIPTION = """\
Run this cell, a script, a notebook or a command on the pool.

    %%runai_train [options]                          the cell below
    %runai_train [options] SCRIPT [-- ARGUMENTS]     a Python script in this folder
    %runai_train [options] NOTEBOOK [-p NAME=VALUE]  a whole notebook, with parameters
    %runai_train [options] -- COMMAND                any command

A cell takes along the variables, functions and classes that it uses, and the
files of this folder (without hidden ones, caches, virtual environments and what
.gitignore names). Its output appears here as it comes; what --out names is back
in the notebook when it has ended. Interrupting the kernel lets go and leaves the
job running.
"""

EXAMPLES = """\
    %%runai_train --gpus 1 --out model,accuracy
    %runai_train train.py --gpus 2 -- --epochs 3
    %runai_train train.ipynb -p lr=0.1 -p name=first
    %runai_train --workers 4 --detach -- torchrun train.py

`_job` is the job that was sent last: _job.wait(), _job.logs(), _job.result(),
_job.cancel(), _job.pause(), _job.resume().
"""


class _Parser(argparse.ArgumentParser):
    """argparse whose errors are IPython's, one sentence, with what was perhaps meant."""

    def error(self, message: str) -> NoReturn:
        unknown = re.search(r"unrecognized arguments: (\S+)", message)
        if unknown:
            known = [name for action in self._actions for name in action.option_strings]
            close = difflib.get_close_matches(unknown[1].partition("=")[0], known, n=1, cutoff=0.75)
            other = "; the words of a script come after `--`, and `%runai_train?` lists the options."
            raise UsageError(
                f"There is no option {unknown[1]}{f'; did you mean {close[0]}?' if close else other}"
            )
        sentence = re.sub(r"^argument ", "", message).rstrip(".")
        raise UsageError(f"{sentence[:1].upper() + sentence[1:] if sentence[0] != '-' else sentence}.")


def read(line: str) -> argparse.Namespace:
    """The options in a magic's line. `tail` is what follows the first `--`, the job's own words; `None` without it.

    Raises `UsageError`.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"This line can't be read: {str(error).lower()}.") from None
    head, tail = (words, None)
    if "--" in words:
        at = words.index("--")
        head, tail = words[:at], words[at + 1 :]
    options = parser().parse_args(head)
    options.tail = tail
    return options


def help_text() -> str:
    """What `%runai_train?` shows."""
    text = parser().format_help()
    return text[text.index(DESCRIPTION.splitlines()[0]) :]


def parser() -> argparse.ArgumentParser:
    whole = _Parser(
        prog="%runai_train",
        usage=argparse.SUPPRESS,
        description=DESCRIPTION,
        epilog=f"examples:\n{EXAMPLES}",
        # The same in a terminal and a notebook, whatever either is wide.
        formatter_class=partial(argparse.RawDescriptionHelpFormatter, width=WIDTH, max_help_position=28),
        add_help=False,
        allow_abbrev=False,
    )
    whole.add_argument("script", nargs="*", help=argparse.SUPPRESS)
    needs = whole.add_argument_group("what it needs, per worker")
    needs.add_argument("--gpus", type=_amount, metavar="N", help="GPUs, or a part of one such as 0.25 (1)")
    needs.add_argument(
        "--gpu-memory", type=_memory, metavar="SIZE", help="memory on one GPU, instead of --gpus"
    )
    needs.add_argument("--gpu-type", type=_names, metavar="TYPE,…", help="types that it accepts")
    needs.add_argument("--cpus", type=_amount, metavar="N", help="CPUs")
    needs.add_argument("--memory", type=_memory, metavar="SIZE", help="memory, such as 16GiB")
    needs.add_argument("--workers", type=_count, metavar="N", help="how many workers (1)")
    needs.add_argument(
        "--min-workers", type=_count, metavar="N", help="start with so many already, and grow (all of them)"
    )
    needs.add_argument(
        "--framework",
        choices=[each.value for each in Framework],
        metavar="NAME",
        help="how the workers meet: torch, tensorflow, horovod, jax, mpi or none (none)",
    )
    what = whole.add_argument_group("what goes along and comes back")
    what.add_argument(
        "--out", type=_names, default=[], metavar="NAME,…", help="variables that the cell brings back"
    )
    what.add_argument(
        "--in",
        type=_names,
        dest="takes",
        metavar="NAME,…",
        help="take these variables along instead of those the cell uses, and files by pattern (data/*.csv) "
        "instead of this folder",
    )
    what.add_argument(
        "-p",
        "--parameter",
        type=_parameter,
        action="append",
        default=[],
        dest="parameters",
        metavar="NAME=VALUE",
        help="a parameter of the notebook; repeatable",
    )
    what.add_argument("--no-capture", action="store_true", help="take no variables along")
    what.add_argument("--no-files", action="store_true", help="take no files along")
    what.add_argument(
        "--env",
        type=_variable,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a variable; repeatable",
    )
    how = whole.add_argument_group("how it is queued")
    how.add_argument("--name", help="what to call it")
    how.add_argument("--project", help="the project it belongs to (your first one)")
    how.add_argument("--priority", type=_whole, metavar="N", help="within the project; higher first (50)")
    how.add_argument(
        "--max-runtime", type=_duration, metavar="TIME", help="stop an attempt after, such as 2h"
    )
    how.add_argument(
        "--idle-timeout",
        type=_duration,
        metavar="TIME",
        help="stop it when its GPUs have been idle for so long",
    )
    how.add_argument(
        "--expected-runtime",
        type=_duration,
        metavar="TIME",
        help="how long it will run; an estimate, such as 40m",
    )
    how.add_argument("--retries", type=_whole, metavar="N", help="how often to try again when it fails")
    how.add_argument(
        "--after",
        type=_names,
        default=[],
        metavar="JOB,…",
        help="start when these jobs or arrays have succeeded; JOB:any: when it has ended",
    )
    how.add_argument(
        "--array", type=_array, metavar="RANGE", help="so many jobs as one: 100, or 0-99%%10 for ten at once"
    )
    how.add_argument("--detach", "--no-wait", action="store_true", help="don't wait: give the job and go on")
    sweeps = whole.add_argument_group("a sweep: many jobs as one, each with values of its own")
    sweeps.add_argument(
        "--sweep",
        type=_sweep,
        metavar="NAME=VALUE,…;…",
        help="a job for each combination, as variables of the cell or arguments of the command",
    )
    sweeps.add_argument(
        "--search",
        choices=["optuna"],
        help="search instead, in ranges (lr=1e-5..1e-1:log;n=1..8) and choices, and prune what is hopeless",
    )
    sweeps.add_argument("--trials", type=_count, metavar="N", help="how many jobs a search has (20)")
    sweeps.add_argument(
        "--at-once", type=_count, metavar="N", help="so many of them at the same time (all; in a search, 4)"
    )
    goal = sweeps.add_mutually_exclusive_group()
    goal.add_argument("--minimize", metavar="METRIC", help="the best is the one that reports the least of it")
    goal.add_argument("--maximize", metavar="METRIC", help="the best is the one that reports the most of it")
    kept = whole.add_argument_group("keeping it")
    kept.add_argument("--template", metavar="NAME", help="begin with what is kept under this name")
    kept.add_argument("--save-template", metavar="NAME", help="keep what this line says under a name")
    kept.add_argument("--dry-run", action="store_true", help="print what would be sent and queue nothing")
    kept.add_argument(
        "-o", dest="form", choices=["yaml", "json"], default="yaml", help="how --dry-run prints it (yaml)"
    )
    return whole


def _reader(read: Callable[[str], Any], sentence: str) -> Callable[[str], Any]:
    def convert(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r} {sentence}" if sentence else str(error)) from None

    return convert


def _number(text: str) -> float:
    if not 0 <= float(text) < float("inf"):
        raise ValueError
    return float(text)


def _at_least(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if int(text) < least:
            raise ValueError
        return int(text)

    return read


def _split(text: str) -> Sequence[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ValueError
    return name, value


_amount = _reader(_number, "is not an amount; write a number such as 2 or 0.5")
_count = _reader(_at_least(1), "is not a number from 1 on")
_whole = _reader(_at_least(0), "is not a number from 0 on")
_names = _reader(_split, "is not a list of names")
_variable = _reader(_assignment, "is not of the form NAME=VALUE")
_parameter = _reader(read_parameter, "")
_duration = _reader(read_duration, "")
_memory = _reader(read_memory, "")
_array = _reader(lambda text: read_array(text) and text, "")
_sweep = _reader(lambda text: read_space(text) and text, "")
