"""How the time of one full cycle grows with nodes and with jobs: the plot `docs/images/growth.svg`.

The cases are those of `policy.py`, each over a range of sizes. Both axes are logarithmic, where n log n is nearly a
straight line, drawn through the first point of each case. The figure is the ratio of the growth to n log n.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.policy import GROWTH, measure

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "growth.svg"
COLOURS = ("#1967c8", "#c2610c", "#5f7d3a", "#8250b0")
TEXT, MUTED, LINE = "#1f2328", "#6a7078", "#e3e4e1"


def main() -> None:
    curves: dict[str, list[tuple[int, float]]] = {}
    for name, (make, sizes) in GROWTH.items():
        curves[name] = []
        for size in sizes:
            seconds, _ = measure(make(size))
            curves[name].append((size, seconds))
            told(f"growth: {name} {size:,}", seconds, "s")
        told(f"growth: {name}, against n log n", steepness(curves[name]), "×")
    draw(curves)


def told(figure: str, value: float, unit: str) -> None:
    print(json.dumps({"figure": figure, "value": round(value, 6), "unit": unit}), flush=True)


def steepness(points: list[tuple[int, float]]) -> float:
    """The time at the largest size, divided by the time at the smallest scaled by n log n."""
    (least, first), (most, last) = points[0], points[-1]
    return last / (first * most * math.log(most) / (least * math.log(least)))


def draw(curves: dict[str, list[tuple[int, float]]]) -> None:
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": "growth", "svg.fonttype": "none", "font.family": "sans-serif"}):
        figure = Figure(figsize=(9, 3.6), layout="constrained", facecolor="#fdfdfc")
        for axes, by in zip(figure.subplots(1, 2, sharey=True), ("nodes", "jobs"), strict=True):
            chosen = {name.split(",")[0]: c for name, c in curves.items() if name.endswith(by)}
            for (name, points), colour in zip(chosen.items(), COLOURS[-len(chosen) :], strict=True):
                sizes, seconds = zip(*points, strict=True)
                axes.plot(sizes, seconds, "o-", ms=4, color=colour, label=name)
                bound = [seconds[0] * n * math.log(n) / (sizes[0] * math.log(sizes[0])) for n in sizes]
                axes.plot(sizes, bound, linestyle=(0, (2, 2)), linewidth=1, color=colour)
            axes.plot([], [], linestyle=(0, (2, 2)), linewidth=1, color=MUTED, label="n log n")
            axes.set(xscale="log", yscale="log", facecolor="#fdfdfc")
            axes.set_xlabel(by, color=MUTED)
            ticks = sorted({n for points in chosen.values() for n, _ in points})[::2]
            axes.set_xticks(ticks, [f"{n:,}" for n in ticks])
            axes.minorticks_off()
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.grid(color=LINE, linewidth=0.8)
            axes.set_axisbelow(True)
            axes.spines[:].set_visible(False)
            axes.tick_params(colors=MUTED, length=0)
            axes.legend(frameon=False, labelcolor=TEXT, fontsize=9)
        figure.axes[0].set_ylabel("seconds of one full cycle", color=MUTED)
        PICTURE.parent.mkdir(exist_ok=True)
        figure.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
