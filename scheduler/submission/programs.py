"""The program of a command line: a Python script, a whole notebook or any command.

A script or notebook is a file of the folder from which the job is submitted. It is always packed, whatever other files
are.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from scheduler.errors import Invalid, Misused, NotFound
from scheduler.model import JobKind, Parameter
from scheduler.submission import notebooks

SCRIPT = ".py"


@dataclass(frozen=True, slots=True)
class Program:
    """What a job runs. `files` are always packed: contents by paths below the working directory.

    `sizes` is the size of each variable of a cell in bytes, and `patterns` select files of the folder. `hint` is shown
    on submission.
    """

    kind: JobKind
    name: str
    command: tuple[str, ...]
    files: Mapping[str, bytes | memoryview] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    patterns: Sequence[str] = ()
    hint: str = ""


def program_of(
    words: Sequence[str],
    tail: Sequence[str] | None,
    folder: Path,
    *,
    line: str,
    parameters: Mapping[str, Parameter] | None = None,
    patterns: Sequence[str] = (),
    in_place: bool = False,
) -> Program | None:
    """The program that `words`, and `tail` after `--`, name; `None` where they name none. `line` is the beginning of
    the line, for messages.

    `in_place`: a script or notebook is run in its own folder, and no file is packed. Raises `Misused`, `Invalid` or
    `NotFound`.
    """
    if parameters and not (words and words[0].endswith(notebooks.SUFFIX)):
        raise Misused(
            "-p is for notebooks; put the arguments of a script or a command after `--`.",
            field="notebook_parameters",
        )
    if len(words) > 1:
        raise Misused(_too_many(words, tail or (), folder, line))
    if not words:
        return Program(JobKind.COMMAND, name_of(tail[0]), tuple(tail), patterns=patterns) if tail else None
    found = folder / Path(words[0]).expanduser()
    if not found.is_file():
        raise NotFound(f"There is no file {words[0]} in {folder}{_similar(found)}")
    path = Path(os.path.abspath(found)) if in_place else _below(words[0], folder)
    content = _content(words[0], found)
    files = {} if in_place else {path.as_posix(): content}
    if found.suffix == notebooks.SUFFIX:
        if tail:
            raise Misused(f"A notebook takes parameters: {line} {words[0]} -p NAME=VALUE.")
        notebooks.check(words[0], content, parameters or {})
        command = notebooks.command(path.as_posix(), parameters or {})
        return Program(JobKind.NOTEBOOK, name_of(path.stem), tuple(command), files, patterns=patterns)
    if found.suffix == SCRIPT:
        command = [sys.executable, path.as_posix()]
    elif os.access(found, os.X_OK):
        command, files = (
            [path.as_posix() if in_place else f"./{path.as_posix()}"],
            {},
        )  # its mode is packed with the folder
    else:
        raise Invalid(
            f"{words[0]} is neither a Python script nor a program; say how to run it: {line} -- COMMAND {words[0]}"
        )
    return Program(JobKind.SCRIPT, name_of(path.name), (*command, *(tail or ())), files, patterns=patterns)


def _content(given: str, found: Path) -> bytes:
    try:
        return found.read_bytes()
    except OSError as error:
        raise Invalid(f"{given} cannot be read ({error.strerror}).") from None


def _too_many(words: Sequence[str], tail: Sequence[str], folder: Path, line: str) -> str:
    file, word, *_ = words
    if (folder / file).is_file():
        return f"Put the arguments of {file} after `--`: {line} {file} -- {word} …"
    return f"Put the command after `--`: {line} -- {' '.join([*words, *tail])}"


def _similar(missing: Path) -> str:
    """A suggestion for the end of a sentence: a file of the same kind with a similar name."""
    kinds = {missing.suffix} if missing.suffix else {SCRIPT, notebooks.SUFFIX}
    there = [path for path in missing.parent.iterdir() if path.suffix in kinds] if missing.parent.is_dir() else []
    near = get_close_matches(missing.stem, [path.stem for path in there], n=1)
    names = [path.name for path in there if path.stem in near]
    return f"; did you mean {min(names)}?" if names else "."


def _below(given: str, folder: Path) -> Path:
    """A file as a path below the folder."""
    found = Path(os.path.normpath(folder / Path(given).expanduser()))
    for path, top in ((found, folder), (found.resolve(), folder.resolve())):
        if path.is_relative_to(top):
            return path.relative_to(top)
    raise Invalid(f"{given} is outside {folder}, the folder that the job gets; change to its folder first.")


def name_of(text: str) -> str:
    """A job name from a file or a program, without characters that names cannot have."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", Path(text).name).strip("._-")[:128] or "job"
