"""Kubernetes' quantities (`500m`, `16Gi`, `1e3`) in the model's units.

What a node has is rounded down and what a pod asks for is rounded up, so a node is never given out beyond its end.
"""

from __future__ import annotations

import math
from fractions import Fraction

from scheduler.model import ONE, MiB, Milli

_SUFFIXES = {
    **{suffix: Fraction(1000) ** (power - 3) for power, suffix in enumerate(("n", "u", "m", "", "k", "M", "G"))},
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(("T", "P", "E"), start=4)},
    **{f"{prefix}i": Fraction(1024) ** power for power, prefix in enumerate("KMGTPE", start=1)},
}


def quantity(text: str | float) -> Fraction:
    """The number that a quantity is. Raises `ValueError` for what is none."""
    text = str(text).strip()
    digits = text.rstrip("numkKMGTPEi")
    suffix = text[len(digits) :]
    if suffix not in _SUFFIXES:
        raise ValueError(f"{text!r} is not a quantity")
    return Fraction(digits) * _SUFFIXES[suffix]


def milli(text: str | float, *, up: bool = False) -> Milli:
    """In thousandths, of a CPU say."""
    return _whole(quantity(text) * ONE, up)


def mib(text: str | float, *, up: bool = False) -> MiB:
    """Bytes in MiB."""
    return _whole(quantity(text) / 2**20, up)


def count(text: str | float) -> int:
    """How many of what is only there whole."""
    return math.floor(quantity(text))


def _whole(number: Fraction, up: bool) -> int:
    return math.ceil(number) if up else math.floor(number)
