"""Units of amounts.

GPUs and CPUs are integers in thousandths (`Milli`: 1000 is one), memory is in MiB, times are seconds since the epoch
(`float`), durations are seconds. Amounts are never floats, so that shares add up exactly.
"""

from __future__ import annotations

Milli = int

MiB = int

ONE: Milli = 1000
"""One whole GPU, or one CPU."""
