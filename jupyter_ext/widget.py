"""A job's card with ipywidgets, for front ends without our renderer: it is live, and its buttons work.

What must hold:
- The kernel never waits for the scheduler: one thread follows the job, and each press of a button has its own short
  thread.
- Following ends when the job has ended or the card is closed.
- A job's output is a user's text and is always escaped.
"""

from __future__ import annotations

import html
import re
import threading
from collections.abc import Sequence
from typing import Any, Protocol

import ipywidgets as widgets

from jupyter_ext import card, reports
from jupyter_ext.connection import connect, locate
from jupyter_ext.follow import Disconnected, Follower, Happening, Output, Written
from jupyter_ext.frontend import get_shell
from scheduler.errors import RunaiError
from scheduler.model import JobState
from scheduler.schema import JobView

PAUSE = 0.25
"""The least seconds between two changes of the card."""

TAIL, LINES = 20_000, 8
"""How many characters of output are kept, and how many lines are shown."""

_STYLED = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Shown(Protocol):
    """The job behind a card: `seen` is its latest known state. The buttons call its verbs."""

    seen: JobView

    @property
    def id(self) -> str: ...
    def pause(self) -> object: ...
    def resume(self) -> object: ...
    def cancel(self) -> object: ...
    def load(self) -> object: ...


class OtherRank:
    """The end of the output of a worker other than the first, in the job's latest attempt."""

    def __init__(self, job: Shown, rank: int) -> None:
        self._job, self._rank = job, rank
        self._attempt = self._offset = 0
        self._reading = threading.Lock()
        self.tail = ""

    def look(self) -> None:
        """Read what is new."""
        with self._reading:
            self._read()

    def _read(self) -> None:
        if self._attempt != len(self._job.seen.attempts):
            self._attempt, self._offset, self.tail = len(self._job.seen.attempts), 0, ""
        client = connect()
        while self._attempt and (piece := client.log(self._job.id, rank=self._rank, offset=self._offset)):
            self._offset += len(piece)
            self.tail = (self.tail + piece.decode("utf-8", errors="replace"))[-TAIL:]


