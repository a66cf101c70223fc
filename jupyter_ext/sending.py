"""From what is asked to what is sent: the submission's fields, the files put in place, and one line that says what goes."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from jupyter_ext.capture import CannotTravel
from jupyter_ext.what import What
from scheduler.files.bundle import in_words

if TYPE_CHECKING:
    from scheduler.client import Client
    from scheduler.errors import RunaiError
    from scheduler.schema import JobSubmit

ALONG = (
    "PATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "LANG",
    "LC_ALL",
    "TZ",
)
"""The variables that make the job's Python environment the kernel's."""


def fields(asked: argparse.Namespace) -> dict[str, Any]:
    """What the options say, as a submission's fields."""
    given = {
        "name": asked.name,
        "project": asked.project,
        "env": dict(asked.env) or None,
        "outputs": asked.out or None,
        "gpus": asked.gpus,
        "gpu_memory_gib": asked.gpu_memory,
        "gpu_types": asked.gpu_type,
        "cpus": asked.cpus,
        "memory_gib": asked.memory,
        "workers": asked.workers,
        "min_workers": asked.min_workers,
        "framework": asked.framework,
        "priority": asked.priority,
        "max_runtime": asked.max_runtime,
        "idle_timeout": asked.idle_timeout,
        "expected_runtime": asked.expected_runtime,
        "retries": asked.retries,
        "after": asked.after or None,
        "in": asked.takes,
        "no_files": asked.no_files or None,
        "array": asked.array,
        "sweep": asked.sweep,
        "at_once": asked.at_once,
    }
    return {name: value for name, value in given.items() if value is not None}


def put_files(client: Client, given: Mapping[str, Any], what: What, sent: JobSubmit) -> JobSubmit:
    """Say what goes and put it where the scheduler finds it, after it could have refused; the submission with its files."""
    from scheduler.client.uploading import upload
    from scheduler.files.bundle import Listing, pack, survey

    here = Path.cwd()
    listing = Listing(here, ()) if given.get("no_files") else survey(here, what.patterns)
    files = [entry for entry in listing.entries if entry.path not in what.files]
    bundle = pack(listing, what.files)
    client.check(sent)
    if what.sizes or files:
        print(_what_goes(what.sizes, len(files), sum(entry.size for entry in files)), flush=True)
    uploaded = upload(client, bundle)
    if uploaded.unchanged:
        print(f"{in_words(uploaded.unchanged)} of it are already in the pool.", flush=True)
    return sent.model_copy(update=uploaded.fields)


def environment() -> dict[str, str]:
    """The kernel's Python environment: `python` in a command of the job is the kernel's own."""
    own = {name: os.environ[name] for name in ALONG if name in os.environ}
    folder = os.path.dirname(sys.executable)
    path = dict.fromkeys([folder, *own.get("PATH", os.defpath).split(os.pathsep)])
    return {**own, "PATH": os.pathsep.join(path)}


def _what_goes(sizes: Mapping[str, int], files: int, size: int) -> str:
    """`Sending train (1.2 MiB), config, fit (1.3 MiB in total) and 3 files of this folder (12 KiB).`"""
    names = sorted(sizes, key=lambda name: -sizes[name])
    large = [name for name in names if sizes[name] >= 100 * 1024 and len(names) > 1]
    shown = [f"{name} ({in_words(sizes[name])})" if name in large else name for name in names[:8]]
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    total = f"({in_words(sum(sizes.values()))}{' in total' if large else ''})"
    variables = f"{', '.join(shown)}{more} {total}" if names else ""
    folder = f"{files} file{'' if files == 1 else 's'} of this folder ({in_words(size)})" if files else ""
    return f"Sending {' and '.join(filter(None, (variables, folder)))}."


# -- what is refused ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def in_one_sentence() -> Iterator[None]:
    """What is refused is told as IPython tells wrong usage: without a traceback."""
    from scheduler.errors import RunaiError

    try:
        yield
    except RunaiError as error:
        raise UsageError(_of_option(error)) from None
    except CannotTravel as error:
        raise UsageError(str(error)) from None


@contextlib.contextmanager
def interrupted(sentence: str) -> Iterator[None]:
    from jupyter_ext.handle import LetGo

    try:
        yield
    except KeyboardInterrupt:
        raise LetGo(sentence) from None


def _of_option(error: RunaiError) -> str:
    """A refusal of a submission's field, in the words of the magic's options."""
    field = error.field or ""
    option = {"gpu_types": "gpu-type", "outputs": "out"}.get(
        field, field.removesuffix("_gib").replace("_", "-")
    )
    for mark in (": ", " "):
        if field and error.sentence.startswith(field + mark):
            return f"--{option}{mark}{error.sentence.removeprefix(field + mark)}"
    return error.sentence
