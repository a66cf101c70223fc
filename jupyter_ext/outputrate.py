"""Limits the rate of a job's output in the notebook to what a browser can handle.

What must hold: little output is shown unchanged, at once; of much output the beginning and the newest part are shown
with the amount that is left out; a multi-byte character is never cut.
"""

from __future__ import annotations

import codecs

RATE = 400_000
"""Bytes a second, well below a notebook server's limit for a kernel (1 MB a second)."""

BURST = 400_000
"""Bytes at once."""

NEWEST = 4_000
"""How many bytes of held back output are kept, to be shown next."""


class OutputRate:
    """Bytes in, text out. Times are seconds of any clock that only goes forward."""

    def __init__(self, now: float) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._budget = float(BURST)
        self._at = now
        self._held = 0
        self._newest = b""

    def take(self, piece: bytes, now: float) -> str:
        """Add `piece`; returns what to show now, which is empty while output is held back."""
        self._budget = min(BURST, self._budget + (now - self._at) * RATE)
        self._at = now
        shown = self._release() if self._held and self._budget >= BURST / 2 else ""
        if self._held:
            return self._hold(piece)
        fits = int(min(self._budget, len(piece)))
        self._budget -= fits
        shown += self._decoder.decode(piece[:fits])
        if fits < len(piece):
            self._hold(piece[fits:])
        return shown

    def end(self) -> str:
        """What remains to be shown at the end."""
        return self._release() + self._decoder.decode(b"", final=True)

    def _hold(self, piece: bytes) -> str:
        self._held += len(piece)
        self._newest = (self._newest + piece)[-NEWEST:]
        return ""

    def _release(self) -> str:
        if not self._held:
            return ""
        left_out = self._held - len(self._newest)
        told = ""
        if left_out:
            self._decoder.reset()
            told = f"\n… {left_out:,} bytes are not shown; _job.logs() has them …\n"
            self._newest = _whole_characters(self._newest)
        shown = told + self._decoder.decode(self._newest)
        self._budget -= len(self._newest)
        self._held, self._newest = 0, b""
        return shown


def _whole_characters(data: bytes) -> bytes:
    """`data` without an incomplete character at its beginning."""
    start = 0
    while start < min(len(data), 4) and data[start] & 0b1100_0000 == 0b1000_0000:
        start += 1
    return data[start:]
