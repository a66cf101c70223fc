"""Displays that are updated in place, for what no renderer in the front end keeps up to date.

What must hold: the kernel never waits for the scheduler, and a thread follows what is shown only until it has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from IPython.display import display

from jupyter_ext.changes import Changes
from jupyter_ext.frontend import get_shell, in_marimo, is_attended

Bundle = dict[str, Any]

RERUN = 2.0
"""Seconds after which a thread of marimo notices that its cell runs again."""


class Printed:
    """A display in a plain Python program: a line for each update."""

    def __init__(self, bundle: Bundle) -> None:
        self.update(bundle)

    def update(self, bundle: Bundle, **_: object) -> None:
        print(bundle["text/plain"], flush=True)

    display = update


class Page:
    """A display in marimo, which offers to choose between the parts of a bundle: HTML alone."""

    def __init__(self, bundle: Bundle) -> None:
        self._handle = display(_html(bundle), raw=True, display_id=True)

    def update(self, bundle: Bundle, **_: object) -> None:
        self._handle.update(_html(bundle), raw=True)


def _html(bundle: Bundle) -> Bundle:
    return {"text/html": bundle["text/html"]}


def show(bundle: Bundle) -> Any:
    """Display a mime bundle; returns the handle that updates it."""
    if get_shell() is None:
        return Page(bundle) if in_marimo() else Printed(bundle)
    return display(bundle, raw=True, display_id=True)


class InPlace:
    """The displays of one thing, in all cells that show it. `look` reads it and returns what the displays depend on,
    `draw` returns its mime bundle, and `unfinished` the jobs through which it may still change."""

    def __init__(
        self, look: Callable[[], object], draw: Callable[[], Bundle], unfinished: Callable[[], Iterable[str]]
    ) -> None:
        self._look, self._draw, self._unfinished = look, draw, unfinished
        self._shown: object = None
        self._handles: list[Any] = []
        self._thread: threading.Thread | None = None

    def add(self, handle: Any) -> None:
        """Update this display, too."""
        self._handles.append(handle)
        if self._thread is None or not self._thread.is_alive():
            self._shown = self._look()
            self._thread = threading.Thread(target=self._run, name="display of jobs", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        with Changes(self._unfinished) as changes:
            while any(self._unfinished()):
                changes.wait()
                if (now := self._look()) != self._shown:
                    self._shown, bundle = now, self._draw()
                    for handle in self._handles:
                        handle.update(bundle, raw=True)


class ShownInPlace:
    """Something whose display as a cell's last value is updated in place while it changes, if somebody is looking."""

    _in_place: InPlace | None = None

    def _ipython_display_(self) -> None:
        if self._settled():
            raise NotImplementedError  # IPython continues with its other display methods
        self.update_in_place(show(self._drawn()))

    def _display_(self) -> Any:
        """For marimo: HTML, and a thread of marimo that replaces the cell's output."""
        import marimo  # type: ignore[import-not-found,unused-ignore]

        self._looked()
        shown = marimo.Html(self._drawn()["text/html"])
        if not self._over() and in_marimo():
            marimo.Thread(target=self._follow_in_marimo, daemon=True).start()
        return shown

    def _follow_in_marimo(self) -> None:
        import marimo

        cell, shown = marimo.current_thread(), self._looked()
        with Changes(self._unfinished) as changes:
            while not (self._over() or cell.should_exit):
                if changes.wait(RERUN) and (now := self._looked()) != shown and not cell.should_exit:
                    shown = now
                    marimo.output.replace(marimo.Html(self._drawn()["text/html"]))

    def update_in_place(self, handle: Any) -> None:
        """Keep a display of it up to date from now on."""
        if self._in_place is None:
            self._in_place = InPlace(self._looked, self._drawn, self._unfinished)
        self._in_place.add(handle)

    def _settled(self) -> bool:
        """Whether its display needs no updates from here."""
        return self._over() or not is_attended(get_shell())

    def _over(self) -> bool:
        return not any(self._unfinished())

    def _unfinished(self) -> Iterable[str]:
        """The ids of the jobs through which it may still change."""
        raise NotImplementedError

    def _looked(self) -> object:
        raise NotImplementedError

    def _drawn(self) -> Bundle:
        raise NotImplementedError
