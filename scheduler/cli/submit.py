"""`jupyter runai submit`: the current folder's files and a command become a job."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduler.cli import Misused
from scheduler.cli.connect import connect
from scheduler.cli.jobs import bring, follow
from scheduler.cli.text import clean
from scheduler.errors import Invalid, NotFound
from scheduler.submission import notebooks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.client import Client
    from scheduler.files.bundle import Bundle
    from scheduler.schema import ArrayView, JobView
    from scheduler.submission.jobfile import JobFile


def run(options: argparse.Namespace) -> int:
    from scheduler.client.uploading import upload
    from scheduler.submission import jobfile

    said = jobfile.merge(_begin_with(options), _asked(options))
    if options.script or options.tail or "command" not in said:
        said["kind"], said["command"] = what_runs(options)
        if said["kind"] == "notebook":
            said.setdefault("name", Path(options.script[0]).stem)
        said.pop("bundle", None)
    if options.save_template:
        file = jobfile.save_template(options.save_template, said)
        print(f"Kept in {file}.", file=sys.stderr)
    given = jobfile.merge({"env": variables([])}, said)
    sent = jobfile.submission(given)
    array = jobfile.array_of(given, sent)
    if options.dry_run:
        print(jobfile.dump(given, options.output or "yaml"), end="")
        return 0
    if array is not None and (options.wait or options.out):
        raise Misused("--wait and --out follow one job; `jupyter runai list` shows many.")
    bundle = None if "bundle" in given else _pack(options, given)
    with connect() as client:
        if bundle is not None:
            client.check(sent)
            sent = sent.model_copy(update=upload(client, bundle).fields)
        if array is not None:
            _tell_array(options, client.submit_array(array.model_copy(update={"job": sent})))
            return 0
        job = client.submit(sent)
        _tell(options, job, bundle)
        if options.wait or options.out:
            return _wait(client, job, options)
    return 0


def _begin_with(options: argparse.Namespace) -> dict[str, Any]:
    """What the template says, and over it the file."""
    from scheduler.submission import jobfile

    template = jobfile.load_template(options.template) if options.template else {}
    return template if options.file is None else jobfile.merge(template, _read(options.file).given)


def _read(name: str) -> JobFile:
    from scheduler.submission.jobfile import parse

    if name == "-":
        return parse(sys.stdin.read(), source="Standard input")
    try:
        text = Path(name).read_text("utf-8")
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise NotFound(f"The job file {name} cannot be read ({why}).") from None
    return parse(text, source=name)


def what_runs(options: argparse.Namespace) -> tuple[str, list[str]]:
    """The kind of job and its argv. Raises `Misused` or `NotFound` where it is not clear what to run."""
    words, tail = options.script, options.tail
    if len(words) > 1:
        raise Misused(
            f"Put the command after `--`: jupyter runai submit -- {' '.join([*words, *(tail or [])])}"
        )
    if words and words[0].endswith(notebooks.SUFFIX):
        if tail:
            raise Misused(f"A notebook takes parameters: jupyter runai submit {words[0]} -p NAME=VALUE")
        inside = _file(words[0], options.no_files)
        notebooks.check(Path(words[0]), dict(options.parameters))
        return "notebook", notebooks.command(inside, dict(options.parameters))
    if options.parameters:
        raise Misused("-p is for notebooks; the words of a script or a command come after `--`.")
    if words:
        return "script", [sys.executable, _script(words[0], options.no_files), *(tail or [])]
    if not tail:
        raise Misused("Say what to run: `jupyter runai submit train.py`, or a command after `--`.")
    return "command", tail


def _script(name: str, in_place: bool) -> str:
    """The script as the job will find it: below its working directory, or in its place where no files travel."""
    if Path(name).is_file() and Path(name).suffix != ".py":
        raise Invalid(
            f"{name} is no Python script; say how to run it: jupyter runai submit -- COMMAND {name}"
        )
    return _file(name, in_place)


def _file(name: str, in_place: bool) -> str:
    path = Path(name)
    if not path.is_file():
        raise NotFound(f"There is no file {name} in {Path.cwd()}.")
    if in_place:
        return str(path.absolute())
    inside = Path(os.path.normpath(path.absolute()))
    if not inside.is_relative_to(Path.cwd()):
        raise Invalid(
            f"{name} is not below {Path.cwd()}, whose files the job takes along; start from its folder."
        )
    return inside.relative_to(Path.cwd()).as_posix()


def _pack(options: argparse.Namespace, given: Mapping[str, Any]) -> Bundle | None:
    """What the job takes along; `None` where there is nothing."""
    from scheduler.files.bundle import snapshot

    patterns = given.get("in", ())
    if given.get("no_files"):
        if patterns:
            raise Misused(
                "--in chooses the files to take along, and --no-files takes none; leave one of them out."
            )
        return None
    bundle = snapshot(Path.cwd(), patterns)
    outside = bundle.listing.outside
    if outside:
        names = ", ".join(outside[:3]) + (", …" if len(outside) > 3 else "")
        print(f"Links that lead out of the folder stay behind: {names}.", file=sys.stderr)
    if options.script:
        script = _file(options.script[0], in_place=False)
        if all(entry.path != script for entry in bundle.listing.entries):
            how = "send the file that it leads to" if script in outside else f"add it with --in {script}"
            raise Invalid(f"{script} is not among the files that the job would take along; {how}.")
    return bundle if bundle.listing.entries else None


def _asked(options: argparse.Namespace) -> dict[str, Any]:
    """What the options say, and nothing else, so that every default is the API's."""
    asked = {
        "name": options.name,
        "project": options.project,
        "env": _named(options.env) or None,
        "in": options.patterns or None,
        "no_files": options.no_files or None,
        "gpus": options.gpus,
        "gpu_memory_gib": options.gpu_memory,
        "gpu_types": options.gpu_type,
        "cpus": options.cpus,
        "memory_gib": options.memory,
        "workers": options.workers,
        "min_workers": options.min_workers,
        "framework": options.framework,
        "node_pools": options.node_pool,
        "priority": options.priority,
        "preemptible": False if options.not_preemptible else None,
        "require": options.require,
        "prefer": options.prefer,
        "min_runtime": options.min_runtime,
        "max_runtime": options.max_runtime,
        "idle_timeout": options.idle_timeout,
        "expected_runtime": options.expected_runtime,
        "grace": options.grace,
        "retries": options.retries,
        "after": options.after or None,
        "array": options.array,
        "sweep": options.sweep,
        "at_once": options.at_once,
    }
    return {key: value for key, value in asked.items() if value is not None}


