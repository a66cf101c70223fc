"""Output of the command line: aligned columns, durations and amounts in words, bars, and colour on a terminal only.

Colour is never the only sign: every state and mark is also a word or symbol. `NO_COLOR` turns it off. Text that comes
from users is stripped of control characters before it reaches a terminal.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TextIO

from scheduler.model import ONE, duration, gpu_count, number

STYLES = {"strong": "1", "quiet": "2", "good": "32", "bad": "31", "busy": "36", "note": "33"}

STATE_STYLES = {
    "queued": "note",
    "starting": "busy",
    "running": "busy",
    "stopping": "note",
    "paused": "quiet",
    "succeeded": "good",
    "failed": "bad",
    "cancelled": "quiet",
}


class Screen:
    """The output stream, and what it can show."""

    def __init__(self, out: TextIO | None = None) -> None:
        self.out = out if out is not None else sys.stdout
        self.terminal = self.out.isatty()
        self.colours = self.terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        self.width = shutil.get_terminal_size().columns if self.terminal else None

    def line(self, text: str = "") -> None:
        self.out.write(f"{text}\n")

    def style(self, text: str, name: str | None) -> str:
        return f"\x1b[{STYLES[name]}m{text}\x1b[0m" if self.colours and name and text else text

    def heading(self, text: str) -> None:
        self.line(self.style(text, "strong"))

    def table(
        self,
        heads: Sequence[str],
        rows: Iterable[Sequence[object]],
        *,
        right: Iterable[str] = (),
        styles: dict[str, dict[str, str]] | None = None,
        indent: int = 0,
    ) -> None:
        """Print columns as wide as their widest cell; the last is cut to the terminal, and empty columns are left out.

        `right` names the columns of numbers; `styles` maps a column's cell texts to styles.
        """
        cells = [[clean(cell) for cell in row] for row in rows]
        kept = [n for n in range(len(heads)) if any(row[n] for row in cells)]
        numbers = {heads.index(name) for name in right}
        widths = {n: max(width(heads[n]), *(width(row[n]) for row in cells)) for n in kept}
        for row, style in ((heads, "quiet"), *((row, None) for row in cells)):
            parts = []
            used = indent
            for n in kept:
                text = row[n]
                if n == kept[-1] and self.width is not None and used + width(text) > self.width:
                    text = cut(text, max(self.width - used, 8))
                gap = " " * (widths[n] - width(text))
                name = style or (styles or {}).get(heads[n], {}).get(row[n])
                shown = self.style(text, name)
                parts.append(gap + shown if n in numbers else shown + gap)
                used += widths[n] + 2
            self.line((" " * indent + "  ".join(parts)).rstrip())


def clean(value: object) -> str:
    """A value as one line without control characters (which could rewrite a terminal)."""
    text = "" if value is None else str(value)
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]+", " ", text).strip()


def width(text: str) -> int:
    """The width of a text on a terminal: two columns for wide characters, none for combining ones."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def cut(text: str, columns: int) -> str:
    if width(text) <= columns:
        return text
    while text and width(text) > columns - 1:
        text = text[:-1]
    return text.rstrip() + "…"


# -- amounts and times --------------------------------------------------------------------------------------


def amount(value: float | None, none: str = "–") -> str:
    """`1`, `0.25`, `1.5`; `none` where there is no number."""
    return none if value is None else number(value)


def gpus(value: float) -> str:
    return gpu_count(round(value * ONE))


def took(seconds: float | None) -> str:
    """A duration; empty where there is none."""
    return "" if seconds is None else duration(seconds)


def ago(at: float, now: float) -> str:
    seconds = now - at
    return "now" if seconds < 1 else f"{duration(seconds)} ago"


def clock(at: float, now: float) -> str:
    """`14:10`, with the date where that is not within 20 hours."""
    moment = datetime.fromtimestamp(at).astimezone()
    return f"{moment:%H:%M}" if at - now < 20 * 3600 else f"{moment:%Y-%m-%d %H:%M}"


def bar(part: float, over: float, whole: float, columns: int = 16) -> str:
    """A quota bar: `█` inside the guarantee, `▒` over quota, `·` free, of `whole` in total."""
    if whole <= 0:
        return "·" * columns
    solid = min(columns, round((part - over) / whole * columns))
    shaded = min(columns - solid, round(over / whole * columns))
    if part > 0 and solid + shaded == 0:
        solid, shaded = (1, 0) if part > over else (0, 1)
    return "█" * solid + "▒" * shaded + "·" * (columns - solid - shaded)
