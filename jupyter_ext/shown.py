"""Shows a job under its cell: a live card, and its output below as it comes, as if it ran here."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Sequence
from typing import Any

from IPython.display import clear_output

from jupyter_ext import card, reports
from jupyter_ext.connection import connect
from jupyter_ext.follow import Disconnected, Happening, Output, Quiet, Written
from jupyter_ext.frontend import get_shell, has_renderer
from jupyter_ext.inplace import ShownInPlace, show
from jupyter_ext.outputrate import OutputRate
from jupyter_ext.reports import Reported
from scheduler.errors import RunaiError
from scheduler.schema import JobView


class ShownOnce(ShownInPlace):
    """A job that a cell has shown live is not shown again as that cell's last value."""

    _shown_in: int | None = None

    def shows_itself(self) -> None:
        """The running cell shows it from now on."""
        self._shown_in = getattr(get_shell(), "execution_count", None)

    def _ipython_display_(self) -> None:
        shell = get_shell()
        if self._shown_in is None or shell is None or self._shown_in != shell.execution_count:
            super()._ipython_display_()
        self._shown_in = None


class Shown:
    """Pass events to it, and close it; call `detach` first to end the output before the job ends."""

    def __init__(self, job: JobView) -> None:
        self.job = job
        self._rate = OutputRate(time.monotonic())
        self._said = card.state(job)
        self._follows = not job.state.final
        self._reported = None if has_renderer(get_shell()) else Reported(job.id)
        bundle = card.bundle(job, follows=self._follows)
        self._handle: Any = show(bundle)

    def take(self, happening: Happening | Quiet) -> None:
        match happening:
            case {"output_type": "stream", "text": str(text)}:
                self._write(self._rate.take(text.encode(), time.monotonic()))
            case dict():
                self._write(self._rate.end())
                self._display(happening)
            case Disconnected():
                print(happening.sentence, file=sys.stderr)
            case Quiet():
                self._write(self._rate.take(b"", time.monotonic()))  # what the rate limit has held back
            case Written():
                if happening.reported and self._look():
                    self._update()
            case _ if not self.job.state.final:
                self.job = happening
                self._follows = not happening.state.final
                said, more = card.state(happening), happening.state.final and self._look()
                if more or said != self._said:
                    self._said = said
                    self._update()

    def _look(self) -> bool:
        """Whether there are new reports, for a front end that does not read them."""
        with contextlib.suppress(RunaiError):
            return self._reported is not None and self._reported.look(connect())
        return False

    def detach(self, bundle: Output) -> Any:
        """Show no more output below the card, in any front end; `bundle` is the card from now on. Returns its
        display."""
        self._follows = False
        self._handle.update(bundle, raw=True)
        return self._handle

    @property
    def line(self) -> Sequence[reports.Point]:
        """The job's reports, where the front end does not read them itself."""
        return self._reported.line if self._reported is not None else ()

    def close(self) -> None:
        self._write(self._rate.end())

    def _write(self, text: str) -> None:
        if text:
            sys.stdout.write(text)
            sys.stdout.flush()

    def _display(self, output: Output) -> None:
        if get_shell() is None:  # a plain Python program, or marimo
            self._write(str(output.get("data", {}).get("text/plain", "")) + "\n")
            return
        publisher = get_shell().display_pub
        match output["output_type"]:
            case "clear_output" if hasattr(get_shell(), "kernel"):
                # The card is an output of the cell, too: it stays.
                clear_output(wait=True)
                self._handle.display(self._bundle(), raw=True)
            case "display_data" | "execute_result" | "update_display_data" as kind:
                transient = dict(output.get("transient") or {})
                if "display_id" in transient:
                    # Another job, or the notebook itself, may use the same id.
                    transient["display_id"] = f"{self.job.id}-{transient['display_id']}"
                publisher.publish(
                    data=output["data"],
                    metadata=output.get("metadata") or {},
                    transient=transient,
                    update=kind == "update_display_data",
                )

    def _update(self) -> None:
        self._handle.update(self._bundle(), raw=True)

    def _bundle(self) -> dict[str, Any]:
        return card.bundle(self.job, follows=self._follows, line=self.line)
