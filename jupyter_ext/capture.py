"""Captures what a cell needs: from its text and the notebook's variables to the files of the job's bundle.

What must hold:
- Everything the cell needs is captured, found from its code and through the functions and classes it uses, except what
  it assigns itself before it reads it.
- What cannot be serialized is refused by name, with the reason and advice, before anything is sent or queued.
"""

from __future__ import annotations

import difflib
import dis
import io
import json
import linecache
import os
import socket
import sys
import threading
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_ext import reductions
from jupyter_ext.names import Names, in_query, names_of
from jupyter_ext.serialization import BUFFERS, CELL, VARIABLES, Packed, TooLarge, pack
from scheduler.files.bundle import Content, in_words

_SHELL_NAMES = frozenset({"In", "Out", "get_ipython", "exit", "quit", "open", "display"})


_GLOBAL = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"})


class NotSerializable(Exception):
    """One or more sentences for people: what cannot be sent, why, and what to do."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of the notebook: `number` is the one in its prompt, `head` the magic's first line."""

    source: str
    number: int
    head: str


@dataclass(frozen=True, slots=True)
class Needed:
    """The variables that a cell takes along, each with the name of the function that uses it, if the cell does not
    itself; names that are `withheld` from its functions."""

    names: Names
    variables: Mapping[str, Any]
    users: Mapping[str, str]
    withheld: frozenset[str]


@dataclass(frozen=True, slots=True)
class Captured:
    """The files for the bundle, the size of each variable in bytes, and the variables whose changes are not
    returned."""

    files: Mapping[str, Content]
    sizes: Mapping[str, int]
    changed: Sequence[str]


def capture(
    cell: Cell,
    shell: Any,
    *,
    outputs: Sequence[str] = (),
    only: Sequence[str] | None = None,
    given: Collection[str] = (),
    limit: int = 4 * 2**30,
) -> Captured:
    """Capture the variables of `shell` that `cell` needs.

    Raises `NotSerializable`, or `SyntaxError` where the cell is not Python.
    """
    namespace: dict[str, Any] = shell.user_ns
    needs = needed(cell.source, shell, outputs=outputs, only=only, given=given)
    packed = _pack(needs, namespace, limit)
    about = {
        "source": cell.source,
        "number": cell.number,
        "head": cell.head,
        "outputs": list(outputs),
        "variables": list(packed.sizes),
        "buffers": len(packed.buffers),
        "python": list(sys.version_info[:2]),
        "flags": shell.compile.flags,
        "colors": shell.colors,
        "widgets": hasattr(shell, "kernel"),
        "path": list(_path()),
        "cells": _cells(packed.functions, shell),
        "limit": limit,
    }
    buffers = {f"{BUFFERS}/{number}": memory for number, memory in enumerate(packed.buffers)}
    mine = {name for name in packed.sizes if not isinstance(namespace[name], types.ModuleType)}
    changed = sorted(needs.names.changes & mine - {*outputs})
    return Captured({CELL: json.dumps(about).encode(), VARIABLES: packed.data, **buffers}, packed.sizes, changed)


# -- what the cell needs ------------------------------------------------------------------------------------


def needed(
    source: str,
    shell: Any,
    *,
    outputs: Sequence[str] = (),
    only: Sequence[str] | None = None,
    given: Collection[str] = (),
) -> Needed:
    """The variables of `shell` that a cell needs; `only` names them instead (an empty list: none).

    Names that are `given` to it in the job are not among them.

    Raises `NotSerializable`, or `SyntaxError` where the cell is not Python.
    """
    namespace: dict[str, Any] = shell.user_ns
    names = names_of(source, shell.transform_cell)
    _check_outputs(outputs, names, {**namespace, **dict.fromkeys(given)})
    if only is None:
        wanted = [*names.needs, *(name for name in outputs if name not in names.assigns)]
        found = _reach([name for name in wanted if name not in given], namespace)
    else:
        _check_only(only, namespace)
        found = dict.fromkeys(only, "")
    # With named variables, the cell must make the rest, and its functions find it in the job.
    withheld = names.assigns - found.keys() if only is not None else frozenset()
    return Needed(names, {name: namespace[name] for name in found}, found, withheld)


