"""The first line of a cell that is trained on the pool, from the fields of the dialog, and back.

What must hold: the line has the values of the fields, and keeps everything else of the earlier line.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from IPython.core.error import UsageError
from jupyter_server.auth.decorator import authorized
from pydantic import BaseModel, ConfigDict
from tornado.web import authenticated

from jupyter_ext import options, scheduling
from jupyter_ext.dialog import CELL, FormHandler, at_field, given_of, value_of
from scheduler.errors import Invalid, RunaiError
from scheduler.submission import jobfile
from scheduler.submission.options import Interface, Option, of
from scheduler.submission.values import NAMES, PARAMETERS, SWITCH, VARIABLES

MAGIC = "%%runai_train"

FIELDS = {
    flag: option
    for option in of(Interface.MAGIC)
    if Interface.DIALOG in option.via
    for flag in (*option.flags, *option.former)
}
"""The options that have a field, by their flags."""


class Cell(BaseModel):
    """What the dialog of a cell sends: the line above the cell, and the fields to rewrite it with."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    line: str
    options: dict[str, str] | None = None


def fields_of(line: str) -> dict[str, str]:
    """The values of a line, as texts of the fields. Raises `Invalid` where the line cannot be read."""
    _check(line)
    fields: dict[str, str] = {}
    for option, words in _read(line):
        if option is not None:
            text = words[-1] if option.kind is not SWITCH else "true"
            before = fields.get(option.name)
            fields[option.name] = f"{before}{_between(option)}{text}" if before and _between(option) else text
    return fields


def line_of(fields: Mapping[str, str], before: str = "") -> str:
    """The line with the values of the fields, and the options of `before` that have no field.

    Raises `RunaiError` with the field at fault.
    """
    values = {name: value_of(name, text) for name, text in fields.items()}
    given = given_of(values, CELL)
    try:
        scheduling.check(values, given, jobfile.array_of(given, jobfile.submission(given)))
    except RunaiError as error:
        raise at_field(error, values) from None
    words = [MAGIC]
    for option in of(Interface.MAGIC):
        if option.name in fields:
            words += _words(option, fields[option.name].strip())
    words += [word for option, kept in _read(before) if option is None for word in kept]
    line = shlex.join(words)
    _check(line)
    return line


def _words(option: Option, text: str) -> list[str]:
    flag = option.flags[0]
    if option.kind is SWITCH:
        return [flag] if text == "true" else []
    if option.kind in (VARIABLES, PARAMETERS):
        return [word for line in filter(None, map(str.strip, text.splitlines())) for word in (flag, line)]
    text = ",".join(part.strip() for part in text.split(",")) if option.kind is NAMES else text
    return [flag, text] if text else []


def _read(line: str) -> Iterator[tuple[Option | None, list[str]]]:
    """The options of a line with a field, and the words of each; `None` for other words."""
    words = iter(shlex.split(line)[1:])
    for word in words:
        flag, equals, text = word.partition("=")
        option = FIELDS.get(flag)
        if option is None:
            yield None, [word]
        elif option.kind is SWITCH:
            yield option, [flag]
        else:
            yield option, [flag, text if equals else next(words, "")]


def _between(option: Option) -> str:
    """The separator between the values of a repeated option."""
    return ("," if option.kind is NAMES else "\n") if option.kind.gathers else ""


def _check(line: str) -> None:
    try:
        options.read(line.removeprefix(MAGIC))
    except UsageError as error:
        raise Invalid(str(error)) from None


class CellLineHandler(FormHandler):
    """`/runai/line`: converts the line above a cell to fields, or fields to a line."""

    @authenticated
    @authorized
    async def post(self) -> None:
        try:
            cell = self.form(Cell, "the line above the cell and options")
            answer: dict[str, Any]
            if cell.options is None:
                answer = {"options": fields_of(cell.line)}
            else:
                answer = {"line": line_of(cell.options, cell.line)}
        except RunaiError as error:
            self.problem(error)
            return
        self.finish(json.dumps(answer))
