"""What goes along with a cell, before anything is sent: for the form of a job, and for `--dry-run`.

What must hold: nothing is sent or serialized, and the kernel is back in a moment, however large the variables are.
"""

from __future__ import annotations

import time
import types
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_ext.capture import Needed, NotSerializable, needed, refusals, too_large
from jupyter_ext.estimate import SECONDS, Accuracy, Size, estimate
from jupyter_ext.saves import saves
from scheduler.errors import RunaiError
from scheduler.files.bundle import Listing, in_words, survey
from scheduler.submission.notebooks import SUFFIX

SHOWN = 4
"""The most variables of a sentence."""


@dataclass(frozen=True, slots=True)
class Variable:
    name: str
    type: str
    size: Size


@dataclass(frozen=True, slots=True)
class Along:
    """The variables, the largest first, the number of files and their bytes; a sentence for each that cannot go along;
    whether the cell may save anything while it runs."""

    variables: Sequence[Variable]
    files: int
    bytes: int
    refused: Sequence[str]
    saves: bool = True

    def __str__(self) -> str:
        """`Takes along df (DataFrame, about 1.2 GiB), lr (float, 10 B) and 3 files of this folder (12.0 KiB).`"""
        shown = [f"{each.name} ({each.type}, {_size(each.size)})" for each in self.variables[:SHOWN]]
        if len(self.variables) > SHOWN:
            shown.append(f"{len(self.variables) - SHOWN} more")
        if self.files:
            shown.append(f"{self.files} file{'' if self.files == 1 else 's'} of this folder ({in_words(self.bytes)})")
        if not shown:
            return "Takes nothing along."
        return f"Takes along {' and '.join(filter(None, (', '.join(shown[:-1]), shown[-1])))}."


def goes_along(
    source: str,
    shell: Any,
    folder: Path,
    *,
    outputs: Sequence[str],
    only: Sequence[str] | None,
    given: Collection[str],
    limit: int,
    patterns: Sequence[str],
    no_files: bool,
) -> Along:
    """What a cell would take along. Raises `SyntaxError` where it is not Python."""
    variables: list[Variable] = []
    refused: list[str] = []
    used: Mapping[str, Any] = {}
    try:
        needs = needed(source, shell, outputs=outputs, only=only, given=given)
        used = needs.variables
        variables += _variables(needs, shell.user_ns, limit, refused)
    except NotSerializable as error:
        refused.append(str(error))
    files = Listing(folder, ())
    try:
        if not no_files:
            files = survey(folder, patterns, ignored=(f"*{SUFFIX}",))
    except RunaiError as error:
        refused.append(error.sentence)
    return Along(
        sorted(variables, key=lambda each: -each.size.bytes),
        len(files.entries),
        files.size,
        refused,
        saves(source, used, (files.folder / each.path for each in files.entries)),
    )


def _variables(needs: Needed, namespace: dict[str, Any], limit: int, refused: list[str]) -> Iterator[Variable]:
    found = estimate(needs.variables, namespace=namespace, withheld=needs.withheld)
    ends = time.monotonic() + SECONDS
    refused += refusals(
        needs, found.refused, lambda part: bool(estimate({"": part}, seconds=ends - time.monotonic()).refused)
    )
    total = 0
    for name, size in found.sizes.items():
        value = needs.variables[name]
        if total <= limit < total + size.bytes:
            refused.append(too_large(name, value, limit))
        total += size.bytes
        if not isinstance(value, types.ModuleType):  # imported in the job
            yield Variable(name, _kind(value), size)


def _kind(value: Any) -> str:
    match value:
        case types.FunctionType():
            return "function"
        case type():
            return "class"
        case _:
            return type(value).__name__


def _size(size: Size) -> str:
    qualifier = {Accuracy.EXACT: "", Accuracy.ABOUT: "about ", Accuracy.AT_LEAST: "at least "}[size.accuracy]
    return f"{qualifier}{in_words(size.bytes)}"
