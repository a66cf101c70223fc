"""A gzip file that stores incompressible data."""

from __future__ import annotations

import gzip
import io
import os
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.files.gzipped import BLOCK, GzipWriter


def gzipped(pieces: list[bytes]) -> bytes:
    out = io.BytesIO()
    with GzipWriter(out) as writer:
        for piece in pieces:
            writer.write(piece)
        assert writer.tell() == sum(map(len, pieces))
    return out.getvalue()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2 * BLOCK), st.integers()), max_size=6))
def test_what_goes_in_comes_out(recipe: list[tuple[bool, int, int]]) -> None:
    pieces = [random.Random(seed).randbytes(size) if noisy else b"line\n" * (size // 5) for noisy, size, seed in recipe]
    packed = gzipped(pieces)
    assert gzip.decompress(packed) == b"".join(pieces)
    assert gzipped([b"".join(pieces)]) == packed, "how it is cut into writes is not part of it"


def test_compressible_blocks_are_compressed_and_others_stored() -> None:
    noise = os.urandom(4 * BLOCK)
    assert len(gzipped([bytes(4 * BLOCK)])) < BLOCK / 10
    assert len(gzipped([noise])) < len(noise) * 1.001
    assert len(gzipped([noise, bytes(4 * BLOCK), noise])) < len(noise) * 2 * 1.001 + BLOCK


def test_empty_content_is_a_valid_gzip_file() -> None:
    assert gzip.decompress(gzipped([])) == b""
