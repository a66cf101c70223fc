"""Kubernetes' quantities (`500m`, `16Gi`, `1e3`) in the model's units.

Capacities are rounded down and requests are rounded up, so a node is never overcommitted.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from scheduler.model import ONE, MiB, Milli

_SUFFIXES = {
    **{suffix: Fraction(1000) ** (power - 3) for power, suffix in enumerate(("n", "u", "m", "", "k", "M", "G"))},
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(("T", "P", "E"), start=4)},
    **{f"{prefix}i": Fraction(1024) ** power for power, prefix in enumerate("KMGTPE", start=1)},
}


@lru_cache(maxsize=4096)  # the pods of a cluster use few different quantities
def quantity(text: str | float) -> Fraction:
    """Parse a quantity. Raises `ValueError`."""
    text = str(text).strip()
    digits = text.rstrip("numkKMGTPEi")
    suffix = text[len(digits) :]
    if suffix not in _SUFFIXES:
        raise ValueError(f"{text!r} is not a quantity")
    return Fraction(digits) * _SUFFIXES[suffix]


def milli(text: str | float, *, up: bool = False) -> Milli:
    """A quantity in thousandths, for example of a CPU."""
    return _whole(quantity(text) * ONE, up)


def mib(text: str | float, *, up: bool = False) -> MiB:
    """A quantity of bytes in MiB."""
    return _whole(quantity(text) / 2**20, up)


def count(text: str | float) -> int:
    """A quantity as an integer."""
    return math.floor(quantity(text))


def _whole(number: Fraction, up: bool) -> int:
    return math.ceil(number) if up else math.floor(number)
