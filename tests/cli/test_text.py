"""The command line's output: words for amounts and times, aligned columns, no terminal control sequences."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest

from scheduler.cli.jobs import waiting_since
from scheduler.cli.text import Screen, amount, bar, clean, cut, took, width
from scheduler.submission.amounts import read_duration, read_memory


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, ""),
        (-3, "<1 s"),
        (0.4, "<1 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (65, "1 min 5 s"),
        (615, "10 min"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (86400, "1 d"),
        (270_000, "3 d 3 h"),
    ],
)
def test_durations_in_words(seconds: float | None, words: str) -> None:
    assert took(seconds) == words


@pytest.mark.parametrize(("number", "text"), [(1, "1"), (0.25, "0.25"), (1.5, "1.5"), (100, "100"), (None, "–")])
def test_amounts(number: float | None, text: str) -> None:
    assert amount(number) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("1.5", 1.5),
        ("30m", 1800),
        ("30min", 1800),
        ("2h", 7200),
        ("1h30m", 5400),
        ("1d", 86400),
    ],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert read_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "1h30", "-5", "soon", "2w", "m30"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration; write 90s"):
        read_duration(text)


@pytest.mark.parametrize(("text", "gib"), [("16", 16), ("16G", 16), ("16GiB", 16), ("512MiB", 0.5), ("1.5 GiB", 1.5)])
def test_memory_is_read(text: str, gib: float) -> None:
    assert read_memory(text) == gib


@pytest.mark.parametrize("text", ["", "GiB", "-1", "1e3", "12 apples", "1T"])
def test_an_invalid_amount_of_memory_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an amount of memory"):
        read_memory(text)


@pytest.mark.parametrize(
    ("part", "over", "whole", "drawn"),
    [
        (0, 0, 4, "····"),
        (4, 0, 4, "████"),
        (3, 1, 4, "██▒·"),
        (0.01, 0, 4, "█···"),
        (0.01, 0.01, 4, "▒···"),
        (0, 0, 0, "····"),
    ],
)
def test_quota_bars(part: float, over: float, whole: float, drawn: str) -> None:
    assert bar(part, over, whole, 4) == drawn


def test_columns_are_aligned_and_empty_ones_left_out() -> None:
    out = io.StringIO()
    Screen(out).table(["NAME", "GPUS", "NOTHING", "WHY"], [("a", 10, "", "x"), ("漢字", 2, None, "")], right=["GPUS"])
    assert out.getvalue() == "NAME  GPUS  WHY\na       10  x\n漢字     2\n"


def test_no_colours_outside_a_terminal_or_with_no_color(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert Screen(io.StringIO()).style("x", "bad") == "x"
    assert Screen(Terminal()).style("x", "bad") == "\x1b[31mx\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert Screen(Terminal()).style("x", "bad") == "x"


def test_the_last_column_is_cut_to_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    Screen(out).table(["A", "WHY"], [("x", "a very long reason that goes on")])
    assert out.getvalue().splitlines()[1] == "x  a very long reas…"


def test_a_name_cannot_rewrite_the_terminal() -> None:
    assert clean("evil\x1b[2Jname\r\nnext\u202etxt") == "evil [2Jname next txt"


def test_widths_and_cuts() -> None:
    assert width("e\u0301漢") == 3
    assert cut("abcdef", 4) == "abc…"
    assert cut("abc", 4) == "abc"


def test_a_requeued_job_has_waited_since_it_stopped() -> None:
    job: Any = SimpleNamespace(submitted=1000.0, attempts=[])
    assert waiting_since(job) == 1000
    job.attempts = [SimpleNamespace(ended=1060.0), SimpleNamespace(ended=1300.0)]
    assert waiting_since(job) == 1300
