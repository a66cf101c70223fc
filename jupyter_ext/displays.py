"""The displays of a job besides its printed output: plots, tables and HTML, as Jupyter's output messages in a file.

`displays.<attempt>.jsonl` in the output folder has a line for each: `output` as in nbformat (and `update_display_data`
and `clear_output`), its text in the log (`plain`), and the byte offset in the log from which that text is found (`at`).
The log alone reads as in a terminal; with this file it reads as in a notebook.

What must hold: a line is written before its text, so that a reader of the log and then of this file misses none; the
file is append-only and limited in size.
"""

from __future__ import annotations

import io
import json
import os
import stat
import sys
from base64 import b64encode
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher

from jupyter_ext.pictures import WIDGETS, Pictures
from jupyter_ext.serialization import FOLDER

MOST = 10 * 2**20
"""The most bytes of one display; a larger one is shown as text."""

LIMIT = 64 * 2**20
"""The most bytes of all displays of one attempt."""

TEXT = 64 * 1024
"""The most characters of the text of a display."""

Output = dict[str, Any]


class Displays:
    """The file, while the worker runs. With `folder=None` only the text is printed."""

    def __init__(self, folder: Path | None, attempt: str = "1", *, limit: int = LIMIT) -> None:
        self.pictures = Pictures(self.show)
        self._file = -1
        self._left = limit
        if folder is not None:
            (folder / FOLDER).mkdir(parents=True, exist_ok=True)
            path = folder / FOLDER / f"displays.{attempt}.jsonl"
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    @classmethod
    def of_this_worker(cls) -> Displays:
        """The displays of this worker: only those of the first worker are recorded."""
        first = os.environ.get("RUNAI_RANK", "0") == "0" and "RUNAI_OUTPUT_DIR" in os.environ
        folder = Path(os.environ["RUNAI_OUTPUT_DIR"]) if first else None
        return cls(folder, os.environ.get("RUNAI_ATTEMPT", "1"))

    def show_data(
        self,
        data: Mapping[str, Any],
        metadata: Mapping[str, Any] | None,
        transient: Mapping[str, Any] | None = None,
        *,
        update: bool = False,
        plain: str | None = None,
    ) -> bool:
        """Display a mime bundle; a widget as a picture. False where its text is enough."""
        output = self.pictures.picture(data) or display_data(data, metadata, transient, update=update)
        if output is None:
            return False
        self.show(output, plain or text_of(data))
        return True

    def show(self, output: Output, plain: str) -> None:
        """Display `output`, and print its text."""
        if len(plain) > TEXT:
            plain = f"{plain[:TEXT]} …\n"
        # A display goes to the worker's output, even if the cell has redirected `sys.stdout`.
        out = sys.__stdout__ or sys.stdout
        for stream in (sys.stdout, sys.stderr, out):
            stream.flush()
        if self._file >= 0:
            self._write(output, plain)
        out.write(plain)
        out.flush()

    def _write(self, output: Output, plain: str) -> None:
        data = _json({"at": _end_of_log(), "plain": plain, "output": output}).encode() + b"\n"
        if len(data) <= min(MOST, self._left):
            self._left -= len(data)
            os.write(self._file, data)
        elif self._left:
            size = f"{len(data) / 2**20:.1f} MiB"
            print(f"[A display of {size} is too large to keep; its text follows.]", file=sys.stderr, flush=True)


def _json(line: Output) -> str:
    try:
        return json.dumps(line, allow_nan=False, default=str)
    except ValueError:  # a chart with NaN in its data
        return json.dumps(json.loads(json.dumps(line, default=str), parse_constant=lambda _: None))


def _end_of_log() -> int | None:
    """How long the log is now; `None` where standard output is no file."""
    about = os.fstat(1)
    return about.st_size if stat.S_ISREG(about.st_mode) else None


def display_data(
    data: Mapping[str, Any],
    metadata: Mapping[str, Any] | None,
    transient: Mapping[str, Any] | None = None,
    *,
    update: bool = False,
) -> Output | None:
    """The output message of a display; `None` where its text is enough."""
    shown = {
        mime: b64encode(value).decode() if isinstance(value, bytes) else value
        for mime, value in data.items()
        if mime != WIDGETS
    }
    if not (transient or shown.keys() - {"text/plain"}):
        return None
    output: Output = {
        "output_type": "update_display_data" if update else "display_data",
        "data": shown,
        "metadata": dict(metadata or {}),
    }
    if transient:
        output["transient"] = dict(transient)
    return output


def text_of(data: Mapping[str, Any]) -> str:
    """The text of a display in the log."""
    plain = data.get("text/plain")
    return f"{plain}\n" if isinstance(plain, str) else f"<{next(iter(data), 'nothing')}>\n"


class Publisher(DisplayPublisher):
    """`display(…)` in a job. The shell has its `displays`."""

    def publish(  # type: ignore[no-untyped-def]
        self, data, metadata=None, source=None, *, transient=None, update=False, **rest
    ) -> None:
        if not self.shell.displays.show_data(data, metadata, transient, update=update):
            print(text_of(data), end="")

    def clear_output(self, wait: bool = False) -> None:
        output = {"output_type": "clear_output", "wait": wait}
        self.shell.displays.show(output, "\033[2K\r")


class LastValue(DisplayHook):
    """Shows the last expression as a notebook does, without `Out[…]`."""

    def write_output_prompt(self) -> None:
        """The prompt belongs to the notebook."""

    def write_format_data(self, format_dict: dict[str, Any], md_dict: dict[str, Any] | None = None) -> None:
        printed = io.StringIO()
        with redirect_stdout(printed):
            super().write_format_data(format_dict, md_dict)
        shell: Any = self.shell
        if not shell.displays.show_data(format_dict, md_dict, plain=printed.getvalue()):
            sys.stdout.write(printed.getvalue())
