"""`jupyter runai submit`: the current folder's files and a command become a job."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduler.cli.connect import connect
from scheduler.cli.jobs import bring, follow
from scheduler.cli.text import clean
from scheduler.errors import Misused, RunaiError
from scheduler.files.text import read_text
from scheduler.submission.arguments import in_words, said
from scheduler.submission.programs import Program, program_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.client import Client
    from scheduler.files.bundle import Bundle
    from scheduler.schema import ArraySubmit, ArrayView, JobSubmit, JobView
    from scheduler.submission.jobfile import JobFile


LINE = "jupyter runai submit"


def run(options: argparse.Namespace) -> int:
    try:
        return _submit(options)
    except RunaiError as error:
        error.sentence = in_words(error, options.typed)
        raise


def compose(
    options: argparse.Namespace, line: str = LINE
) -> tuple[JobSubmit, ArraySubmit | None, Bundle | None] | None:
    """The submission that the options describe, without its files, and these; `None` where it was only to be
    printed."""
    from scheduler.submission import jobfile
    from scheduler.submission.gitstate import with_git

    given = jobfile.merge(_begin_with(options), said(options))
    program = what_runs(options, line)
    if program is not None:
        given = jobfile.merge(given, {"kind": program.kind.value, "command": [*program.command]})
        given.pop("bundle", None)
    elif "command" not in given:
        raise Misused(f"Say what to run: `{line} train.py`, or a command after `--`.")
    if options.save_template:
        file = jobfile.save_template(options.save_template, given)
        print(f"Saved in {file}.", file=sys.stderr)
    name = program.name if program is not None else options.template
    given = jobfile.merge({"env": variables()}, {"name": name} if name else {}, given)
    sent = jobfile.submission(given)
    array = jobfile.array_of(given, sent)
    if options.dry_run:
        print(jobfile.dump(given, options.output or "yaml"), end="")
        return None
    if "bundle" in given:
        return sent, array, None
    return with_git(sent, Path.cwd()), array, _pack(program, given)


def _submit(options: argparse.Namespace) -> int:
    from scheduler.client.uploading import upload

    composed = compose(options)
    if composed is None:
        return 0
    sent, array, bundle = composed
    if array is not None and (options.wait or options.bring_to):
        raise Misused("--wait and --out follow one job; `jupyter runai list` shows many.")
    with connect() as client:
        if bundle is not None:
            client.check(sent)
            sent = sent.model_copy(update=upload(client, bundle).fields)
        if array is not None:
            _tell_array(options, client.submit_array(array.model_copy(update={"job": sent})))
            return 0
        job = client.submit(sent)
        _tell(options, job, bundle)
        if options.wait or options.bring_to:
            return _wait(client, job, options)
    return 0


def _begin_with(options: argparse.Namespace) -> dict[str, Any]:
    """The template's content, overridden by the file's."""
    from scheduler.submission import jobfile

    template = jobfile.load_template(options.template) if options.template else {}
    return template if options.file is None else jobfile.merge(template, _read(options.file).given)


def _read(name: str) -> JobFile:
    from scheduler.submission.jobfile import parse

    text, source = read_text(name, "job file")
    return parse(text, source=source)


def what_runs(options: argparse.Namespace, line: str = LINE) -> Program | None:
    """The program that the command line names. Raises `Misused`, `Invalid` or `NotFound` where it is not clear what to
    run."""
    return program_of(
        options.script,
        options.tail,
        Path.cwd(),
        line=line,
        parameters=options.notebook_parameters,
        in_place=bool(options.no_files),
    )


def _pack(program: Program | None, given: Mapping[str, Any]) -> Bundle | None:
    """The files of the job; `None` where there are none."""
    from scheduler.files.bundle import snapshot

    patterns = given.get("in", ())
    if given.get("no_files"):
        if patterns:
            raise Misused("--in chooses the files to send, and --no-files sends none; remove one of them.")
        return None
    along = program.files if program else {}
    bundle = snapshot(Path.cwd(), patterns, extra=along)
    outside = [link for link in bundle.listing.outside if link not in along]
    if outside:
        names = ", ".join(outside[:3]) + (", …" if len(outside) > 3 else "")
        print(f"Links that point out of the folder are not sent: {names}.", file=sys.stderr)
    return bundle if bundle.listing.entries or along else None


def variables() -> dict[str, str]:
    """The job's variables besides those of `--env`: the search paths of programs, as in this process."""
    found = {name: os.environ[name] for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if name in os.environ}
    here, path = str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)
    return {**found, "PATH": path if here in path.split(os.pathsep) else f"{here}{os.pathsep}{path}"}


def _tell(options: argparse.Namespace, job: JobView, bundle: Bundle | None) -> None:
    """The id on standard output (for scripts), the rest for people."""
    if options.output:
        from scheduler.cli.formats import emit

        emit(job, options.output)
        return
    print(job.id, flush=True)
    took = ""
    if bundle is not None:
        from scheduler.files.bundle import in_words

        count = len(bundle.listing.entries)
        took = f", with {count} file{'' if count == 1 else 's'} ({in_words(bundle.listing.size)})"
    reason = f": {clean(job.reason)}" if job.reason else ""
    print(f"{clean(job.name)} is {job.state.value} in project {job.project}{took}{reason}", file=sys.stderr)


def _tell_array(options: argparse.Namespace, array: ArrayView) -> None:
    if options.output:
        from scheduler.cli.formats import emit

        emit(array, options.output)
        return
    print(array.id, flush=True)
    print(
        f"{len(array.jobs)} jobs in project {array.jobs[0].project}; "
        f"`jupyter runai list --array {array.id}` shows their states.",
        file=sys.stderr,
    )


def _wait(client: Client, job: JobView, options: argparse.Namespace) -> int:
    try:
        ended = follow(client, job.id)
    except KeyboardInterrupt:
        print(f"\nThe job keeps running; `jupyter runai cancel {job.id}` ends it.", file=sys.stderr)
        return 130
    if options.bring_to:
        bring(client, job.id, Path(options.bring_to))
    if ended.state == "succeeded":
        return 0
    print(f"{clean(ended.name)} {ended.state.value}: {clean(ended.reason)}", file=sys.stderr)
    return 1
