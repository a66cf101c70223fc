"""Ranges of an array in user input."""

from __future__ import annotations

import pytest

from scheduler.submission.amounts import read_array


@pytest.mark.parametrize(
    ("text", "indices", "at_once"),
    [
        ("3", [0, 1, 2], None),
        ("3%2", [0, 1, 2], 2),
        ("5-7", [5, 6, 7], None),
        ("1, 3, 5-6 % 10", [1, 3, 5, 6], 10),
        ("4,2,4", [4, 2], None),
        ("0-999", list(range(1000)), None),
    ],
)
def test_an_array_is_read(text: str, indices: list[int], at_once: int | None) -> None:
    assert read_array(text) == (indices, at_once)


@pytest.mark.parametrize("text", ["", "0", "a", "-3", "3-", "7-5", "1,", "0-1000", "1001", "3%", "3%0", "%2", "1--2"])
def test_an_invalid_array_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an array"):
        read_array(text)
