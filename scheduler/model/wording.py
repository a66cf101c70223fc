"""How amounts and durations are written for people, everywhere the same."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from scheduler.model.amounts import ONE, MiB, Milli


def number(value: float) -> str:
    """`1`, `0.25`, `1.5`: three decimals at most."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def gpu_count(amount: Milli) -> str:
    """`1 GPU`, `2.5 GPUs`."""
    return f"{number(amount / ONE)} GPU{'' if amount == ONE else 's'}"


def cpu_count(amount: Milli) -> str:
    """`1 CPU`, `2.5 CPUs`."""
    return f"{number(amount / ONE)} CPU{'' if amount == ONE else 's'}"


def memory_size(amount: MiB) -> str:
    """`512 MiB`, `16 GiB`, `17.6 GiB`: one decimal at most, rounded down, so that a maximum can be asked for."""
    return f"{amount} MiB" if 0 < amount < 1024 else f"{number(amount * 10 // 1024 / 10)} GiB"


def duration(seconds: float) -> str:
    """`<1 s`, `8 s`, `3 min`, `2 h 5 min`, `4 d 3 h`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s" if whole else "<1 s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if minutes < 10 and rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def time_of_day(at: float, timezone: str, now: float) -> str:
    """`09:00`, or on another day `09:00 on Fri 4 Dec`, by the clocks of a time zone."""
    zone = ZoneInfo(timezone)
    moment, today = datetime.fromtimestamp(at, zone), datetime.fromtimestamp(now, zone)
    if moment.date() == today.date():
        return f"{moment:%H:%M}"
    return f"{moment:%H:%M} on {moment:%a} {moment.day} {moment:%b}"
