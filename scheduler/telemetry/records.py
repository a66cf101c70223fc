"""The use of a GPU over a span of time, as a record of fixed size. Pure: samples are added up, records are packed and
read, and series are brought to fewer points.

What must hold:
- What was not measured stays unknown; it is never counted as zero.
- A record that was written in part, or for another time, is not read as one.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from struct import Struct

from scheduler.telemetry.health import XIDS
from scheduler.telemetry.sample import SLOWING, GpuSample, Throttle


@dataclass(frozen=True, slots=True)
class Level:
    """Records of `step` seconds each, of which the last `slots` are kept."""

    step: int
    slots: int

    @property
    def kept(self) -> int:
        """For how many seconds records are kept."""
        return self.step * self.slots

    def start(self, at: float) -> int:
        """The start of the record of an instant."""
        return int(at) // self.step * self.step


DAY = 86_400
LEVELS = (Level(10, 2 * DAY // 10), Level(60, 14 * DAY // 60), Level(600, 396 * DAY // 600))
"""10 seconds for two days, a minute for two weeks, 10 minutes for 13 months."""


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean and the largest of `count` values; 0 values have neither."""

    count: int = 0
    mean: float = 0.0
    most: float = 0.0

    def __add__(self, other: Mean) -> Mean:
        count = self.count + other.count
        if not other.count or not self.count:
            return self if self.count else other
        mean = (self.mean * self.count + other.mean * other.count) / count
        return Mean(count, mean, max(self.most, other.most))


_NONE = Throttle(0)


@dataclass(frozen=True, slots=True)
class Span:
    """The samples of a GPU from `start` (seconds since 1970) on, added up.

    `utilisation` is from 0 to 1, `used` in MiB, `power` in watts, `temperature` in °C. `slowed` is the part of the
    samples in which the GPU was slowed down, for `reasons`. `corrected` and `uncorrected` are the memory errors of the
    span, `xid` one of the errors that the driver reported: one of the hardware, if there was one.
    """

    start: int
    samples: int = 0
    utilisation: Mean = Mean()
    used: Mean = Mean()
    power: Mean = Mean()
    temperature: Mean = Mean()
    slowed: Mean = Mean()
    reasons: Throttle = _NONE
    corrected: int = 0
    uncorrected: int = 0
    xid: int | None = None

    def __add__(self, other: Span) -> Span:
        return Span(
            self.start,
            self.samples + other.samples,
            self.utilisation + other.utilisation,
            self.used + other.used,
            self.power + other.power,
            self.temperature + other.temperature,
            self.slowed + other.slowed,
            self.reasons | other.reasons,
            self.corrected + other.corrected,
            self.uncorrected + other.uncorrected,
            max((self.xid, other.xid), key=lambda xid: (xid in XIDS, xid is not None)),
        )


def span_of(sample: GpuSample, before: GpuSample | None, start: int) -> Span:
    """One sample as a span; its memory errors are those since the sample `before`."""
    slowed = None if sample.throttle is None else float(bool(sample.throttle & SLOWING))
    xid = max(sample.xids, key=XIDS.__contains__, default=None)
    return Span(
        start,
        1,
        _one(sample.utilisation),
        _one(sample.used),
        _one(sample.power),
        _one(sample.temperature),
        _one(slowed),
        _NONE if sample.throttle is None else sample.throttle & SLOWING,
        0 if before is None else _more(sample.corrected, before.corrected),
        0 if before is None else _more(sample.uncorrected, before.uncorrected),
        xid,
    )


def _one(value: float | None) -> Mean:
    return Mean() if value is None else Mean(1, value, value)


def _more(after: int | None, before: int | None) -> int:
    """The errors between two samples; a reset sets the counter to zero."""
    return 0 if after is None else after if before is None or after < before else after - before


# -- records on disk ------------------------------------------------------------------------------------

_PLAIN = Struct("<IHBBIHBBBHHHH")
_CHECK = Struct("<I")
SIZE = _PLAIN.size + _CHECK.size
"""The bytes of a record."""


def packed(span: Span) -> bytes:
    plain = _PLAIN.pack(
        span.start,
        min(span.samples, 0xFFFF),
        _byte(span.utilisation, span.utilisation.mean * 200),
        _byte(span.utilisation, span.utilisation.most * 200),
        _whole(span.used, span.used.mean, 0xFFFFFFFF),
        _whole(span.power, span.power.mean * 10, 0xFFFF),
        _byte(span.temperature, span.temperature.mean),
        _byte(span.temperature, span.temperature.most),
        _byte(span.slowed, span.slowed.mean * 200),
        span.reasons & 0xFFFF,
        min(span.corrected, 0xFFFF),
        min(span.uncorrected, 0xFFFF),
        min(span.xid or 0, 0xFFFF),
    )
    return plain + _CHECK.pack(zlib.crc32(plain))


def unpacked(record: bytes, start: int) -> Span | None:
    """The record of the span from `start` on; `None` where it is damaged, or another one is in its place."""
    plain = record[: _PLAIN.size]
    if len(record) != SIZE or _CHECK.pack(zlib.crc32(plain)) != record[_PLAIN.size :]:
        return None
    begun, samples, busy, busiest, used, power, warm, warmest, slowed, reasons, corrected, uncorrected, xid = (
        _PLAIN.unpack(plain)
    )
    if begun != start or not samples:
        return None

    def mean(value: int, most: int, unknown: int, unit: float = 1.0) -> Mean:
        return Mean() if value == unknown else Mean(samples, value / unit, most / unit)

    return Span(
        begun,
        samples,
        mean(busy, busiest, 0xFF, 200),
        mean(used, used, 0xFFFFFFFF),
        mean(power, power, 0xFFFF, 10),
        mean(warm, warmest, 0xFF),
        mean(slowed, slowed, 0xFF, 200),
        Throttle(reasons),
        corrected,
        uncorrected,
        xid or None,
    )


def _whole(known: Mean, value: float, unknown: int) -> int:
    return min(max(round(value), 0), unknown - 1) if known.count else unknown


def _byte(known: Mean, value: float) -> int:
    return _whole(known, value, 0xFF)


# -- falling resolution ---------------------------------------------------------------------------------


def level_for(since: float, until: float, now: float, points: int) -> Level:
    """The records to answer with: of those that still reach back to `since`, the coarsest that make `points`."""
    reaching = [level for level in LEVELS if now - since <= level.kept] or [LEVELS[-1]]
    enough = [level for level in reaching if level.step * points <= until - since]
    return enough[-1] if enough else reaching[0]


def thinned(spans: Iterable[Span], since: int, step: int) -> list[Span]:
    """Spans in the order of time, those of `step` seconds each (from `since` on) added up."""
    found: list[Span] = []
    for span in spans:
        start = since + (span.start - since) // step * step
        if found and found[-1].start == start:
            found[-1] += span
        else:
            found.append(replace(span, start=start))
    return found
