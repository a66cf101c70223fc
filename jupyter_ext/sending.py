"""Submits a program: its environment, the upload of its files, and a line that says what is sent."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduler.files.bundle import in_words
from scheduler.model import JobKind
from scheduler.submission.notebooks import SUFFIX

if TYPE_CHECKING:
    from scheduler.client import Client
    from scheduler.schema import JobSubmit
    from scheduler.submission.programs import Program

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
"""The variables that give the job this process's Python environment."""


def put_files(
    client: Client,
    given: Mapping[str, Any],
    program: Program,
    sent: JobSubmit,
    folder: Path,
    tell: Callable[[str], None],
    sends: str | None = None,
) -> JobSubmit:
    """After the scheduler has checked the job, print what is sent and upload it; returns the submission with its
    files. `sends` says it in other words."""
    from scheduler.client.uploading import upload
    from scheduler.files.bundle import Listing, pack, survey
    from scheduler.submission.gitstate import with_git

    ignored = (f"*{SUFFIX}",) if program.kind is JobKind.CELL else ()  # notebooks, including its own
    listing = Listing(folder, ()) if given.get("no_files") else survey(folder, program.patterns, ignored=ignored)
    files = {entry.path: entry.size for entry in listing.entries}
    if program.kind is JobKind.CELL:  # its own files are the variables, which are listed by name
        files = {path: size for path, size in files.items() if path not in program.files}
    else:
        files |= {path: len(content) for path, content in program.files.items()}
    bundle = pack(listing, program.files)
    client.check(sent)
    if program.sizes or files:
        tell(sends or _what_goes(program.sizes, len(files), sum(files.values())))
    if program.hint:
        tell(program.hint)
    uploaded = upload(client, bundle)
    if uploaded.unchanged:
        tell(f"{in_words(uploaded.unchanged)} of this is already in the pool.")
    return with_git(sent.model_copy(update=uploaded.fields), folder)


def environment() -> dict[str, str]:
    """This process's Python environment: `python` in a command of the job is this interpreter."""
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
