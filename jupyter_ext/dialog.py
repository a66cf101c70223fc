"""Submits from the panel's dialog: a script, a notebook or a command of the user's own folder becomes a job.

It is submitted as by `%runai_train` in a notebook of that folder, with this server's Python.

What must hold: an error is one sentence with the field of the form at fault, before anything is sent; the server
answers other requests meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from jupyter_server.auth.decorator import authorized
from jupyter_server.utils import ApiPath, to_os_path
from pydantic import BaseModel, ConfigDict, ValidationError
from tornado.web import authenticated

from jupyter_ext import scheduling, sending
from jupyter_ext.cloning import RUN, cloned, form_of, words
from jupyter_ext.proxy import MAX_BODY, RunaiHandler
from scheduler.client import Address, Client
from scheduler.errors import Invalid, Misused, NotFound, RunaiError, TooLarge
from scheduler.files.bundle import survey
from scheduler.model import JobKind
from scheduler.schema import DryRunView, JobSubmit
from scheduler.submission import jobfile, notebooks
from scheduler.submission.arguments import in_words
from scheduler.submission.options import BY_NAME, Interface
from scheduler.submission.programs import SCRIPT, Program, program_of

CELL = Program(JobKind.CELL, "cell", ("python",))
ANYTHING = Program(JobKind.COMMAND, "job", ("python",))
"""The program of a dry run where the real one is not known yet."""

F = TypeVar("F", bound=BaseModel)


class Form(BaseModel):
    """What the dialog sends: a line such as `train.py --epochs 3`, its folder, and the options as text.

    A clone of the job `like` has its program and its files.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    folder: str = ""
    run: str
    options: dict[str, str]
    like: str | None = None


class DryRunForm(BaseModel):
    """The same form while it is being filled in; `run` is `None` for a cell."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    folder: str = ""
    run: str | None = None
    options: dict[str, str]
    like: str | None = None


@dataclass(frozen=True, slots=True)
class Sent:
    """The result of a form: its job, the first job of its array, or its schedule, which runs next at `next_run`; and a
    line that says what was sent."""

    id: str
    name: str
    project: str
    jobs: int
    files: str
    next_run: float | None = None


def send(form: Form, folder: Path, address: Address) -> Sent:
    """Submit a form. Raises `RunaiError`, with the field of the form at fault."""
    values = _values(form)
    if form.like is not None:
        return _send_clone(form.like, form.run, values, address)
    try:
        program = _program(form.run, folder, values)
    except RunaiError as error:
        error.field = error.field or RUN
        raise
    given = given_of(values, program, env=sending.environment())
    said: list[str] = []
    try:
        sent = jobfile.submission(given)
        scheduling.check(values, given, jobfile.array_of(given, sent))  # refuses before anything is sent
        with Client(address.url, address.token, address.folder) as client:
            sent = sending.put_files(client, given, program, sent, folder, said.append)
            if "schedule" in values:
                return _schedule(client, values, sent, " ".join(said))
            array = jobfile.array_of(given, sent)
            jobs = [client.submit(sent)] if array is None else client.submit_array(array).jobs
    except RunaiError as error:
        raise at_field(error, values) from None
    job = jobs[0]
    return Sent(job.array or job.id, sent.name or job.name, job.project, len(jobs), " ".join(said))


def _send_clone(like: str, run: str, values: Mapping[str, Any], address: Address) -> Sent:
    try:
        with Client(address.url, address.token, address.folder) as client:
            sent = cloned(client.submission(like), run, values)
            scheduling.check(values, {}, None)
            if "schedule" in values:
                return _schedule(client, values, sent)
            job = client.submit(sent)
    except RunaiError as error:
        raise at_field(error, values) from None
    return Sent(job.id, job.name, job.project, 1, "")


def _schedule(client: Client, values: Mapping[str, Any], sent: JobSubmit, files: str = "") -> Sent:
    added = scheduling.put(client, values, sent)
    return Sent(added.id, added.name, added.project, 0, files, added.next_run)


def dry_run(form: DryRunForm, folder: Path, address: Address) -> DryRunView:
    """What would happen if this were submitted now. Raises `RunaiError`, except for the program, which need not be
    known yet."""
    values = {name: value_of(name, text) for name, text in form.options.items()}
    if form.like is not None:
        try:
            with Client(address.url, address.token, address.folder) as client:
                return client.dry_run(cloned(client.submission(form.like), form.run or "", values))
        except RunaiError as error:
            raise at_field(error, values) from None
    try:
        program = CELL if form.run is None else _program(form.run, folder, values)
    except RunaiError:
        program = ANYTHING
    given = given_of(values, program)
    try:
        sent = jobfile.submission(given)
        scheduling.check(values, given, jobfile.array_of(given, sent))
        with Client(address.url, address.token, address.folder) as client:
            return client.dry_run(sent)
    except RunaiError as error:
        raise at_field(error, values) from None


def given_of(values: Mapping[str, Any], program: Program, **more: Any) -> dict[str, Any]:
    """The values as in a job file."""
    options = {name: value for name, value in values.items() if Interface.JOB_FILE in BY_NAME[name].via}
    runs = {"kind": program.kind.value, "command": [*program.command]}
    return jobfile.merge({"name": program.name, **more}, options, runs)


def _values(form: Form) -> dict[str, Any]:
    values = {name: value_of(name, text) for name, text in form.options.items()}
    if "outputs" in values:
        label = BY_NAME["outputs"].label
        raise Misused(
            f"{label}: only a cell returns variables; a script writes files to $RUNAI_OUTPUT_DIR.", field="outputs"
        )
    return values


def value_of(name: str, text: str) -> Any:
    """The value of the text in a field of a dialog. Raises `Invalid` with the field."""
    option = BY_NAME.get(name)
    if option is None or Interface.DIALOG not in option.via:
        raise Invalid(f"There is no option {name!r} in this form.")
    try:
        return option.value_of(text)
    except ValueError as error:
        sentence = str(error)
        raise Invalid(f"{sentence[:1].upper()}{sentence[1:]}.", field=name) from None


def _program(run: str, folder: Path, values: Mapping[str, Any]) -> Program:
    """A script or a notebook with its arguments, or a command."""
    line = words(run)
    of_file = line[0].endswith((SCRIPT, notebooks.SUFFIX))
    if len(line) > 1 and line[0].endswith(notebooks.SUFFIX):
        raise Misused(f"A notebook takes parameters, not arguments; write {line[0]} alone.")
    parameters = values.get("notebook_parameters")
    if parameters and not line[0].endswith(notebooks.SUFFIX):
        label = BY_NAME["notebook_parameters"].label
        raise Misused(f"{label} are for notebooks; write arguments after the script.", field="notebook_parameters")
    found = program_of(
        line[:1] if of_file else (),
        line[1:] if of_file else line,
        folder,
        line="",
        parameters=parameters,
        patterns=values.get("in", ()),
    )
    assert found is not None, line
    return found


def at_field(error: RunaiError, values: Mapping[str, Any]) -> RunaiError:
    """An error of the scheduler, with the field of the form and its label."""
    field = re.split(r"[.\[]", error.field or "")[0]
    error.sentence = in_words(error, {name: BY_NAME[name].label for name in values})
    if field in BY_NAME:
        error.field = field
    elif field in jobfile.JobFile.model_fields:
        error.field = RUN  # the program is not an option: its command, its files
    return error


class FormHandler(RunaiHandler):
    def form(self, kind: type[F], parts: str) -> F:
        """The form that was sent. Raises `Invalid`, which names its `parts`, where it is not one."""
        if len(self.request.body) > MAX_BODY:
            raise TooLarge(f"A request has at most {MAX_BODY} bytes.")
        try:
            return kind.model_validate_json(self.request.body)
        except ValidationError:
            raise Invalid(f"This form has {parts}.") from None

    def folder(self, path: str) -> Path:
        """A folder of the file browser's on this machine."""
        root = Path(self.contents_manager.root_dir).absolute()
        folder = Path(to_os_path(ApiPath(path), str(root)))
        if ".." in path.split("/") or not folder.is_dir():
            raise NotFound(f"There is no folder {path or '/'} here.", field=RUN)
        return folder


