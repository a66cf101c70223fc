"""A worker's log and its displays, as one stream of Jupyter's output messages. Pure: bytes in, outputs out.

The log has a text for each display (`<Figure size …>`), which the display replaces. A display gives the offset of its
text; other processes may have written in between, so it is searched for nearby. If it is not found, no text is removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.files.untrusted import read_json

NEAR = 64 * 1024
"""The most bytes that others may have written between a display and its text."""

KINDS = frozenset({"display_data", "execute_result", "update_display_data", "clear_output"})


@dataclass(frozen=True, slots=True)
class Display:
    """A display of the file; `end` is the offset after its line, `at` the offset in the log where its text is
    expected."""

    end: int
    at: int | None
    plain: bytes
    output: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Piece:
    """An output, and the offsets in the log and the displays after it."""

    log: int
    display: int
    output: dict[str, Any]


def displays(data: bytes, start: int) -> Iterator[Display]:
    """The displays in the whole lines of `data`, which begins at byte `start` of the file. Other lines are ignored."""
    for line in data[: data.rfind(b"\n") + 1].splitlines(keepends=True):
        start += len(line)
        try:
            found = read_json(line)
            at, plain, output = found["at"], found["plain"], found["output"]
        except (ValueError, KeyError, TypeError):
            continue
        right = isinstance(output, dict) and output.get("output_type") in KINDS and isinstance(plain, str)
        if right and (at is None or (isinstance(at, int) and at >= 0)):
            yield Display(start, at, plain.encode(), output)


def interleave(
    text: bytes, start: int, shown: int, found: Sequence[Display], *, more: bool = False, over: bool = False
) -> Iterator[Piece]:
    """The outputs of a log's `text` from byte `start`, with the displays after byte `shown` of their file.

    What may still change is left for later: a display whose text is missing, an incomplete character at the end, and,
    where there are `more` displays, all text after the last one here. With `over` nothing more will come.
    """
    here = 0
    for display in found:
        first = here if display.at is None else max(here, display.at - start)
        if first > len(text) and not over:
            more = False  # all of this text comes before it
            break
        last = len(text) if display.at is None else first + NEAR + len(display.plain)
        place = text.find(display.plain, first, last)
        if place < 0 and not over and last >= len(text):
            text, more = text[:first], False
            break
        end = place if place >= 0 else min(first, len(text))
        if end > here:
            yield Piece(start + end, shown, _stream(text[here:end]))
        here = end + len(display.plain) if place >= 0 else end
        shown = display.end
        yield Piece(start + here, shown, display.output)
    rest = b"" if more else text[here:] if over else _whole(text[here:])
    if rest:
        yield Piece(start + here + len(rest), shown, _stream(rest))


def _stream(text: bytes) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text.decode("utf-8", errors="replace")}


def _whole(text: bytes) -> bytes:
    """The text without an incomplete character at its end."""
    for back in range(1, min(4, len(text)) + 1):
        byte = text[-back]
        if byte & 0b1100_0000 == 0b1000_0000:
            continue
        needs = 2 if byte >= 0b1100_0000 else 1
        if byte >= 0b1110_0000:
            needs = 4 if byte >= 0b1111_0000 else 3
        return text[:-back] if needs > back else text
    return text
