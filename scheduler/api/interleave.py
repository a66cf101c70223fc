"""A worker's log and the displays beside it, as one line of Jupyter's output messages. Pure: bytes in, outputs out.

The log has a text for each display (`<Figure size …>`), which the display takes the place of. A display says from which
byte on its text is to be found; other processes may have written in between, so it is looked for nearby, and where it
is not, nothing is taken away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.files.untrusted import read_json

NEAR = 64 * 1024
"""So many bytes others may have written between a display and its text."""

KINDS = frozenset({"display_data", "execute_result", "update_display_data", "clear_output"})


@dataclass(frozen=True, slots=True)
class Display:
    """A display of the file; `end` is the offset after its line, `at` where in the log its text is looked for."""

    end: int
    at: int | None
    plain: bytes
    output: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Piece:
    """An output, and how far in log and displays a reader is after it."""

    log: int
    display: int
    output: dict[str, Any]


def displays(data: bytes, start: int) -> Iterator[Display]:
    """The whole lines of `data`, which begins at byte `start` of the file. What is no display is left out."""
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
    """What can be told of a log's `text` from byte `start` on, with the displays after byte `shown` of theirs.

    What may still change is left for later: a display whose text has not come, half a character at the end, and, where
    there are `more` displays, all text after the last one here. With `over` nothing more will come.
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
    """Without the beginning of a character at its end."""
    for back in range(1, min(4, len(text)) + 1):
        byte = text[-back]
        if byte & 0b1100_0000 == 0b1000_0000:
            continue
        needs = 2 if byte >= 0b1100_0000 else 1
        if byte >= 0b1110_0000:
            needs = 4 if byte >= 0b1111_0000 else 3
        return text[:-back] if needs > back else text
    return text
