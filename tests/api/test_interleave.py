"""The log and its displays form one sequence of outputs, in whatever pieces they are read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.interleave import NEAR, Display, displays, interleave


def shown(number: int) -> dict[str, Any]:
    return {"output_type": "display_data", "data": {"text/html": f"<b>{number}</b>"}, "metadata": {}}


def said(pieces: Sequence[Any]) -> list[str]:
    """Text unchanged, displays as their numbers; adjacent texts joined."""
    told: list[str] = []
    for piece in pieces:
        text = piece.output.get("text")
        if text is not None and told and not told[-1].startswith("<b>"):
            told[-1] += text
        else:
            told.append(text if text is not None else piece.output["data"]["text/html"])
    return told


def test_a_display_replaces_its_text() -> None:
    log = b"before\n<Figure>\nafter\n"
    pieces = list(interleave(log, 0, 0, [Display(40, 7, b"<Figure>\n", shown(1))]))
    assert said(pieces) == ["before\n", "<b>1</b>", "after\n"]
    assert (pieces[-1].log, pieces[-1].display) == (len(log), 40)


def test_text_of_other_processes_in_between_is_kept() -> None:
    log = b"before\nof another process\n<Figure>\nafter\n"
    assert said(list(interleave(log, 0, 0, [Display(40, 7, b"<Figure>\n", shown(1))]))) == [
        "before\nof another process\n",
        "<b>1</b>",
        "after\n",
    ]


def test_a_display_without_its_text_removes_nothing() -> None:
    log = b"a\n" + b"x" * (NEAR + 100)
    told = said(list(interleave(log, 0, 0, [Display(40, 2, b"<Figure>\n", shown(1))])))
    assert told == ["a\n", "<b>1</b>", "x" * (NEAR + 100)]
    assert said(list(interleave(b"a\nb\n", 0, 0, [Display(40, 2, b"<Figure>\n", shown(1))], over=True))) == [
        "a\n",
        "<b>1</b>",
        "b\n",
    ]


def test_without_a_log_offset_its_text_is_searched_for() -> None:
    assert said(list(interleave(b"a\n<F>\nb\n", 0, 0, [Display(9, None, b"<F>\n", shown(1))]))) == [
        "a\n",
        "<b>1</b>",
        "b\n",
    ]


PARTS = st.lists(st.one_of(st.sampled_from(["á", "line\n", "🐎", "x"]), st.integers(0, 9)), max_size=12)


@given(PARTS, st.lists(st.integers(0, 200), max_size=8), st.integers(1, 3))
def test_read_in_any_pieces_it_is_the_same(parts: list[str | int], cuts: list[int], at_once: int) -> None:
    log, expected = b"", ""
    found: list[Display] = []
    for part in parts:
        if isinstance(part, str):
            log, expected = log + part.encode(), expected + part
        else:
            plain = f"<{part}>\n".encode()
            found.append(Display(len(found) + 1, len(log), plain, shown(part)))
            log, expected = log + plain, f"{expected}<b>{part}</b>"
    pieces: list[Any] = []
    at = display = 0
    lengths = [*sorted(min(cut, len(log)) for cut in cuts), *[len(log)] * (len(parts) + 2)]
    for turn, length in enumerate(lengths):
        # A display is there before its text; of those there are, not all are read at once.
        there = [each for each in found if each.end > display and each.at is not None and each.at <= length]
        over = turn >= len(cuts)
        more = len(there) > at_once
        told = list(interleave(log[at:length], at, display, there[:at_once], more=more, over=over))
        if told:
            at, display = told[-1].log, told[-1].display
            pieces += told
    assert "".join(said(pieces)) == expected
    assert all("�" not in text for text in said(pieces))


def test_other_lines_are_ignored() -> None:
    good = json.dumps({"at": 3, "plain": "x", "output": shown(1)}).encode()
    lines = [
        b"nonsense",
        b"[]",
        b"{}",
        json.dumps({"at": "3", "plain": "x", "output": shown(1)}).encode(),
        json.dumps({"at": 3, "plain": "x", "output": {"output_type": "stream"}}).encode(),
        good,
        b'{"at": 3, "half',
    ]
    data = b"\n".join(lines)
    assert [(each.at, each.plain, each.end) for each in displays(data, 100)] == [
        (3, b"x", 100 + data.index(b'{"at": 3, "half'))
    ]
