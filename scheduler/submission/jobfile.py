"""A submission as a file: what `submit -f` reads, what `--dry-run` prints, and what a named template contains.

What must hold:
- Its keys are those of the API's submission and a few for choices at submission time; an unknown one is refused with
  its place.
- The user's templates are files in the user's Jupyter configuration folder, closed to others: a variable may be a
  secret. Administrators' templates are in Jupyter's other configuration folders, and give way to the user's.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field

from scheduler.errors import Invalid, NotFound
from scheduler.model import JobKind, Parameter
from scheduler.schema import ArrayMember, ArraySubmit, JobSubmit
from scheduler.schema.reading import parse_mapping, validate
from scheduler.submission.amounts import read_array
from scheduler.submission.options import BESIDE_THE_API, OPTIONS
from scheduler.submission.sweeps import command_with, read_space, read_sweep

T = TypeVar("T")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class JobFile(JobSubmit):
    """A submission before its files are chosen; in a template the command may be missing."""

    command: list[str] = Field(default_factory=list, max_length=1000)
    take: list[str] = Field(default_factory=list, alias="in", max_length=1000)
    no_files: bool = False
    array: str | None = None
    sweep: str | None = None
    max_parallel: int | None = Field(None, ge=1)

    @property
    def given(self) -> dict[str, Any]:
        """Only the given values, without defaults."""
        return self.model_dump(mode="json", exclude_unset=True, by_alias=True)


def submission(given: Mapping[str, Any]) -> JobSubmit:
    """The submission to send, without the files. Raises `Invalid`."""
    return validate(JobSubmit, {key: value for key, value in given.items() if key not in BESIDE_THE_API})


def array_of(given: Mapping[str, Any], sent: JobSubmit) -> ArraySubmit | None:
    """The array to send instead of `sent` where a file asks for an array or a sweep. Raises `Invalid`."""
    array, sweep, max_parallel = given.get("array"), given.get("sweep"), given.get("max_parallel")
    if array and sweep:
        raise Invalid("array: a sweep makes an array by itself; leave one of them out.", field="array")
    if sweep:
        grid = _read("sweep", read_sweep, sweep)
        members = [_member(index, parameters, sent) for index, parameters in enumerate(grid)]
    elif array:
        indices, bound = _read("array", read_array, array)
        members, max_parallel = [ArrayMember(index=index) for index in indices], max_parallel or bound
    elif max_parallel:
        raise Invalid("max_parallel: there is neither an array nor a sweep.", field="max_parallel")
    else:
        return None
    return ArraySubmit(job=sent, members=members, at_once=max_parallel)


def varied(given: Mapping[str, Any]) -> Collection[str]:
    """The names of the parameters that a sweep or search varies. Raises `Invalid`."""
    return _read("sweep", read_space, given["sweep"]) if "sweep" in given else ()


def _member(index: int, parameters: dict[str, Parameter], sent: JobSubmit) -> ArrayMember:
    if sent.kind in (JobKind.CELL, JobKind.NOTEBOOK):
        return ArrayMember(index=index, parameters=parameters)
    return ArrayMember(index=index, parameters=parameters, command=command_with(sent.command, parameters))


def _read(field: str, read: Callable[[str], T], text: str) -> T:
    try:
        return read(text)
    except ValueError as error:
        raise Invalid(f"{field}: {error}.", field=field) from None


def parse(text: str, *, source: str) -> JobFile:
    """Read a job file from YAML or JSON. Raises `Invalid`, with the place as its `field`."""
    found = parse_mapping(text, source=source, example="command: [python, train.py]")
    for option in OPTIONS:
        for key in option.former_keys:
            if key in found and option.name not in found:
                found[option.name] = found.pop(key)
    return validate(JobFile, found)


def dump(given: Mapping[str, Any], form: str = "yaml") -> str:
    """As YAML (or JSON), the keys in the order of the type."""
    import yaml

    known = [field.alias or name for name, field in JobFile.model_fields.items()]
    ordered = {key: given[key] for key in sorted(given, key=known.index)}
    if form == "json":
        return json.dumps(ordered, indent=2, ensure_ascii=False) + "\n"
    text: str = yaml.safe_dump(ordered, sort_keys=False, allow_unicode=True, width=120)
    return text


def merge(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Later layers win, key by key; the variables of all are kept."""
    merged: dict[str, Any] = {}
    for layer in layers:
        env = {**merged.get("env", {}), **layer.get("env", {})}
        # `gpus` and `gpu_memory_gib` replace each other.
        for key, other in (("gpus", "gpu_memory_gib"), ("gpu_memory_gib", "gpus")):
            if key in layer:
                merged.pop(other, None)
        merged.update(layer)
        if env:
            merged["env"] = env
    return merged


# -- templates ----------------------------------------------------------------------------------------------


def templates() -> list[str]:
    """The names of the user's and the administrators' templates."""
    found = {file.stem for folder in _folders() for file in folder.glob("*.yaml")}
    return sorted(name for name in found if _NAME.fullmatch(name))


def is_own(template: str) -> bool:
    """Whether a template is the user's."""
    return _file(template, _folders()[0]).exists()


def load_template(name: str) -> dict[str, Any]:
    """The content of a template. Raises `NotFound` with a suggestion, or `Invalid`."""
    for folder in _folders():
        file = _file(name, folder)
        try:
            text = file.read_text("utf-8")
        except FileNotFoundError:
            continue
        except (OSError, UnicodeError) as error:
            raise Invalid(f"The template {name} cannot be read: {error}.", field="template") from None
        return parse(text, source=str(file)).given
    near = get_close_matches(name, templates(), n=1)
    hint = f"; did you mean {near[0]}?" if near else "; --save-template NAME keeps one."
    raise NotFound(f"There is no template {name}{hint}", field="template")


def save_template(name: str, given: Mapping[str, Any]) -> Path:
    """Save a submission as the user's template; an existing one is replaced atomically."""
    file = _file(name, _folders()[0])
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, unfinished = tempfile.mkstemp(prefix=f".{name}.", dir=file.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(dump(given))
            out.flush()
            os.fsync(out.fileno())
        os.replace(unfinished, file)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(unfinished)
        raise
    return file


def _file(name: str, folder: Path) -> Path:
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"{name!r} is not a valid template name; use letters, digits and . _ - (at most 64).",
            field="template",
        )
    return folder / f"{name}.yaml"


def _folders() -> list[Path]:
    """The user's folder, then those of the machine and of the Python environment."""
    from jupyter_core.paths import jupyter_config_dir, jupyter_config_path

    found = dict.fromkeys([jupyter_config_dir(), *jupyter_config_path()])
    return [Path(folder) / "runai" / "templates" for folder in found]
