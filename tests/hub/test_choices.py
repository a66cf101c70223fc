"""The choices of a user at the start of a server, and their descriptions."""

from __future__ import annotations

import pytest

from hub_spawner.choices import Choice, Fit, QuotaView, form, plain

NOW, IN_LINE, NO = Fit


@pytest.mark.parametrize(
    ("view", "choices"),
    [
        pytest.param(
            QuotaView(quota=2, held=0, gpus=4, free=4),
            [(1, NOW), (0.5, NOW), (2, NOW), (0, NOW)],
            id="all fit, the usual one first",
        ),
        pytest.param(
            QuotaView(quota=2, held=1, gpus=4, free=3),
            [(1, NOW), (0.5, NOW), (2, NO), (0, NOW)],
            id="another server holds some",
        ),
        pytest.param(
            QuotaView(quota=1, held=0, gpus=4, free=0.5),
            [(1, NO), (0.5, NOW), (0, NOW)],
            id="others hold nearly all",
        ),
        pytest.param(QuotaView(quota=0.5, held=0, gpus=4, free=4), [(0.5, NOW), (0, NOW)], id="a small quota"),
        pytest.param(QuotaView(quota=1, held=0, gpus=0, free=0), [(0, NOW)], id="no build GPUs at all"),
        pytest.param(QuotaView(quota=0, held=0, gpus=4, free=4), [(0, NOW)], id="no quota"),
        pytest.param(
            QuotaView(quota=2, held=1, gpus=4, free=0.5, line=0),
            [(1, IN_LINE), (0.5, NOW), (2, NO), (0, NOW)],
            id="starts wait in line",
        ),
        pytest.param(
            QuotaView(quota=1, held=0, gpus=4, free=1, line=1),
            [(1, IN_LINE), (0.5, IN_LINE), (0, NOW)],
            id="behind another in line",
        ),
        pytest.param(
            QuotaView(quota=2, held=0, gpus=4, free=4, parts=frozenset({1})),
            [(1, NOW), (2, NOW), (0, NOW)],
            id="whole GPUs only",
        ),
        pytest.param(
            QuotaView(quota=2, held=0, gpus=4, free=0.2, parts=frozenset({2, 7})),
            [(0.5, NO), (0.142, NOW), (0, NOW)],
            id="parts of two kinds",
        ),
        pytest.param(
            QuotaView(quota=1, held=0, gpus=4, free=4, parts=frozenset({1, 4})),
            [(1, NOW), (0.25, NOW), (0, NOW)],
            id="whole GPUs, and others in parts",
        ),
    ],
)
def test_choices(view: QuotaView, choices: list[tuple[float, Fit]]) -> None:
    assert [(choice.gpus, choice.fit) for choice in view.choices()] == choices


@pytest.mark.parametrize(
    ("free", "line", "said"),
    [
        (0, None, "none of 4 build GPUs free now"),
        (0.5, None, "only 0.5 of 4 build GPUs free now"),
        (0, 0, "waits in line: none of 4 build GPUs free now"),
        (1, 1, "waits in line: 1 server ahead"),
        (0, 2, "waits in line: 2 servers ahead"),
    ],
)
def test_held_gpus_are_shown(free: float, line: int | None, said: str) -> None:
    assert QuotaView(quota=1, held=0, gpus=4, free=free, line=line).choices()[0].note == said


def test_what_the_pool_does_not_have_is_not_waited_for() -> None:
    assert QuotaView(quota=8, held=0, gpus=4, free=4, line=0).judge(6) == ("more than the 4 build GPUs of the pool", NO)


@pytest.mark.parametrize(
    ("view", "usual"),
    [
        (QuotaView(quota=4, held=0, gpus=8, free=8), 1),
        (QuotaView(quota=0.5, held=0, gpus=8, free=8), 0.5),
        (QuotaView(quota=0, held=0, gpus=8, free=8), 0),
        (QuotaView(quota=1, held=0, gpus=0, free=0), 0),
        (QuotaView(quota=0.5, held=0, gpus=8, free=8, parts=frozenset({1})), 0),
        (QuotaView(quota=0.5, held=0, gpus=8, free=8, parts=frozenset({1, 4})), 0.25),
        (QuotaView(quota=4, held=0, gpus=8, free=8, admin=True), 0),
    ],
)
def test_the_default_number_of_gpus(view: QuotaView, usual: float) -> None:
    assert view.usual == usual


def test_an_administrator_chooses_a_gpu_and_is_given_none() -> None:
    titles = [choice.title for choice in QuotaView(quota=1, held=0, gpus=8, free=8, admin=True).choices()]
    assert titles == ["CPU only", "Half a GPU", "1 GPU"]


def test_the_form_explains_unavailable_choices_and_preselects_the_first_that_fits() -> None:
    html = form([Choice(1, "your other <servers> hold it", NO), Choice(0.5, "fits", NOW), Choice(0, "", NOW)])
    assert 'value="1" disabled' in html
    assert 'value="0.5" checked' in html
    assert html.count("checked") == 1
    assert "your other &lt;servers&gt; hold it" in html


def test_what_waits_can_be_chosen_and_is_preselected_where_nothing_fits_now() -> None:
    html = form([Choice(2, "", NO), Choice(1, "waits in line", IN_LINE), Choice(0.5, "", IN_LINE)])
    assert 'value="1" checked' in html
    assert html.count("checked") == 1
    assert html.count("disabled") == 1
    assert "checked" not in form([Choice(1, "", NO)])


@pytest.mark.parametrize(
    ("gpus", "said"),
    [
        (0.5, "Half a GPU"),
        (1, "1 GPU"),
        (0.25, "1/4 of a GPU"),
        (0.142, "1/7 of a GPU"),
        (0.3, "0.3 GPUs"),
        (2, "2 GPUs"),
    ],
)
def test_plain(gpus: float, said: str) -> None:
    assert plain(gpus) == said
