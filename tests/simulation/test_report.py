"""The page of a simulation: it shows every policy, stands alone, and its use of the pool adds up."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from scheduler.simulation.baselines import Run, Span, play_baseline
from scheduler.simulation.metrics import figures
from scheduler.simulation.report import held_over_time, render
from scheduler.simulation.study import Result
from scheduler.simulation.trace import Trace, TraceJob


def trace() -> Trace:
    return Trace(
        tuple(TraceJob(f"j{i}", float(i), 50.0, 2000, "<b>a</b>" if i % 2 else "b") for i in range(20)), "abc"
    )


def test_what_is_held_over_time_adds_up() -> None:
    job = TraceJob("j", 0, 30, 2000, "p")
    runs = [Run(job, (Span(5.0, 15.0, 2000), Span(20.0, 40.0, 1000)))]
    held = held_over_time(runs, 4, 0.0, 40.0, 8)
    assert held == pytest.approx([0, 0.5, 0.5, 0, 0.25, 0.25, 0.25, 0.25])
    assert sum(held) * 4 * 5 == pytest.approx(runs[0].held)


def test_the_page_shows_each_policy_and_stands_alone() -> None:
    pytest.importorskip(
        "matplotlib", reason="matplotlib draws the report's pictures; install the extra `report`"
    )
    results = []
    for policy in ("fifo", "skip_ahead"):
        runs = play_baseline(trace(), policy, nodes=1)
        results.append(Result(policy, 8, runs, figures(runs, gpus=8, start=0, end=100)))
    page = render(results, trace(), start=0, end=100, facts={"trace": "abc"})
    links = []

    class Links(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            links.extend(
                value
                for name, value in attrs
                if name in ("src", "href") and not (value or "").startswith("#")
            )
            assert tag != "script"

    Links().feed(page)
    assert page.count("<td>fifo") == 1
    assert page.count("<td>skip_ahead") == 1
    assert page.count("<svg") == 3
    assert "<b>a</b>" not in page
    assert not [link for link in links if link and link.startswith("http")]
