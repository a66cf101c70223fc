"""The pictures of a report, as SVG that takes its colours from the page, so that it is readable in light and in dark.

matplotlib draws with stand-in colours; they are replaced by the page's variables: `--text`, `--muted`, `--line` and the
series `--c0` … `--c7`. Drawing needs matplotlib (extra `report`).
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from scheduler.errors import Invalid
from scheduler.model import ONE
from scheduler.simulation.baselines import Run, Span
from scheduler.simulation.metrics import SIZES
from scheduler.simulation.study import OURS, POOLED, SERVED, STATIC, Result

HOUR, DAY = 3600.0, 86400.0
BINS = 336
MOST_PROJECTS = 7
STAND_INS = {
    "#010101": "var(--text)",
    "#020202": "var(--muted)",
    "#030303": "var(--line)",
    **{f"#0404{n:02x}": f"var(--c{n})" for n in range(8)},
}
TEXT, MUTED, LINE, *SERIES = STAND_INS
COLOURS = {OURS: SERIES[0], STATIC: SERIES[1], POOLED: SERIES[2], SERVED: SERIES[3]}


def colours(names: Iterable[str]) -> dict[str, str]:
    """A colour for each policy: those that matter most always have the same."""
    others = itertools.cycle(SERIES[4:])
    return {name: COLOURS.get(name) or next(others) for name in names}


def over_time(runs: Iterable[Run], start: float, end: float, bins: int, *, productive: bool = False) -> list[float]:
    """GPUs held (or busy) in each of `bins` equal parts of the window, on average."""
    width = (end - start) / bins
    held = [0.0] * bins
    for run in runs:
        part = run.productive if productive else 1.0
        for span in run.spans:
            first, last = max(span.start, start), min(span.end, end)
            if first >= last:
                continue
            for at in range(int((first - start) / width), min(bins, int((last - start) / width) + 1)):
                left = start + at * width
                held[at] += max(0.0, min(last, left + width) - max(first, left)) * span.gpus * part / ONE
    return [seconds / width for seconds in held]


def nobody_waits(runs: Iterable[Run]) -> list[Run]:
    """The same jobs as if each had started when it was submitted: the demand."""
    return [Run(r.job, (Span(r.job.submitted, r.job.submitted + r.job.duration, r.job.gpus),)) for r in runs]


def use(results: Sequence[Result], start: float, end: float) -> str:
    """What is held of the shared pool, against what was asked for and what static partitions hold."""
    figure, axes = _figure(3.4)
    days = [(end - start) / DAY * (part + 0.5) / BINS for part in range(BINS)]
    demand = over_time(nobody_waits(results[0].runs), start, end, BINS)
    axes.plot(days, demand, color=MUTED, linewidth=1, linestyle=(0, (1, 1.5)), label="asked for")
    shown = [result for result in results if result.policy in (OURS, STATIC)] or results[:1]
    colour = colours(result.policy for result in results)
    for result in shown:
        held = over_time(result.runs, start, end, BINS)
        busy = over_time(result.runs, start, end, BINS, productive=True)
        tone = colour[result.policy]
        if result.policy != STATIC:
            axes.fill_between(days, busy, color=tone, alpha=0.16, linewidth=0)
        axes.plot(days, held, color=tone, linewidth=1.4, label=f"held, {result.name}")
        axes.axhline(result.gpus, color=tone, linewidth=1, linestyle=(0, (5, 3)))
        axes.annotate(
            f"{result.gpus:,} GPUs", (days[0], result.gpus), xytext=(4, 4), textcoords="offset points",
            color=tone, ha="left", fontsize=9,
        )  # fmt: skip
    most = max([result.gpus for result in shown]) * 1.12
    axes.set(xlabel="days", ylabel="GPUs", ylim=(0, most), xlim=(0, (end - start) / DAY))
    return _svg(figure, axes, "GPUs held over time, against those asked for")


def by_project(result: Result, start: float, end: float) -> str:
    """Who holds the pool."""
    figure, axes = _figure(3.2)
    days = [(end - start) / DAY * (part + 0.5) / BINS for part in range(BINS)]
    groups = sorted(result.figures.by_project, key=lambda p: -result.figures.by_project[p].gpu_hours)
    named = groups[: MOST_PROJECTS if len(groups) > MOST_PROJECTS + 1 else len(groups)]
    layers = [over_time([r for r in result.runs if r.job.project == p], start, end, BINS) for p in named]
    rest = [run for run in result.runs if run.job.project not in named]
    if rest:
        layers.append(over_time(rest, start, end, BINS))
    tones = [*SERIES[: len(named)], MUTED][: len(layers)]
    axes.stackplot(days, layers, colors=tones, labels=[*named, "others"][: len(layers)], alpha=0.75, linewidth=0)
    axes.axhline(result.gpus, color=MUTED, linewidth=1, linestyle=(0, (5, 3)))
    axes.set(xlabel="days", ylabel="GPUs held", ylim=(0, result.gpus * 1.05), xlim=(0, (end - start) / DAY))
    return _svg(figure, axes, "GPUs held by each project over time", beside=True)


def completion(results: Sequence[Result]) -> str:
    figure, axes = _figure(3.2)
    for name, tone in colours(result.policy for result in results).items():
        result = next(result for result in results if result.policy == name)
        ordered = sorted(run.completion / HOUR for run in result.runs)
        step = max(1, len(ordered) // 400)
        at = [*range(0, len(ordered), step), len(ordered) - 1]
        axes.plot(
            [max(1e-3, ordered[i]) for i in at], [100 * (i + 1) / len(ordered) for i in at],
            color=tone, linewidth=1.8 if name == OURS else 1.1, label=result.name,
        )  # fmt: skip
    axes.set(xscale="log", xlabel="completion time, hours", ylabel="% of jobs done within it", ylim=(0, 101))
    axes.xaxis.set_major_formatter(lambda hours, _: f"{hours:g}")
    return _svg(figure, axes, "Completion times")


def waits(results: Sequence[Result]) -> str:
    figure, axes = _figure(3.2)
    names = [name for name, _ in SIZES]
    width = 0.82 / len(results)
    tones = colours(result.policy for result in results)
    for index, result in enumerate(results):
        heights = [
            group.wait.mean / HOUR if (group := result.figures.by_size.get(name)) is not None else 0.0 for name in names
        ]
        places = [at + (index - (len(results) - 1) / 2) * width for at in range(len(names))]
        axes.bar(places, heights, width * 0.88, color=tones[result.policy], label=result.name)
    axes.set(ylabel="mean wait, hours", xticks=range(len(names)), xticklabels=names)
    return _svg(figure, axes, "Mean wait by size of the job")


def fairness(results: Sequence[Result]) -> str:
    """Each team's mean completion time as a part of what it is in its own partition."""
    compared = [(r, r.against_static) for r in results if r.against_static is not None]
    teams = list(compared[0][1].teams)
    figure, axes = _figure(0.9 + 0.27 * len(teams))
    tones = colours(result.policy for result, _ in compared)
    axes.axvline(1, color=MUTED, linewidth=1, linestyle=(0, (5, 3)))
    for result, comparison in reversed(compared):
        mine = result.policy == OURS
        axes.scatter(
            [comparison.teams[team] for team in teams], range(len(teams)), s=58 if mine else 26,
            color=tones[result.policy], label=result.name, zorder=3 if mine else 2, linewidth=0,
        )  # fmt: skip
    axes.set(yticks=range(len(teams)), yticklabels=teams, xscale="log")
    axes.invert_yaxis()
    axes.set_xlabel("mean completion time, times that in its own partition (left of 1 is better off)")
    ticks = _ticks([ratio for _, c in compared for ratio in c.teams.values()])
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.grid(axis="x", color=LINE, linewidth=0.8)
    return _svg(figure, axes, "Each team against its own static partition", beside=True, grid=False)


