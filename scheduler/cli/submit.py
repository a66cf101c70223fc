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

if TYPE_CHECKING:
    from scheduler.api.schema import ArrayView, JobView
    from scheduler.bundle import Bundle
    from scheduler.client import Client


def run(options: argparse.Namespace) -> int:
    from scheduler.api.schema import ArrayMember, ArraySubmit, JobSubmit
    from scheduler.client.uploading import upload
    from scheduler.poolfile import validate

    kind, command = what_runs(options)
    if options.array is not None and (options.wait or options.out):
        raise Misused(
            "--wait and --out follow one job, and --array sends many; `jupyter runai list` shows them."
        )
    if options.no_files and options.patterns:
        raise Misused(
            "--in chooses the files to take along, and --no-files takes none; leave one of them out."
        )
    bundle = None if options.no_files else _pack(options)
    sent = validate(JobSubmit, _wanted(options, kind, command))
    with connect() as client:
        if bundle is not None:
            sent = sent.model_copy(update=upload(client, bundle).fields)
        if options.array is not None:
            indices, at_once = options.array
            members = [ArrayMember(index=index) for index in indices]
            array = client.submit_array(ArraySubmit(job=sent, members=members, at_once=at_once))
            _tell_array(options, array)
            return 0
        job = client.submit(sent)
        _tell(options, job, bundle)
        if options.wait or options.out:
            return _wait(client, job, options)
    return 0


def what_runs(options: argparse.Namespace) -> tuple[str, list[str]]:
    """The kind of job and its argv. Raises `Misused` or `NotFound` where it is not clear what to run."""
    words, tail = options.script, options.tail
    if len(words) > 1:
        raise Misused(
            f"Put the command after `--`: jupyter runai submit -- {' '.join([*words, *(tail or [])])}"
        )
    if words:
        return "script", [sys.executable, _script(words[0], options.no_files), *(tail or [])]
    if not tail:
        raise Misused("Say what to run: `jupyter runai submit train.py`, or a command after `--`.")
    return "command", tail


def _script(name: str, in_place: bool) -> str:
    """The script as the job will find it: below its working directory, or in its place where no files travel."""
    path = Path(name)
    if not path.is_file():
        raise NotFound(f"There is no file {name} in {Path.cwd()}.")
    if path.suffix != ".py":
        raise Invalid(
            f"{name} is no Python script; say how to run it: jupyter runai submit -- COMMAND {name}"
        )
    if in_place:
        return str(path.absolute())
    inside = Path(os.path.normpath(path.absolute()))
    if not inside.is_relative_to(Path.cwd()):
        raise Invalid(
            f"{name} is not below {Path.cwd()}, whose files the job takes along; start from its folder."
        )
    return inside.relative_to(Path.cwd()).as_posix()


def _pack(options: argparse.Namespace) -> Bundle | None:
    """What the job takes along; `None` where there is nothing."""
    from scheduler.bundle import snapshot

    bundle = snapshot(Path.cwd(), options.patterns)
    outside = bundle.listing.outside
    if outside:
        names = ", ".join(outside[:3]) + (", …" if len(outside) > 3 else "")
        print(f"Links that lead out of the folder stay behind: {names}.", file=sys.stderr)
    if options.script:
        script = _script(options.script[0], in_place=False)
        if all(entry.path != script for entry in bundle.listing.entries):
            how = "send the file that it leads to" if script in outside else f"add it with --in {script}"
            raise Invalid(f"{script} is not among the files that the job would take along; {how}.")
    return bundle if bundle.listing.entries else None


def _wanted(options: argparse.Namespace, kind: str, command: list[str]) -> dict[str, Any]:
    """The submission, with only what was asked for, so that every default is the API's."""
    asked = {
        "name": options.name,
        "project": options.project,
        "kind": kind,
        "command": command,
        "env": variables(options.env),
        "gpus": options.gpus,
        "gpu_memory_gib": options.gpu_memory,
        "gpu_types": options.gpu_type,
        "cpus": options.cpus,
        "memory_gib": options.memory,
        "workers": options.workers,
        "min_workers": options.min_workers,
        "node_pools": options.node_pool,
        "priority": options.priority,
        "preemptible": not options.not_preemptible,
        "require": options.require,
        "prefer": options.prefer,
        "min_runtime": options.min_runtime,
        "max_runtime": options.max_runtime,
        "expected_runtime": options.expected_runtime,
        "grace": options.grace,
        "retries": options.retries,
        "after": options.after or None,
    }
    return {key: value for key, value in asked.items() if value is not None}


def variables(given: list[tuple[str, str | None]]) -> dict[str, str]:
    """The job's variables: where it finds its programs, as here, and those that `--env` names."""
    found = {name: os.environ[name] for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if name in os.environ}
    here, path = str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)
    found["PATH"] = path if here in path.split(os.pathsep) else f"{here}{os.pathsep}{path}"
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
        from scheduler.bundle import in_words

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
