"""The templates in the form of a job: the same files as `--template` reads, as texts of the form's fields."""

from __future__ import annotations

import asyncio
import json
import shlex
from dataclasses import asdict, dataclass, field

from jupyter_server.auth.decorator import authorized
from pydantic import BaseModel, ConfigDict
from tornado.web import authenticated

from jupyter_ext.cloning import WRITTEN, text_of
from jupyter_ext.dialog import FormHandler, value_of
from scheduler.errors import RunaiError
from scheduler.model import JobKind
from scheduler.submission import jobfile
from scheduler.submission.options import Interface, of

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
    texts = {key: text_of(option, given[key]) for key, option in FIELDS.items() if key in given}
    runs = {} if JobKind(given.get("kind", JobKind.COMMAND)) in WRITTEN else given
    return Shown(
        name,
        own,
        run=shlex.join(runs.get("command", ())),
        options={key: text for key, text in texts.items() if text},
        left_out=[key for key in given if key not in FIELDS and key not in ("kind", "command")],
    )


def keep(name: str, options: dict[str, str]) -> None:
    """Save the texts of fields as one of the user's templates. Raises `RunaiError` with the field at fault."""
    values = {key: value_of(key, text) for key, text in options.items()}
    jobfile.save_template(name, {key: value for key, value in values.items() if key in FIELDS})


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
