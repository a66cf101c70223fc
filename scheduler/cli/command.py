"""Adds a command to the parser: a name, a summary, and the function that runs it, imported only when it runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

Commands = Any  # argparse's type of subparsers is private


def add_command(commands: Commands, name: str, where: str, summary: str, **rest: Any) -> argparse.ArgumentParser:
    """A command that `where` (`module:function`) runs."""
    found: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=rest.pop("description", f"{summary[:1].upper()}{summary[1:]}."),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        **rest,
    )
    found.set_defaults(run=_late(where), parser=found)
    return found


def add_group(commands: Commands, name: str, summary: str) -> Commands:
    """A command that has verbs, each a command of its own."""
    whole = commands.add_parser(name, help=summary, description=f"{summary[:1].upper()}{summary[1:]}.")
    return whole.add_subparsers(dest="verb", required=True, metavar="VERB", parser_class=type(whole))


def _late(where: str) -> Callable[[argparse.Namespace], int]:
    module, _, name = where.partition(":")

    def run(options: argparse.Namespace) -> int:
        return int(getattr(import_module(f"scheduler.cli.{module}"), name)(options))

    return run


def add_format(command: Any, forms: Sequence[str] = ("json", "yaml")) -> None:
    command.add_argument("-o", "--output", choices=forms, help="print the result in this format")
