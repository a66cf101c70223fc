"""Durations, memory and ranges as people write them: `1h30m`, `16GiB`, `0-99%10`.

The command line and the magics use the same formats.
"""

from __future__ import annotations

import re

LONGEST_ARRAY = 1000

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?:in)?)?(?:(\d+(?:\.\d+)?)s)?")


def read_duration(text: str) -> float:
    """`90`, `90s`, `30m`, `2h`, `1h30m`, `1d` as seconds. Raises `ValueError`."""
    packed = text.replace(" ", "")
    match = _DURATION.fullmatch(f"{packed}s" if packed.replace(".", "", 1).isdecimal() else packed)
    if not match or not any(match.groups()):
        raise ValueError(f"{text!r} is not a duration; write 90s, 30m, 2h, 1h30m or 1d")
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def read_memory(text: str) -> float:
    """`16`, `16GiB`, `512MiB` as GiB. Raises `ValueError`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(?:(Gi?B?|Mi?B?))?", text)
    if not match:
        raise ValueError(f"{text!r} is not an amount of memory; write 16GiB or 512MiB")
    return float(match[1]) / (1024 if (match[2] or "G").startswith("M") else 1)


def read_array(text: str) -> tuple[list[int], int | None]:
    """`100`, `0-99`, `1,3,5-9`, `0-99%10` as indices and how many may run at once. Raises `ValueError`."""
    listed, percent, at_once = text.replace(" ", "").partition("%")
    indices: dict[int, None] = {}
    if listed.isdecimal():
        listed = f"0-{int(listed) - 1}"
    for part in listed.split(","):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part)
        if not match:
            break
        first, last = int(match[1]), int(match[2] or match[1])
        indices.update(dict.fromkeys(range(first, last + 1)))
    else:
        if 0 < len(indices) <= LONGEST_ARRAY and bool(percent) == bool(re.fullmatch("[1-9][0-9]*", at_once)):
            return [*indices], int(at_once) if percent else None
    raise ValueError(
        f"{text!r} is not an array of 1 to {LONGEST_ARRAY} jobs; write 100, 0-99, 1,3,5-9, or 0-99%10 for ten at a time"
    )
