"""The page of a simulation: it shows every policy, is self-contained, and its use of the pool adds up."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from scheduler.model import JobId, ProjectName
from scheduler.simulation.baselines import Run, Span
from scheduler.simulation.pictures import over_time
from scheduler.simulation.study import prepare
from scheduler.simulation.trace import Trace, TraceJob


def trace() -> Trace:
    return Trace(
        tuple(
            TraceJob(JobId(f"j{i}"), float(i), 50.0, 2000, ProjectName("<b>a</b>" if i % 2 else "b")) for i in range(20)
        ),
        "abc",
    )


def test_held_gpus_over_time_add_up() -> None:
    job = TraceJob(JobId("j"), 0, 30, 2000, ProjectName("p"))
    runs = [Run(job, (Span(5.0, 15.0, 2000), Span(20.0, 40.0, 1000)), lost=10.0)]
    held = over_time(runs, 0.0, 40.0, 8)
    assert held == pytest.approx([0, 2, 2, 0, 1, 1, 1, 1])
    assert sum(held) * 5 == pytest.approx(runs[0].held)
    busy = over_time(runs, 0.0, 40.0, 8, productive=True)
    assert sum(busy) * 5 == pytest.approx(runs[0].held - 10.0)


@pytest.mark.parametrize("policies", [["runai", "static", "skip_ahead"], ["fifo"]])
def test_the_page_shows_each_policy_and_is_self_contained(policies: list[str]) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib, of the extra `report`")
    from scheduler.simulation.report import render

    study = prepare(trace(), nodes=1)
    page = render(list(study.play(policies)), study, {"trace": "abc"})
    links: list[str] = []

    class Links(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            links.extend(
                value or ""
                for name, value in attrs
                if name in ("src", "href", "xlink:href") and not (value or "").startswith("#")
            )
            assert tag != "script"

    Links().feed(page)
    assert not links
    assert all(f'<th scope="row">{policy}<td>' in page for policy in policies)
    assert page.count("<svg") == (5 if "static" in policies else 4)
    assert "<b>a</b>" not in page
    assert "#0404" not in page  # every colour is the page's own, in the light and in the dark
    assert "@import" not in page


def test_the_same_study_draws_the_same_page() -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib, of the extra `report`")
    from scheduler.simulation.report import render

    study = prepare(trace(), nodes=1)
    first, second = (render(list(study.play(["runai", "static"])), study, {}) for _ in range(2))
    assert first == second
