"""The choices of a user at the start of a server, and their descriptions."""

from __future__ import annotations

import pytest

from hub_spawner.choices import Choice, QuotaView, form, plain


@pytest.mark.parametrize(
    ("view", "choices"),
    [
        pytest.param(
            QuotaView(quota=2, held=0, gpus=4, free=4),
            [(1, True), (0.5, True), (2, True), (0, True)],
            id="all fit, the usual one first",
        ),
        pytest.param(
            QuotaView(quota=2, held=1, gpus=4, free=3),
            [(1, True), (0.5, True), (2, False), (0, True)],
            id="another server holds some",
        ),
        pytest.param(
            QuotaView(quota=1, held=0, gpus=4, free=0.5),
            [(1, False), (0.5, True), (0, True)],
            id="others hold nearly all",
        ),
        pytest.param(QuotaView(quota=0.5, held=0, gpus=4, free=4), [(0.5, True), (0, True)], id="a small quota"),
        pytest.param(QuotaView(quota=1, held=0, gpus=0, free=0), [(0, True)], id="no build GPUs at all"),
        pytest.param(QuotaView(quota=0, held=0, gpus=4, free=4), [(0, True)], id="no quota"),
        pytest.param(
            QuotaView(quota=2, held=0, gpus=4, free=4, parts=frozenset({1})),
            [(1, True), (2, True), (0, True)],
            id="whole GPUs only",
        ),
        pytest.param(
            QuotaView(quota=2, held=0, gpus=4, free=0.2, parts=frozenset({2, 7})),
            [(0.5, False), (0.142, True), (0, True)],
            id="parts of two kinds",
        ),
        pytest.param(
            QuotaView(quota=1, held=0, gpus=4, free=4, parts=frozenset({1, 4})),
            [(1, True), (0.25, True), (0, True)],
            id="whole GPUs, and others in parts",
        ),
    ],
)
def test_choices(view: QuotaView, choices: list[tuple[float, bool]]) -> None:
    assert [(choice.gpus, choice.fits) for choice in view.choices()] == choices


@pytest.mark.parametrize(
    ("free", "said"),
    [(0, "none of 4 build GPUs free now"), (0.5, "only 0.5 of 4 build GPUs free now")],
)
def test_held_gpus_are_shown(free: float, said: str) -> None:
    assert QuotaView(quota=1, held=0, gpus=4, free=free).choices()[0].note == said


@pytest.mark.parametrize(
    ("view", "usual"),
    [
        (QuotaView(quota=4, held=0, gpus=8, free=8), 1),
        (QuotaView(quota=0.5, held=0, gpus=8, free=8), 0.5),
        (QuotaView(quota=0, held=0, gpus=8, free=8), 0),
        (QuotaView(quota=1, held=0, gpus=0, free=0), 0),
        (QuotaView(quota=0.5, held=0, gpus=8, free=8, parts=frozenset({1})), 0),
        (QuotaView(quota=0.5, held=0, gpus=8, free=8, parts=frozenset({1, 4})), 0.25),
    ],
)
def test_the_default_number_of_gpus(view: QuotaView, usual: float) -> None:
    assert view.usual == usual


def test_the_form_explains_unavailable_choices_and_preselects_the_first_that_fits() -> None:
    html = form([Choice(1, "your other <servers> hold it", False), Choice(0.5, "fits", True), Choice(0, "", True)])
    assert 'value="1" disabled' in html
    assert 'value="0.5" checked' in html
    assert html.count("checked") == 1
    assert "your other &lt;servers&gt; hold it" in html


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