class SubmitHandler(FormHandler):
    """`/runai/jobs`: sends a form as a job."""

    @authenticated
    @authorized
    async def post(self) -> None:
        try:
            form = self.form(Form, "a folder, a line to run and options")
            address = await self.settings["runai_upstream"].address()
            sent = await asyncio.to_thread(send, form, self.folder(form.folder), address)
        except RunaiError as error:
            self.problem(error)
            return
        self.set_status(201)
        self.finish(json.dumps({name: getattr(sent, name) for name in Sent.__slots__}))


class DryRunHandler(FormHandler):
    """`/runai/dry-run`: what would happen to a form, or to that of a cell, if it were submitted now."""

    @authenticated
    @authorized
    async def post(self) -> None:
        try:
            form = self.form(DryRunForm, "options, and a folder and a line to run where it is no cell's")
            address = await self.settings["runai_upstream"].address()
            found = await asyncio.to_thread(dry_run, form, self.folder(form.folder), address)
        except RunaiError as error:
            self.problem(error)
            return
        self.finish(found.model_dump_json())


class FilesHandler(FormHandler):
    """`/runai/files`: how many files of a folder would be sent, and their bytes."""

    @authenticated
    @authorized
    async def get(self) -> None:
        chosen = self.get_query_argument("in", "")
        try:
            patterns = value_of("in", chosen) if chosen else ()
            listing = await asyncio.to_thread(survey, self.folder(self.get_query_argument("folder")), patterns)
        except RunaiError as error:
            self.problem(error)
            return
        self.finish(json.dumps({"files": len(listing.entries), "size": listing.size}))


class CloneHandler(FormHandler):
    """`/runai/form?job=ID`: the form of a clone of one of the user's jobs."""

    @authenticated
    @authorized
    async def get(self) -> None:
        try:
            address = await self.settings["runai_upstream"].address()
            job = await asyncio.to_thread(_submission, self.get_query_argument("job", ""), address)
        except RunaiError as error:
            self.problem(error)
            return
        self.finish(json.dumps(form_of(job)))


def _submission(job: str, address: Address) -> JobSubmit:
    with Client(address.url, address.token, address.folder) as client:
        return client.submission(job)