def _reach(wanted: Iterable[str], namespace: dict[str, Any]) -> dict[str, str]:
    """The variables that exist of `wanted` and those that their functions use, each with the name of its user.

    Plain values come before the functions that use them, so that one that cannot be serialized is named itself.
    """
    found: dict[str, str] = {}
    waiting = [(name, "") for name in wanted]
    while waiting:
        name, user = waiting.pop(0)
        if name in found or name not in namespace or name in _SHELL_NAMES:
            continue
        found[name] = user
        waiting += [(used, name) for used in _used_by(namespace[name], namespace)]
    return dict(sorted(found.items(), key=lambda item: _has_code(namespace[item[0]])))


def _has_code(value: Any) -> bool:
    return isinstance(value, (types.FunctionType, type))


def _used_by(value: Any, namespace: dict[str, Any]) -> Iterator[str]:
    for function in _functions(value, namespace, set()):
        yield from _globals_of(function.__code__)


def _functions(value: Any, namespace: dict[str, Any], seen: set[int]) -> Iterator[types.FunctionType]:
    """The functions defined in the notebook that `value` consists of (itself, its methods, what it wraps or closes
    over)."""
    if id(value) in seen:
        return
    seen.add(id(value))
    parts: Iterable[Any]
    match value:
        case types.FunctionType():
            if value.__globals__ is namespace:
                yield value
            parts = [value.__dict__.get("__wrapped__"), *_closed_over(value), *reductions.parts(value)]
        case types.MethodType():
            parts = [value.__func__, value.__self__]
        case staticmethod() | classmethod():
            parts = [value.__func__]
        case property():
            parts = [value.fget, value.fset, value.fdel]
        case type():
            if value.__module__ != namespace.get("__name__"):
                return
            parts = [*vars(value).values(), *value.__bases__]
        case _:
            parts = reductions.parts(value)
            if type(value).__module__ == namespace.get("__name__"):
                parts = [*parts, type(value)]
    for part in parts:
        yield from _functions(part, namespace, seen)


