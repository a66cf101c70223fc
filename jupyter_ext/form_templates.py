"""Job files in the form of a job, as texts of its fields: templates, which `--template` reads too, and files that
`submit -f` reads."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import PurePath
from typing import Any

from jupyter_server.auth.decorator import authorized
from pydantic import BaseModel, ConfigDict
from tornado.web import authenticated

from jupyter_ext.cloning import WRITTEN, text_of
from jupyter_ext.dialog import FormHandler, value_of
from scheduler.errors import Misused, RunaiError
from scheduler.files.text import read_text
from scheduler.model import JobKind
from scheduler.submission import jobfile
from scheduler.submission.options import Interface, of
from scheduler.submission.programs import name_of

FIELDS = {option.name: option for option in of(Interface.DIALOG) if Interface.JOB_FILE in option.via}
"""The fields that a template can keep: not the times of a schedule, nor the parameters of a notebook."""


class Kept(BaseModel):
    """What the form sends to keep its options."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    options: dict[str, str]


@dataclass(frozen=True, slots=True)
class Shown:
    """A template: the command line, if it has one, and the texts of the fields. `own` is false for an administrator's;
    `left_out` are its keys without a field; `problem` says why it cannot be used."""

    name: str
    own: bool
    run: str = ""
    options: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    problem: str = ""


def shown() -> list[Shown]:
    return [_shown(name) for name in jobfile.templates()]


def _shown(name: str) -> Shown:
    own = jobfile.is_own(name)
    try:
        given = jobfile.load_template(name)
    except RunaiError as error:
        return Shown(name, own, problem=error.sentence)
    runs = {} if JobKind(given.get("kind", JobKind.COMMAND)) in WRITTEN else given
    return Shown(
        name,
        own,
        run=shlex.join(runs.get("command", ())),
        options=_texts(given),
        left_out=_left_out(given),
    )


def form_of(text: str, name: str) -> dict[str, Any]:
    """A job file as the form shows it, which has a field for all of it: the command line and the texts of the fields.
    A job without a name is called as the file. Raises `Invalid` or `Misused`."""
    given = jobfile.parse(text, source=name).given
    left_out = _left_out(given)
    if left_out:
        raise Misused(f"The form has no field for {left_out[0]}; run `jupyter runai submit -f {shlex.quote(name)}`.")
    run, named = shlex.join(given.get("command", ())), {"name": name_of(PurePath(name).stem)}
    return {"run": run, "options": named | _texts(given)}


def _texts(given: Mapping[str, Any]) -> dict[str, str]:
    texts = {key: text_of(option, given[key]) for key, option in FIELDS.items() if key in given}
    return {key: text for key, text in texts.items() if text}


def _left_out(given: Mapping[str, Any]) -> list[str]:
    return [key for key in given if key not in FIELDS and key not in ("kind", "command")]


def keep(name: str, options: dict[str, str]) -> None:
    """Save the texts of fields as one of the user's templates. Raises `RunaiError` with the field at fault."""
    values = {key: value_of(key, text) for key, text in options.items()}
    jobfile.save_template(name, {key: value for key, value in values.items() if key in FIELDS})


class JobFileHandler(FormHandler):
    """`/runai/job-file?path=PATH`: the form of a job file."""

    @authenticated
    @authorized
    async def get(self) -> None:
        try:
            folder, _, name = self.get_query_argument("path").rpartition("/")
            text, _ = await asyncio.to_thread(read_text, str(self.folder(folder) / name), "job file")
            form = form_of(text, name)
        except RunaiError as error:
            self.problem(error)
            return
        self.finish(json.dumps(form))


class TemplatesHandler(FormHandler):
    """`/runai/templates`: the templates, and keeping the options of a form as one."""

    @authenticated
    @authorized
    async def get(self) -> None:
        await self._answer()

    @authenticated
    @authorized
    async def post(self) -> None:
        try:
            kept = self.form(Kept, "a name and options")
            await asyncio.to_thread(keep, kept.name, kept.options)
        except RunaiError as error:
            self.problem(error)
            return
        await self._answer()

    async def _answer(self) -> None:
        self.finish(json.dumps([asdict(template) for template in await asyncio.to_thread(shown)]))