class JobWidget(widgets.VBox):
    """The state with its reason, progress, metrics, the end of the output of one rank, and buttons."""

    def __init__(self, job: Shown) -> None:
        self._job = job
        self._drawing = threading.Lock()
        self._note = ""
        self._tail = ""
        self._reported = reports.Reported(job.id)
        self._follower: Follower | None = None
        self._head = widgets.HTML()
        self._bar = widgets.FloatProgress(min=0.0, layout=widgets.Layout(width="240px"))
        self._left = widgets.HTML()
        self._progress = widgets.HBox([self._bar, self._left])
        self._metrics = widgets.HTML()
        workers = [(f"Rank {rank}", rank) for rank in range(job.seen.workers)]
        self._rank = widgets.Dropdown(options=workers, tooltip="Whose output is shown", layout={"width": "120px"})
        self._rank.observe(lambda _: threading.Thread(target=self._choose, name="rank", daemon=True).start(), "value")
        _show(self._rank, len(workers) > 1)
        self._other: OtherRank | None = None
        self._log = widgets.HTML()
        self._buttons = {
            verb: self._button(verb, icon)
            for verb, icon in {
                "pause": "pause",
                "resume": "play",
                "cancel": "stop",
                "refresh": "refresh",
                "load": "download",
            }.items()
        }
        super().__init__(
            [self._head, self._progress, self._metrics, self._rank, self._log, widgets.HBox([*self._buttons.values()])],
            layout=widgets.Layout(border="1px solid #8886", padding="6px 10px", max_width="720px"),
        )
        self._draw()
        self._follow()

    def close(self) -> None:
        """Detach from the job, which keeps running, and remove the card."""
        if self._follower is not None:
            self._follower.detach()
        super().close()

    @property
    def line(self) -> list[reports.Point]:
        """The job's reports so far."""
        return self._reported.line

    @property
    def log(self) -> str:
        """The end of the output of its rank 0, as HTML."""
        return _log(self._tail)

    # -- following ------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        self._follower, self._tail = Follower(locate, self._job.seen), ""
        threading.Thread(target=self._run, args=(self._follower,), name=f"card {self._job.id}", daemon=True).start()

    def _run(self, follower: Follower) -> None:
        try:
            with follower:
                for batch in follower.gathered(PAUSE):
                    self._note = ""
                    for happening in batch:
                        self._take(happening)
                    self._draw()
        except RunaiError as error:
            self._note = error.sentence
        finally:
            if self._follower is follower:
                self._follower = None
                self._draw()

    def _take(self, happening: Happening) -> None:
        match happening:
            case Disconnected():
                self._note = happening.sentence
            case {"output_type": "clear_output"}:
                self._tail = ""
            case Written():
                self._read(printed=happening.printed, reported=happening.reported)
            case dict():
                self._tail = (self._tail + _text(happening))[-TAIL:]
            case _:
                self._job.seen = happening
                if happening.state.final:
                    self._read(printed=True, reported=True)

    def _read(self, *, printed: bool, reported: bool) -> None:
        """Read what is new."""
        if reported:
            self._reported.look(connect())
        if printed:
            self._look()

    def _look(self) -> None:
        """Read the output of the chosen rank, if it is not the one that is followed."""
        try:
            if self._other is not None:
                self._other.look()
        except RunaiError as error:
            self._note = error.sentence

    def _choose(self) -> None:
        rank = self._rank.value
        self._other = OtherRank(self._job, rank) if rank else None
        self._look()
        self._draw()

    # -- acting ---------------------------------------------------------------------------------------------

    def _button(self, verb: str, icon: str) -> Any:
        description = f"Load results ({', '.join(self._job.seen.outputs)})" if verb == "load" else verb.capitalize()
        button = widgets.Button(description=description, icon=icon, layout=widgets.Layout(width="auto"))
        button.on_click(lambda _: threading.Thread(target=self._act, args=(verb,), name=verb, daemon=True).start())
        return button

    def _act(self, verb: str) -> None:
        self._buttons[verb].disabled = True
        self._note = ""
        try:
            if verb == "refresh":
                self._job.seen = connect().job(self._job.id)
            else:
                getattr(self._job, verb)()
            if self._follower is None and not self._job.seen.state.final:
                self._follow()
        except RunaiError as error:
            self._note = error.sentence
        except Exception as error:  # reading variables may raise anything
            self._note = str(error)
        finally:
            self._buttons[verb].disabled = False
            self._draw()

    # -- drawing --------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        with self._drawing:
            job = self._job.seen
            note = f'<div role="status"><em>{html.escape(self._note)}</em></div>' if self._note else ""
            self._head.value = card.head(job) + note
            line = self.line
            self._draw_progress(reports.progress(line))
            self._metrics.value = card.metrics(line)
            other = self._other
            self._log.value = self.log if other is None else _log(other.tail)
            may = {
                "pause": not job.state.final and job.state is not JobState.PAUSED,
                "resume": job.state is JobState.PAUSED,
                "cancel": not job.state.final,
                "refresh": not job.state.final,
                "load": job.mine and job.state is JobState.SUCCEEDED and not _are_here(job.outputs),
            }
            for verb, button in self._buttons.items():
                _show(button, may[verb])

    def _draw_progress(self, told: reports.Progress | None) -> None:
        shown = told is not None and told.total is not None
        _show(self._progress, shown)
        if told is None or told.total is None:
            return
        self._bar.max, self._bar.value = max(told.total, 1.0), told.done
        self._left.value = card.steps(told, self._job.seen)


def _are_here(names: Sequence[str]) -> bool:
    """Whether the notebook has these variables, which a new kernel has not."""
    return all(name in get_shell().user_ns for name in names)


def _show(widget: Any, shown: bool) -> None:
    display = None if shown else "none"
    if widget.layout.display != display:
        widget.layout.display = display


def _text(output: Output) -> str:
    """An output as a few lines of text."""
    if output["output_type"] == "stream":
        return str(output["text"])
    return f"{output.get('data', {}).get('text/plain', '')}\n"


def _log(tail: str) -> str:
    """The last lines; of an overwritten line, such as a progress bar, its last text."""
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in _STYLED.sub("", tail).strip("\n").split("\n") if line]
    if not lines:
        return ""
    shown = html.escape("\n".join(lines[-LINES:]))
    return (
        f'<pre style="margin: 4px 0; line-height: 1.35; white-space: pre-wrap; overflow-wrap: anywhere">{shown}</pre>'
    )
