"""The values of options other than those of a submission: each function reads a word, or raises an error that says what
to write instead."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from scheduler.model import NoticeKind
from scheduler.submission import values
from scheduler.submission.amounts import read_duration


def _reader(read: Callable[[str], Any], sentence: str = "") -> Callable[[str], Any]:
    def convert(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r} {sentence}" if sentence else str(error)) from None

    return convert


def _fraction(text: str) -> float:
    if not 0 < float(text) <= 1:
        raise ValueError
    return float(text)


def _priority(text: str) -> int:
    if not 0 <= int(text) <= 1000:
        raise ValueError
    return int(text)


def _factors(text: str) -> list[float]:
    factors = _amounts_of(text)
    if not all(factors):
        raise ValueError
    return factors


def _amounts_of(text: str) -> list[float]:
    return [values.amount(word) for word in values.names(text)]


def _quota_of(text: str) -> dict[str, Any]:
    """A project's quota of a part of the pool, as `gpu_type=A100,guaranteed=4,limit=8`."""
    quota: dict[str, Any] = {}
    for word in values.names(text):
        name, _, value = word.partition("=")
        if name in ("node_pool", "gpu_type") and value:
            quota[name] = value
        elif name in ("guaranteed", "limit"):
            if value != "none":
                quota[name] = values.amount(value)
        else:
            raise ValueError
    if not quota.keys() & {"node_pool", "gpu_type"}:
        raise ValueError
    return quota


def _window_of(text: str) -> dict[str, Any] | None:
    from scheduler.pool.windows import read_window

    return None if text == "none" else read_window(text)


def _instant(text: str) -> float:
    """A day or an instant on this machine's clock, or a duration before now."""
    if text[:4].isdigit() and "-" in text:
        return datetime.fromisoformat(text).timestamp()
    return time.time() - read_duration(text)


def _dimensions(text: str) -> list[str]:
    found = [] if text == "none" else values.names(text)
    if not {*found} <= {"environment", "project", "user", "gpu_type"}:
        raise ValueError
    return found


def _guarantee_of(text: str) -> tuple[str, float]:
    """A project and the GPUs that it is guaranteed, such as `team=40`."""
    name, _, gpus = text.rpartition("=")
    if not name:
        raise ValueError
    return name, values.amount(gpus)


def _more_gpus(text: str) -> int:
    return values.count(text.removeprefix("+"))


def _ruled(text: str) -> tuple[str, Any]:
    """A rule of a project's policy, such as `maxima.max_runtime=2h`, and its value."""
    name, _, value = text.partition("=")
    part, _, rule = name.partition(".")
    if not part or not rule or not value:
        raise ValueError
    if value == "none":
        return name, None
    if rule.endswith(("_runtime", "_timeout", "grace")):
        return name, read_duration(value)
    if rule == "preemptible":
        truths = [{"true": True, "false": False}.get(word, word) for word in values.names(value)]
        return name, truths if part == "allowed" else truths[0]
    if rule in ("gpu_types", "node_pools"):
        return name, values.names(value)
    number = values.amount(value)
    return name, int(number) if number.is_integer() else number


def _events(text: str) -> list[str]:
    return [NoticeKind(name).value for name in values.names(text)]


events = _reader(_events, "is not a list of events; write some of failed,succeeded,cancelled,warned,paused,resumed")
seconds = _reader(read_duration)
count = _reader(values.count)
priority = _reader(_priority, "is not a priority; write a number from 0 to 1000")
whole = _reader(values.whole)
amount = _reader(values.amount)
names = _reader(values.names)
bound = _reader(
    lambda text: None if text == "none" else values.amount(text), "is not an amount; write 0 or more, or `none`"
)
instant = _reader(
    _instant, "is neither a time nor a duration; write one such as 2026-03-01, 2026-03-01T12:00, 7d or 12h"
)
dimensions = _reader(_dimensions, "is no list of groups; write some of project,user,gpu_type,environment, or none")
guarantee = _reader(_guarantee_of, "is not a guarantee; write a project and its GPUs, such as team=40")
more_gpus = _reader(_more_gpus, "is not a number of additional GPUs; write one such as +8")
share = _reader(_fraction, "is not a share; write a number above 0 and up to 1")
numbers = _reader(_factors, "is not a list of factors; write numbers above 0 with commas between them")
amounts = _reader(_amounts_of, "is not a list of amounts; write numbers with commas between them")
window = _reader(
    _window_of,
    'is not a window; write one such as "mon-fri 09:00-12:00 Europe/Berlin guaranteed=20", or `none`',
)
quota = _reader(
    _quota_of,
    "is not a quota; write one such as gpu_type=A100,guaranteed=4,limit=8 or node_pool=fast,limit=2",
)
rule = _reader(
    _ruled,
    "is not a rule; write one such as maxima.gpus=4, allowed.gpu_types=A100,H100 or defaults.priority=none",
)
