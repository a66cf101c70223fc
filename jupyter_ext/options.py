"""The line of `%runai_train` and `%%runai_train`: a parser for the options of a submission, and the help made of it."""

from __future__ import annotations

import argparse
import difflib
import re
import shlex
from functools import partial
from typing import NoReturn

from IPython.core.error import UsageError

from scheduler.submission.arguments import add_options, explain
from scheduler.submission.options import Interface, of

WIDTH = 86
"""Characters of a line of the help, at most."""

DESCRIPTION = """\
Run this cell, a script, a notebook or a command on the pool.

    %%runai_train [options]                          the cell below
    %runai_train [options] SCRIPT [-- ARGUMENTS]     a Python script in this folder
    %runai_train [options] NOTEBOOK [-p NAME=VALUE]  a whole notebook, with parameters
    %runai_train [options] -- COMMAND                any command

The variables, functions and classes that a cell uses are sent with it, and the
files of this folder (without notebooks, hidden ones, caches, virtual
environments and what .gitignore names). Its output appears here as it comes;
what --out names is in the notebook when the job has ended. Interrupt the kernel
to stop waiting: the job keeps running.
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
    """argparse whose errors are IPython usage errors: one sentence, with a suggestion."""

    def error(self, message: str) -> NoReturn:
        unknown = re.search(r"unrecognized arguments: (\S+)", message)
        if unknown:
            known = [flag for option in of(Interface.MAGIC) for flag in option.flags]
            close = difflib.get_close_matches(unknown[1].partition("=")[0], known, n=1, cutoff=0.75)
            other = "; put the arguments of a script after `--`; `%runai_train?` lists the options."
            raise UsageError(f"There is no option {unknown[1]}{f'; did you mean {close[0]}?' if close else other}")
        sentence = explain(message)
        raise UsageError(sentence if sentence.endswith("?") else f"{sentence}.")


def read(line: str) -> argparse.Namespace:
    """The options in a magic's line. `tail` is what follows the first `--` and belongs to the job; `None` without it.

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
    """The help text of `%runai_train?`."""
    text = parser().format_help()
    return text[text.index(DESCRIPTION.splitlines()[0]) :]


def parser() -> argparse.ArgumentParser:
    whole = _Parser(
        prog="%runai_train",
        usage=argparse.SUPPRESS,
        description=DESCRIPTION,
        epilog=f"examples:\n{EXAMPLES}",
        # The same width in a terminal and a notebook.
        formatter_class=partial(argparse.RawDescriptionHelpFormatter, width=WIDTH, max_help_position=28),
        add_help=False,
        allow_abbrev=False,
    )
    whole.add_argument("script", nargs="*", help=argparse.SUPPRESS)
    add_options(whole, Interface.MAGIC)
    return whole
