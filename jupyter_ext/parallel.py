"""Parallel coordinates as an SVG picture: an axis for each name, a line for each row, the best on top."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

WIDTH, HEIGHT, TOP, SIDE = 640, 240, 34, 60

_INK = "var(--jp-ui-font-color1, #212121)"
_QUIET = "var(--jp-border-color1, #bdbdbd)"
_LINE = "var(--jp-brand-color1, #1976d2)"
_BEST = "var(--jp-success-color1, #388e3c)"


def picture(names: Sequence[str], rows: Sequence[Mapping[str, Any]], best: int | None) -> str:
    """`rows` with a value for some of `names` each; `best` is highlighted. Empty for fewer than two of either."""
    axes = [_Axis(name, [row[name] for row in rows if row.get(name) is not None]) for name in names]
    axes = [axis for axis in axes if axis.values]
    if len(axes) < 2 or len(rows) < 2:
        return ""
    places = [SIDE + at * (WIDTH - 2 * SIDE) / (len(axes) - 1) for at in range(len(axes))]
    order = sorted(range(len(rows)), key=lambda at: at == best)
    lines = "".join(_line(axes, places, rows[at], at == best) for at in order)
    scales = "".join(axis.drawn(x) for axis, x in zip(axes, places, strict=True))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" style="max-width: {WIDTH}px" '
        f'font-size="11" text-anchor="middle" role="img" aria-label="Parallel coordinates of '
        f'{html.escape(", ".join(names))}">'
        f"{lines}{scales}</svg>"
    )


def _line(axes: Sequence[_Axis], places: Sequence[float], row: Mapping[str, Any], best: bool) -> str:
    points = " ".join(
        f"{x:.1f},{axis.height(row[axis.name]):.1f}"
        for axis, x in zip(axes, places, strict=True)
        if row.get(axis.name) is not None
    )
    look = f'stroke="{_BEST}" stroke-width="3"' if best else f'stroke="{_LINE}" opacity="0.5"'
    return f'<polyline points="{points}" fill="none" {look}/>'


class _Axis:
    """Numbers on a linear scale (logarithmic where they span two or more orders of magnitude), other values in order of
    appearance."""

    def __init__(self, name: str, values: Sequence[Any]) -> None:
        self.name = name
        self.values = list(dict.fromkeys(values))
        numbers = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in self.values)
        self._logarithmic = numbers and bool(self.values) and 0 < 100 * min(self.values) <= max(self.values)
        self._numbers = numbers

    def height(self, value: Any) -> float:
        bottom = HEIGHT - TOP
        if not self._numbers:
            return bottom - (bottom - TOP) * (self.values.index(value) + 0.5) / len(self.values)
        low, high = self._scaled(min(self.values)), self._scaled(max(self.values))
        part = 0.5 if low == high else (self._scaled(value) - low) / (high - low)
        return bottom - (bottom - TOP) * part

    def _scaled(self, value: float) -> float:
        return math.log(value) if self._logarithmic else float(value)

    def drawn(self, x: float) -> str:
        ends = (min(self.values), max(self.values)) if self._numbers else self.values
        marks = "".join(
            f'<text x="{x:.1f}" y="{self.height(end) + (14 if at == 0 and self._numbers else -6):.1f}" fill="{_INK}">'
            f"{html.escape(shown(end))}</text>"
            for at, end in enumerate(dict.fromkeys(ends))
        )
        return (
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - TOP}" stroke="{_QUIET}"/>{marks}'
            f'<text x="{x:.1f}" y="12" fill="{_INK}" font-weight="bold">{html.escape(self.name)}</text>'
        )


def shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
