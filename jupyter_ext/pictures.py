"""Widgets of a job as HTML: progress bars, labels and boxes of them, updated in place as they change.

A widget needs a kernel and a front end, and a job has neither; but its appearance can be displayed. From the messages
of the widgets' comms this module tracks their states as a front end does.

What must hold: the last picture shows the last state; a bar that changes all day does not fill the disk.
"""

from __future__ import annotations

import html
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from comm.base_comm import BaseComm

Output = dict[str, Any]
State = Mapping[str, Any]

WIDGETS = "application/vnd.jupyter.widget-view+json"

_MODEL = "IPY_MODEL_"
_COLOURS = {
    "success": "var(--jp-success-color1, #388e3c)",
    "danger": "var(--jp-error-color1, #d32f2f)",
    "warning": "var(--jp-warn-color1, #f57c00)",
}


@dataclass(slots=True)
class _Shown:
    """The latest picture of a widget, and the one that was last written to the log."""

    drawn: str
    logged: str


class Pictures:
    """The widgets of a worker. `show` displays an output, with its text for the log."""

    def __init__(self, show: Callable[[Output, str], None]) -> None:
        self._show = show
        self._states: dict[str, dict[str, Any]] = {}
        self._shown: dict[str, _Shown] = {}
        self._begun = time.monotonic()
        self._late: threading.Timer | None = None
        self._turn = threading.RLock()

    def picture(self, data: Mapping[str, Any]) -> Output | None:
        """The display of the widget in a mime bundle; `None` where there is none, or it cannot be drawn."""
        model = (data.get(WIDGETS) or {}).get("model_id")
        with self._turn:
            if model not in self._states or not (drawn := _drawn(self._states, model)):
                return None
            self._shown[model] = _Shown(drawn, drawn)
            return _output("display_data", model, drawn)

    def told(self, kind: str, comm: str, data: Mapping[str, Any]) -> None:
        """A message of a widget's comm: `comm_open`, `comm_msg` or `comm_close`."""
        with self._turn:
            if kind == "comm_close":
                self._states.pop(comm, None)
            elif "state" in data and (kind == "comm_open" or comm in self._states):
                self._states.setdefault(comm, {}).update(data["state"])
            else:
                return
            if self._shown and self._late is None:
                self._late = threading.Timer(self._pause(), self._again)
                self._late.daemon = True
                self._late.start()

    def close(self) -> None:
        """Draw what has changed, also for the log: nothing more will change for now."""
        with self._turn:
            if self._late is not None:
                self._late.cancel()
            self._again(last=True)

    def _pause(self) -> float:
        """Seconds until the next picture: short at first, longer the more there were."""
        return min(10.0, 0.5 + (time.monotonic() - self._begun) / 60)

    def _again(self, last: bool = False) -> None:
        with self._turn:
            self._late = None
            for model, shown in [*self._shown.items()]:
                drawn = _drawn(self._states, model)
                if drawn != (shown.logged if last else shown.drawn):
                    self._show(_output("update_display_data", model, drawn), _text(drawn) if last else "")
                    self._shown[model] = _Shown(drawn, drawn if last else shown.logged)
                if model not in self._states:
                    del self._shown[model]


class Comm(BaseComm):
    """A comm of a shell without a kernel: it only records messages."""

    told: Callable[[str, str, Mapping[str, Any]], None]

    def publish_msg(self, msg_type: str, data: Any = None, *args: Any, **more: Any) -> None:
        self.told(msg_type, self.comm_id, data or {})


def listen(pictures: Pictures) -> None:
    """Record the messages of this process's widgets from now on."""
    import comm

    comm.create_comm = type("_Comm", (Comm,), {"told": staticmethod(pictures.told)})


def _output(kind: str, model: str, drawn: str) -> Output:
    return {
        "output_type": kind,
        "data": {"text/html": drawn},
        "metadata": {},
        "transient": {"display_id": f"widget-{model}"},
    }


def _text(drawn: str) -> str:
    """The text of a picture in the log; empty for a removed one."""
    words = html.unescape(re.sub(r"<[^>]*>", " ", drawn)).split()
    return f"{' '.join(words)}\n" if words else ""


# -- drawing ------------------------------------------------------------------------------------------------


def _drawn(states: Mapping[str, State], model: str) -> str:
    """A widget as HTML; empty where no part of it can be drawn."""
    state = states.get(model.removeprefix(_MODEL), {})
    about, value = str(state.get("description") or ""), str(state.get("value") or "")
    match state.get("_model_name"):
        case "HBoxModel" | "VBoxModel" | "BoxModel" as kind:
            parts = "".join(_children(states, state))
            way = "column" if kind == "VBoxModel" else "row; align-items: center"
            return f'<div style="display: flex; gap: 0 8px; flex-direction: {way}">{parts}</div>' if parts else ""
        case "HTMLModel" | "HTMLMathModel":
            return f"<span>{about} {value}</span>"
        case "LabelModel":
            return f"<span>{html.escape(f'{about} {value}')}</span>"
        case "IntProgressModel" | "FloatProgressModel":
            row = "display: flex; flex: 1; gap: 8px; align-items: center; align-self: stretch"
            return f'<div style="{row}"><span>{html.escape(about)}</span>{_bar(state)}</div>'
    return ""


def _children(states: Mapping[str, State], state: State) -> Iterator[str]:
    for child in state.get("children", ()):
        yield _drawn(states, child)


def _bar(state: State) -> str:
    least, most, value = (float(state.get(name) or 0) for name in ("min", "max", "value"))
    colour = _COLOURS.get(str(state.get("bar_style")), "var(--jp-brand-color1, #1976d2)")
    part = (value - least) / (most - least) if most > least else 0.0
    return f'<progress value="{part:.4f}" max="1" style="flex: 1; max-width: 320px; accent-color: {colour}"></progress>'
