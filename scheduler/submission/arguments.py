"""Connects the table of options to command lines: the options of a parser, the values of a line, and its errors.

What must hold: the values of a line are only those written in it, so that every default is the API's; an error is one
sentence that names the option as it was typed.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from scheduler.errors import RunaiError
from scheduler.submission.options import Group, Interface, Option, of
from scheduler.submission.values import SWITCH

Completer = Callable[..., Collection[str]]
"""A completer of argcomplete for a value."""


def add_options(
    parser: argparse.ArgumentParser,
    interface: Interface,
    completer: Callable[[Option], Completer] | None = None,
    without: Collection[str] = (),
) -> None:
    """Add the options of an interface to a parser, in groups, with their completers, `without` those of these names."""
    parser.set_defaults(typed={})
    groups: dict[Group, Any] = {}
    for option in (each for each in of(interface) if each.name not in without):
        if option.group not in groups:
            groups[option.group] = parser.add_argument_group(option.group.value)
        about: dict[str, Any] = {"dest": option.name, "action": _Said, "option": option}
        about["completer"] = completer(option) if completer else None
        shown = option.meaning_on_a_line().replace("%", "%%")
        groups[option.group].add_argument(*option.flags, help=shown, **about)
        if option.former:
            parser.add_argument(*option.former, help=argparse.SUPPRESS, **about)


class _Said(argparse.Action):
    """Reads and stores a value, or adds it to earlier ones, and records how the option was typed."""

    def __init__(self, *, option: Option, completer: Completer | None, **rest: Any) -> None:
        switch = {"nargs": 0} if option.kind is SWITCH else {"metavar": option.metavar}
        super().__init__(**rest, **switch)
        self.option = option
        self.completer = completer

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        before = getattr(namespace, self.dest)
        try:
            value = self.option.sets if self.nargs == 0 else self.option.kind.read(values)
        except ValueError as error:
            raise argparse.ArgumentError(None, f"{option_string}: {error}") from None
        if before is not None and self.option.kind.gathers:
            value = {**before, **value} if isinstance(value, dict) else [*before, *value]
        setattr(namespace, self.dest, value)
        namespace.typed = {**namespace.typed, self.dest: option_string}


def said(asked: argparse.Namespace) -> dict[str, Any]:
    """The values of a line, by the keys of a job file."""
    given = {option.name: getattr(asked, option.name, None) for option in of(Interface.JOB_FILE)}
    return {name: value for name, value in given.items() if value is not None}


def explain(message: str) -> str:
    """An error message of argparse, as a sentence without its full stop that begins with the option."""
    match = re.fullmatch(r"argument (?:\S*/)?(-[^ :]*): (.*)", message, re.DOTALL)
    if match is None:
        return f"{message[:1].upper()}{message[1:]}".rstrip(".")
    flag, wrong = match.groups()
    if wrong == "expected one argument":
        return f"{flag} needs a value"
    return f"{flag} takes no value" if wrong.startswith("ignored explicit argument") else f"{flag}: {wrong}"


def in_words(error: RunaiError, typed: Mapping[str, str]) -> str:
    """The error of a submission, with the given options (by name) as they were typed."""
    field = re.split(r"[.\[]", error.field or "")[0]
    sentence = error.sentence
    if field in typed:
        sentence = re.sub(rf"^{field}(\[\d+\])?(?=:? )", typed[field], sentence)
    for name in (name for name in typed if "_" in name):  # a name without `_` may be a word of the sentence
        sentence = re.sub(rf"\b{name}\b", typed[name], sentence)
    return sentence
