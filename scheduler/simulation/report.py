"""One page that shows policies side by side: figures as a table, use of the pool over time, waiting by project and size.

The page stands alone (pictures inside it as SVG, no script, no address). Drawing needs matplotlib (extra `report`).
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Environment as Templates
from jinja2 import PackageLoader

from scheduler.errors import Invalid
from scheduler.model import ONE
from scheduler.simulation.baselines import Run
from scheduler.simulation.metrics import spread
from scheduler.simulation.study import Result
from scheduler.simulation.trace import Trace

HOUR = 3600.0
DAY = 86400.0
BINS = 336
COLOURS = ("#1976d2", "#616161", "#ef6c00", "#7b1fa2", "#2e7d32", "#c62828", "#00838f", "#9e9d24")


def held_over_time(runs: Sequence[Run], gpus: int, start: float, end: float, bins: int) -> list[float]:
    """The share of `gpus` held in each of `bins` equal parts of the window."""
    width = (end - start) / bins
    held = [0.0] * bins
    for span in itertools.chain.from_iterable(run.spans for run in runs):
        first, last = max(span.start, start), min(span.end, end)
        if first >= last:
            continue
        for part in range(int((first - start) / width), min(bins, int((last - start) / width) + 1)):
            left = start + part * width
            held[part] += max(0.0, min(last, left + width) - max(first, left)) * span.gpus / ONE
    return [seconds / (gpus * width) for seconds in held]


def render(
    results: Sequence[Result], trace: Trace, *, start: float, end: float, facts: Mapping[str, str]
) -> str:
    """The page as HTML. `facts` are shown at the top: the command, the trace's hash, what was assumed."""
    templates = Templates(loader=PackageLoader("scheduler.simulation"), autoescape=True, trim_blocks=True)
    return templates.get_template("report.html").render(
        results=results,
        facts=facts,
        offered=[_offered(trace, result.gpus, start, end) for result in results],
        projects=trace.projects,
        use=_use(results, start, end),
        waits=_waits(results),
        completion=_completion(results),
        hour=HOUR,
    )


def _offered(trace: Trace, gpus: int, start: float, end: float) -> float:
    """GPU-seconds submitted in the window, as a share of what the pool has in it."""
    window = trace.window(start, end)
    return window.gpu_seconds / (gpus * (end - start))


def _use(results: Sequence[Result], start: float, end: float) -> str:
    figure, axes = _figure()
    days = [(end - start) / DAY * (part + 0.5) / BINS for part in range(BINS)]
    for result, colour in zip(results, itertools.cycle(COLOURS)):
        held = held_over_time(result.runs, result.gpus, start, end, BINS)
        axes.plot(days, [100 * share for share in held], color=colour, linewidth=1, label=result.name)
    axes.set(xlabel="days", ylabel="GPUs held, % of the pool", ylim=(0, 102), xlim=(0, days[-1]))
    return _svg(figure, axes)


def _waits(results: Sequence[Result]) -> str:
    sizes = (("1 GPU", 0, 1), ("2–8 GPUs", 1, 8), ("more than 8", 8, float("inf")))
    figure, axes = _figure()
    width = 0.8 / len(results)
    for index, (result, colour) in enumerate(zip(results, itertools.cycle(COLOURS))):
        heights = [
            spread(waits).mean / HOUR
            if (waits := [r.wait for r in result.runs if low < r.job.gpus / ONE <= high])
            else 0.0
            for _, low, high in sizes
        ]
        places = [group + (index - (len(results) - 1) / 2) * width for group in range(len(sizes))]
        axes.bar(places, heights, width, color=colour, label=result.name)
    axes.set(ylabel="mean wait, hours", xticks=range(len(sizes)), xticklabels=[name for name, _, _ in sizes])
    return _svg(figure, axes)


def _completion(results: Sequence[Result]) -> str:
    figure, axes = _figure()
    for result, colour in zip(results, itertools.cycle(COLOURS)):
        ordered = sorted(run.completion / HOUR for run in result.runs)
        step = max(1, len(ordered) // 400)
        picked = [*ordered[::step], ordered[-1]]
        shares = [100 * (i + 1) / len(ordered) for i in range(0, len(ordered), step)] + [100.0]
        axes.plot(picked, shares, color=colour, linewidth=1.2, label=result.name)
    axes.set(xscale="log", xlabel="completion time, hours", ylabel="% of jobs done within it", ylim=(0, 101))
    return _svg(figure, axes)


def _figure() -> tuple[Any, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise Invalid(
            "A report needs matplotlib: pip install 'jupyter-runai[report]', or leave --report out.",
            field="report",
        ) from None
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    return figure, figure.subplots()


def _svg(figure: Any, axes: Any) -> str:
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()[out.getvalue().index("<svg") :]
