"""One page that compares policies, for people who decide about GPUs: results first, method last.

The page is self-contained: pictures as inline SVG, no scripts, no external addresses. Drawing needs matplotlib (extra
`report`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jinja2 import Environment as Templates
from jinja2 import PackageLoader, StrictUndefined

from scheduler.simulation import pictures
from scheduler.simulation.slowgpus import SlowGpuFigures
from scheduler.simulation.study import OURS, POOLED, SCALED, STATIC, Part, Result, Study

HOUR = 3600.0


def render(
    results: Sequence[Result], study: Study, facts: Mapping[str, str], slow: Sequence[SlowGpuFigures] = ()
) -> str:
    """The page as HTML. `facts` are shown at the end: the command, the trace's hash, what was assumed."""
    parts = {part: [result for result in results if result.part is part] for part in Part}
    policies = sorted(parts[Part.POLICIES], key=lambda result: result.policy != OURS)
    by_name = {result.policy: result for result in policies}
    first, static = policies[0], by_name.get(STATIC)
    templates = Templates(
        loader=PackageLoader("scheduler.simulation"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    templates.filters |= {"percent": _percent, "hours": _hours, "whole": _whole}
    base = [result for result in policies if result.policy in SCALED]
    return templates.get_template("report.html").render(
        first=first,
        static=static,
        policies=policies,
        scaled=sorted([*base, *parts[Part.SCALE]], key=lambda r: (r.policy, r.gpus)),
        costs=sorted([first, *parts[Part.COST]], key=lambda result: result.cost),
        sessions=parts[Part.SESSIONS],
        slow=slow,
        main=[result for result in policies if result.policy in (OURS, STATIC, POOLED)] or policies[:2],
        facts=facts,
        has=parts,
        Part=Part,
        use=pictures.use(policies, study.start, study.end),
        by_project=pictures.by_project(first, study.start, study.end),
        waits=pictures.waits(policies),
        completion=pictures.completion(policies),
        fairness=pictures.fairness([r for r in policies if r.policy != STATIC]) if _compared(first) else "",
        sweep=pictures.sweep([*base, *parts[Part.SCALE]]) if parts[Part.SCALE] else "",
        colours=pictures.colours(result.policy for result in policies),
    )


def _compared(result: Result) -> bool:
    return result.against_static is not None


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _hours(seconds: float) -> str:
    hours = seconds / HOUR
    return f"{hours:.2f}" if hours < 100 else f"{hours:,.0f}"


def _whole(number: float) -> str:
    return f"{number:,.0f}"
