"""A job once more: the same program and files, with other options.

What must hold: what the form does not show is that of the first job; the form shows every value that differs from what
would hold without it, in a form that reads back as the same value.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from jupyter_ext.sending import ALONG
from scheduler.errors import Misused
from scheduler.model import JobKind
from scheduler.schema import JobSubmit
from scheduler.submission import jobfile
from scheduler.submission.options import Interface, Option, of
from scheduler.submission.values import DURATION, MEMORY, NAMES, SWITCH, VARIABLES

RUN = "run"
"""The field of a form that says what to run."""

SHOWN = {
    option.name: option
    for option in of(Interface.DIALOG)
    if Interface.API in option.via and option.name not in ("outputs", "after")
}
"""The options that the form of a clone shows. The outputs of a cell are part of its files, and what a job started after
has happened."""

WRITTEN = (JobKind.CELL, JobKind.NOTEBOOK)
"""Their commands are made here."""


def form_of(job: JobSubmit) -> dict[str, Any]:
    """What the form of a clone shows: the command line, whether it can be changed, and the texts of the options."""
    texts = {name: text_of(option, getattr(job, name)) for name, option in SHOWN.items() if _differs(job, name)}
    return {
        "run": shlex.join(job.command),
        "fixed": job.kind in WRITTEN,
        "options": {name: text for name, text in texts.items() if text},
    }


def cloned(job: JobSubmit, run: str, values: Mapping[str, Any]) -> JobSubmit:
    """The submission of a form that shows `job`. Raises `Invalid`."""
    kept = job.model_dump(mode="json", exclude_unset=True, exclude={*SHOWN, "after"})
    env = {name: value for name, value in job.env.items() if name in ALONG} | values.get("env", {})
    if job.kind not in WRITTEN:
        kept["command"] = words(run)
    return jobfile.submission({**kept, **{name: values[name] for name in SHOWN if name in values}, "env": env})


def words(run: str) -> list[str]:
    """The words of a command line. Raises `Misused`."""
    try:
        found = shlex.split(run)
    except ValueError as error:
        raise Misused(f"This cannot be read: {str(error).lower()}.", field=RUN) from None
    if not found:
        raise Misused("Write what to run: a script, a notebook or a command.", field=RUN)
    return found


def _differs(job: JobSubmit, name: str) -> bool:
    """Whether a value was given. The GPUs are always shown: their default is the project's."""
    default = JobSubmit.model_fields[name].get_default(call_default_factory=True)
    if name == "min_workers":
        default = job.workers
    return name in job.model_fields_set and (name == "gpus" or getattr(job, name) != default)


def text_of(option: Option, value: Any) -> str:
    """The text of a field; `value_of` of the option reads it."""
    if option.kind is SWITCH:
        return "true" if value == option.sets else ""
    if option.kind is NAMES:
        return ", ".join(value)
    if option.kind is VARIABLES:
        return "\n".join(f"{name}={text}" for name, text in value.items() if name not in ALONG)
    if option.kind in (MEMORY, DURATION):
        return f"{value:.15g}{'GiB' if option.kind is MEMORY else 's'}"
    return f"{value:.15g}" if isinstance(value, float) else str(value)
