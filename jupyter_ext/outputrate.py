"""Lets a job's output into the notebook at a rate that a browser can take.

What must hold: little output is shown as it is, at once; of much, the beginning and the newest are shown and how much
is left out between them is told; a character of several bytes is never cut.
"""

from __future__ import annotations

import codecs

RATE = 400_000
"""Bytes a second, well below what a notebook server passes on before it cuts a kernel off (1 MB a second)."""

BURST = 400_000
"""Bytes at once."""

NEWEST = 4_000
"""So many bytes of what is held back are kept, to be shown next."""


class OutputRate:
    """Bytes in, text out. Times are seconds of any clock that only goes forward."""

    def __init__(self, now: float) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._budget = float(BURST)
        self._at = now
        self._held = 0
        self._newest = b""

    def take(self, piece: bytes, now: float) -> str:
        """What is to be shown now that `piece` has come; nothing where it is held back."""
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
        """What is left to be shown when nothing more will come."""
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
    """`data` without the rest of a character at its beginning."""
    start = 0
    while start < min(len(data), 4) and data[start] & 0b1100_0000 == 0b1000_0000:
        start += 1
    return data[start:]