def variables(given: list[tuple[str, str | None]]) -> dict[str, str]:
    """The job's variables: where it finds its programs, as here, and those that `--env` names."""
    found = {name: os.environ[name] for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if name in os.environ}
    here, path = str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)
    found["PATH"] = path if here in path.split(os.pathsep) else f"{here}{os.pathsep}{path}"
    return {**found, **_named(given)}


def _named(given: list[tuple[str, str | None]]) -> dict[str, str]:
    found = {}
    for name, value in given:
        if value is None and name not in os.environ:
            raise Invalid(f"There is no variable {name} here to pass on; write --env {name}=VALUE.")
        found[name] = os.environ[name] if value is None else value
    return found


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
        f"`jupyter runai list --array {array.id}` shows how they stand.",
        file=sys.stderr,
    )


def _wait(client: Client, job: JobView, options: argparse.Namespace) -> int:
    try:
        ended = follow(client, job.id)
    except KeyboardInterrupt:
        print(f"\nThe job goes on; `jupyter runai cancel {job.id}` ends it.", file=sys.stderr)
        return 130
    if options.out:
        bring(client, job.id, Path(options.out))
    if ended.state == "succeeded":
        return 0
    print(f"{clean(ended.name)} {ended.state.value}: {clean(ended.reason)}", file=sys.stderr)
    return 1