def _ticks(values: Sequence[float]) -> list[float]:
    marks = (0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0)
    within = [m for m in marks if min(*values, 1.0) * 0.97 <= m <= max(*values, 1.0) * 1.03]
    return (
        within
        if len(within) <= 8
        else [m for m in within if m in (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 5.0, 10.0, 50.0)]
    )


def sweep(results: Sequence[Result]) -> str:
    """How much is held, and how long jobs take, on pools of other sizes."""
    figure, (left, right) = _figure(3.0, columns=2)
    policies = {result.policy: None for result in results}
    for policy in policies:
        some = sorted((r for r in results if r.policy == policy), key=lambda r: r.gpus)
        gpus, tone = [r.gpus for r in some], COLOURS[policy]
        left.plot(gpus, [100 * r.figures.held for r in some], "o-", ms=4, color=tone, label=policy)
        right.plot(gpus, [r.figures.completion.mean / HOUR for r in some], "o-", ms=4, color=tone, label=policy)
    some = sorted({r.gpus: r for r in results}.values(), key=lambda r: r.gpus)
    left.plot(
        [r.gpus for r in some], [100 * r.figures.offered for r in some],
        color=MUTED, linewidth=1, linestyle=(0, (1, 1.5)), label="offered",
    )  # fmt: skip
    left.set(xlabel="GPUs", ylabel="% of the pool held")
    right.set(xlabel="GPUs", ylabel="mean completion, hours")
    _style(right)
    return _svg(figure, left, "Use and completion times on pools of other sizes")


def _figure(height: float, columns: int = 1) -> tuple[Any, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise Invalid(
            "A report needs matplotlib: pip install 'jupyter-runai[report]', or leave --report out.",
            field="report",
        ) from None
    figure = Figure(figsize=(9, height), layout="constrained")
    figure.patch.set_alpha(0)
    return figure, figure.subplots(1, columns)


def _style(axes: Any, *, beside: bool = False, grid: bool = True) -> None:
    axes.patch.set_alpha(0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(LINE)
    axes.tick_params(colors=MUTED, labelsize=9.5, length=0, which="both")
    axes.xaxis.label.set(color=MUTED, size=9.5)
    axes.yaxis.label.set(color=MUTED, size=9.5)
    axes.set_axisbelow(True)
    if grid:
        axes.grid(axis="y", color=LINE, linewidth=0.8)
    where: Mapping[str, Any] = (
        {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
        if beside
        else {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": 4}
    )
    axes.legend(frameon=False, fontsize=9.5, labelcolor=TEXT, handlelength=1.4, **where)


def _svg(figure: Any, axes: Any, title: str, *, beside: bool = False, grid: bool = True) -> str:
    from matplotlib import rc_context

    out = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": title, "font.family": "sans-serif"}):
        _style(axes, beside=beside, grid=grid)
        figure.savefig(out, format="svg", metadata={"Date": None})
    drawn = out.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    for stand_in, variable in STAND_INS.items():
        drawn = drawn.replace(stand_in, variable)
    return drawn.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1)