def _closed_over(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            continue


def _globals_of(code: types.CodeType) -> Iterator[str]:
    yield from (i.argval for i in dis.get_instructions(code) if i.opname in _GLOBAL)
    queries = not {"query", "eval"}.isdisjoint(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals_of(constant)
        elif queries and isinstance(constant, str):
            yield from in_query(constant)


# -- what is refused ----------------------------------------------------------------------------------------


def _check_outputs(outputs: Iterable[str], names: Names, namespace: Mapping[str, Any]) -> None:
    for name in outputs:
        if not name.isidentifier():
            raise NotSerializable(f"--out names variables, and {name!r} is not a name; separate them with commas.")
        if name in names.assigns or name in namespace or names.opaque:
            continue
        raise NotSerializable(f"The cell never assigns `{name}`, so --out can't return it{_meant(name, names.assigns)}")


def _check_only(only: Iterable[str], namespace: Mapping[str, Any]) -> None:
    for name in only:
        if name not in namespace:
            raise NotSerializable(f"There is no variable `{name}` to send{_meant(name, namespace)}")


def _meant(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, [k for k in known if not k.startswith("_")], n=1)
    return f"; did you mean `{close[0]}`?" if close else "."


def _pack(needs: Needed, namespace: dict[str, Any], limit: int) -> Packed:
    variables = needs.variables
    try:
        packed = pack(variables, limit=limit, namespace=namespace, withheld=needs.withheld, beside=True)
    except TooLarge as error:
        raise NotSerializable(too_large(error.name, variables[error.name], limit)) from None
    refused = refusals(needs, packed.refused, lambda part: bool(pack({"": part}, limit=2**40).refused))
    if refused:
        raise NotSerializable("\n".join(refused))
    return packed


def refusals(needs: Needed, refused: Mapping[str, Exception], refuses: Callable[[Any], bool]) -> list[str]:
    """A sentence for each variable that cannot be serialized; `refuses` tells whether a part of it cannot."""
    # A function finds what the cell assigns in the job, once the cell has assigned it.
    return [
        _refusal(name, needs.variables[name], needs.users[name], error, refuses)
        for name, error in refused.items()
        if not (needs.users[name] and name in needs.names.assigns)
    ]


def _refusal(name: str, value: Any, user: str, error: Exception, refuses: Callable[[Any], bool]) -> str:
    inside, culprit = _culprit(value, refuses)
    what = f"{type(culprit).__module__}.{type(culprit).__qualname__}".removeprefix("builtins.")
    used = f", which `{user}` uses," if user else ""
    where = f"`{name}{inside}` is a {what}" if inside else f"{what}"
    said = str(error).rstrip(".")
    return f"`{name}`{used} can't be sent: {where} ({said}). {_advice(name, culprit)}"


def _advice(name: str, culprit: Any) -> str:
    match culprit:
        case types.GeneratorType() | types.AsyncGeneratorType() | types.CoroutineType():
            return f"A generator can't be copied: create it inside the cell, or send `list({name})` instead."
        case io.IOBase() | socket.socket():
            return "Open it inside the cell, or choose what to send with --in."
        case threading.Thread():
            return "Start it inside the cell, or choose what to send with --in."
        case _:
            return "Create it inside the cell, or choose what to send with --in."


def _culprit(value: Any, refuses: Callable[[Any], bool], depth: int = 4) -> tuple[str, Any]:
    """The part of `value` that cannot be pickled, as Python writes it (`.db`, `['x'][0]`), and that part itself."""
    children: Iterator[tuple[str, Any]]
    match value:
        case dict():
            children = ((f"[{key!r}]", child) for key, child in value.items())
        case list() | tuple():
            children = ((f"[{index}]", child) for index, child in enumerate(value))
        case _:
            # An object that defines its own pickling is itself the cause.
            own = getattr(value, "__dict__", None)
            children = (
                iter(())
                if not isinstance(own, dict) or _has_code(value)
                else ((f".{key}", child) for key, child in own.items())
            )
    if depth:
        for step, (where, child) in enumerate(children):
            if step == 1000:
                break
            if refuses(child):
                inside, culprit = _culprit(child, refuses, depth - 1)
                return where + inside, culprit
    return "", value


def too_large(name: str, value: Any, limit: int) -> str:
    size = getattr(value, "nbytes", None)
    how_large = f" (`{name}` alone takes {in_words(size)})" if isinstance(size, int) and size > limit / 2 else ""
    return (
        f"`{name}` makes the variables larger than {in_words(limit)}{how_large}, the maximum for a cell. "
        "Write large data to a file that the job can read, choose what to send with --in, or raise "
        "RunaiMagics.max_capture."
    )


# -- what else a cell needs ---------------------------------------------------------------------------------


def _path() -> Iterator[str]:
    """The folders that the notebook added to `sys.path`, relative to the working directory where they are inside it."""
    here = Path.cwd()
    for entry in sys.path:
        # The job has the same interpreter, which finds its own folders.
        if not entry or Path(entry).is_relative_to(sys.prefix) or Path(entry).is_relative_to(sys.base_prefix):
            continue
        folder = Path(os.path.abspath(entry))
        yield os.path.relpath(folder, here) if folder.is_relative_to(here) else str(folder)


def _cells(functions: Iterable[types.FunctionType], shell: Any) -> dict[str, dict[str, Any]]:
    """The text of the cells that the serialized functions come from, by file name, for tracebacks and `inspect`."""
    numbers: Mapping[str, int] = getattr(shell.compile, "_filename_map", {})
    cells: dict[str, dict[str, Any]] = {}
    for file in {function.__code__.co_filename for function in functions}:
        lines = linecache.getlines(file)
        if lines and not os.path.exists(file):
            cells[file] = {"number": numbers.get(file), "text": "".join(lines)}
    return dict(sorted(cells.items()))
