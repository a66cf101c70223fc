"""Writes gzip fast: content that does not compress (numbers, pictures, archives) is stored uncompressed.

The same bytes give the same file. It may have several members, as the format allows; readers see one content.
"""

from __future__ import annotations

import zlib
from types import TracebackType
from typing import BinaryIO, Self

BLOCK = 1024 * 1024
SAMPLE = 16 * 1024
WORTH_IT = 0.9
"""A block is compressed if a sample of it shrinks below this fraction of its size."""

_STORED, _COMPRESSED = 0, 3


class GzipWriter:
    """A file for writing; its content is written, gzipped, to `out`, which stays open."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._block = bytearray()
        self._written = 0
        self._level = _COMPRESSED
        self._member = _member(_COMPRESSED)

    def write(self, data: bytes) -> int:
        self._block += data
        self._written += len(data)
        while len(self._block) >= BLOCK:
            self._put(bytes(self._block[:BLOCK]))
            del self._block[:BLOCK]
        return len(data)

    def tell(self) -> int:
        return self._written

    def close(self) -> None:
        self._put(bytes(self._block))
        self._block.clear()
        self._out.write(self._member.flush())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()

    def _put(self, block: bytes) -> None:
        level = _COMPRESSED if _shrinks(block) else _STORED
        if level != self._level:
            self._out.write(self._member.flush())
            self._level, self._member = level, _member(level)
        self._out.write(self._member.compress(block))


def _member(level: int) -> zlib._Compress:
    return zlib.compressobj(level, zlib.DEFLATED, 16 + zlib.MAX_WBITS)


def _shrinks(block: bytes) -> bool:
    if len(block) <= SAMPLE:
        return True
    middle = len(block) // 2
    sample = block[middle : middle + SAMPLE]
    return len(zlib.compress(sample, 1)) < WORTH_IT * len(sample)
