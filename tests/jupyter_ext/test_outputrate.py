"""A job's output in the notebook: complete if short, otherwise its beginning and end."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_ext.outputrate import BURST, NEWEST, RATE, OutputRate

LEFT_OUT = re.compile(r"\n… ([\d,]+) bytes are not shown; _job\.logs\(\) has them …\n")


def left_out(text: str) -> int:
    return sum(int(number.replace(",", "")) for number in LEFT_OUT.findall(text))


def test_little_output_is_shown_at_once() -> None:
    gate = OutputRate(0)
    assert gate.take(b"one\n", 0) == "one\n"
    assert gate.take(b"two\n", 0.1) == "two\n"
    assert gate.end() == ""


def test_of_much_output_the_beginning_and_the_newest_part_are_shown() -> None:
    gate = OutputRate(0)
    text = "".join(gate.take(f"{i:09}\n".encode() * 100, i / 100_000) for i in range(10_000)) + gate.end()
    assert text.startswith("000000000\n")
    assert text.endswith("000009999\n")
    assert left_out(text) > 9_000_000
    assert len(text) < BURST + RATE + 20 * NEWEST


def test_held_back_output_is_shown_later() -> None:
    gate = OutputRate(0)
    gate.take(b"x" * BURST, 0)
    assert gate.take(b"hidden", 0) == ""
    assert gate.take(b"", 0.1) == ""
    assert gate.take(b"", 1) == "hidden"


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.text(max_size=4), st.integers(1, 150_000), st.floats(0, 0.5)), max_size=5),
    st.integers(1, 7),
)
def test_nothing_is_lost_untold_and_no_character_is_cut(pieces: list[tuple[str, int, float]], cut: int) -> None:
    whole = "".join(text * times for text, times, _ in pieces).encode()
    gate, now, shown = OutputRate(0), 0.0, ""
    for text, times, pause in pieces:
        data = (text * times).encode()
        now += pause
        for part in (data[:cut], data[cut:]):
            shown += gate.take(part, now)
    shown += gate.end()
    kept = LEFT_OUT.sub("", shown)
    assert "\ufffd" not in kept or "\ufffd" in whole.decode()
    # The parts of a character at both ends of what is left out go with it: at most three bytes each.
    missing = len(whole) - len(kept.encode()) - left_out(shown)
    assert 0 <= missing <= 6 * len(LEFT_OUT.findall(shown))
