"""Durations and amounts of memory as people write them: `1h30m`, `16GiB`. The command line and the magics read the same."""

from __future__ import annotations

import re

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?:in)?)?(?:(\d+(?:\.\d+)?)s)?")


def read_duration(text: str) -> float:
    """`90`, `90s`, `30m`, `2h`, `1h30m`, `1d` as seconds. Raises `ValueError`."""
    packed = text.replace(" ", "")
    match = _DURATION.fullmatch(f"{packed}s" if packed.replace(".", "", 1).isdecimal() else packed)
    if not match or not any(match.groups()):
        raise ValueError(f"{text!r} is no duration; write 90s, 30m, 2h, 1h30m or 1d")
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def read_memory(text: str) -> float:
    """`16`, `16GiB`, `512MiB` as GiB. Raises `ValueError`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(?:(Gi?B?|Mi?B?))?", text)
    if not match:
        raise ValueError(f"{text!r} is no amount of memory; write 16GiB or 512MiB")
    return float(match[1]) / (1024 if (match[2] or "G").startswith("M") else 1)
