"""What happens to notebook servers that are idle or have reached the longest duration of a session.

An idle server is warned. Then its GPUs are lent to jobs for a while, if the rules say so. At last the server is
stopped, or its GPUs are taken back while it keeps running.

Pure. What must hold:
- A server is stopped, and its GPUs are lent or taken back, only if it was warned and the whole grace has passed since.
- A server that has not reached the longest duration is stopped only if it was idle all the time since its warning.
- A warning is withdrawn as soon as the settings allow the server to stay; a warning for idleness also when the server
  is used or nobody can tell whether it is.
- Warnings are kept in memory: after a restart of the scheduler, a server is warned again and has the whole grace. That
  its GPUs are lent is durable.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from scheduler.model import IdleAction, IdleRules, SessionId, Settings, duration

SAME = 10.0
"""Seconds by which two reports may differ about the same last activity."""


@dataclass(frozen=True, slots=True)
class IdleServer:
    """A server that is idle since `since`, and the rules for it. `lent` is since when its GPUs are lent."""

    since: float
    rules: IdleRules
    lent: float | None = None


@dataclass(frozen=True, slots=True)
class StopWarning:
    """A warned server. `since` (when it became idle), `told`, `lends_at` and `stops_at` are in seconds since the epoch.

    At `lends_at` its GPUs are lent. At `stops_at` it is stopped or, with `takes_back`, asked to release its GPUs
    (`asked`); then, if it has not, it is stopped. With `longest`, the longest duration of a session in seconds, it was
    warned because of that, and `since` is when it started.
    """

    session: SessionId
    since: float
    told: float
    stops_at: float
    longest: float = 0.0
    lends_at: float | None = None
    takes_back: bool = False
    asked: bool = False

    def sentence(self) -> str:
        left = duration(self.stops_at - self.told)
        if self.longest:
            return f"Its server will be stopped after {left}: a server may run for {duration(self.longest)} at most."
        lends = "" if self.lends_at is None else f"lent after {duration(self.lends_at - self.told)} and "
        then = f"its GPUs will be {lends}taken back" if self.takes_back else "it will be stopped"
        if lends and not self.takes_back:
            then = f"its GPUs will be {lends}it will be stopped"
        return f"Its server was idle for {duration(self.told - self.since)}; {then} after {left} more without use."

    def done(self, now: float) -> str:
        """What was done, and why."""
        passed = duration(now - self.since)
        if self.longest:
            return f"Its server was stopped after {passed}: a server may run for {duration(self.longest)} at most."
        if self.asked:
            return f"Its server was stopped after {passed} idle, because it did not release its GPUs."
        return f"Its server was stopped after {passed} idle."


@dataclass(frozen=True, slots=True)
class ServerStops:
    """The warnings in force, those of the servers whose GPUs are to be lent now, and those that are `due`."""

    warnings: Mapping[SessionId, StopWarning] = field(default_factory=dict)
    lend: Collection[StopWarning] = ()
    due: Collection[StopWarning] = ()


def server_stops(
    before: Mapping[SessionId, StopWarning],
    idle: Mapping[SessionId, IdleServer],
    started: Mapping[SessionId, float],
    settings: Settings,
    now: float,
) -> ServerStops:
    """The warnings after those of `before`: `idle` has the servers that are idle at `now`, `started` when each server
    started, in seconds since the epoch. The earlier of two stops of a server counts."""
    warnings = _idle(before, idle, now)
    for session, warning in _longest(before, started, settings, now).items():
        if session not in warnings or warning.stops_at < warnings[session].stops_at:
            warnings[session] = warning
    due = [each for each in warnings.values() if now >= each.stops_at]
    lend = [
        each
        for each in warnings.values()
        if each.lends_at is not None and each.lends_at <= now < each.stops_at and idle[each.session].lent is None
    ]
    return ServerStops(warnings, lend, due)


def _idle(
    before: Mapping[SessionId, StopWarning], idle: Mapping[SessionId, IdleServer], now: float
) -> dict[SessionId, StopWarning]:
    warnings: dict[SessionId, StopWarning] = {}
    for session, server in idle.items():
        if not server.rules.timeout or now - server.since < server.rules.timeout:
            continue
        known = before.get(session)
        unused = known is not None and not known.longest and server.since <= known.since + SAME
        warnings[session] = known if known and unused else _warned(session, server, now)
    return warnings


def _warned(session: SessionId, server: IdleServer, now: float) -> StopWarning:
    rules = server.rules
    lends_at = now + rules.grace if rules.lend and server.lent is None else None
    end = now + rules.grace + rules.lend if server.lent is None else max(now + rules.grace, server.lent + rules.lend)
    takes_back = rules.action is IdleAction.TAKE_BACK
    return StopWarning(session, server.since, now, end, lends_at=lends_at, takes_back=takes_back)


def _longest(
    before: Mapping[SessionId, StopWarning], started: Mapping[SessionId, float], settings: Settings, now: float
) -> dict[SessionId, StopWarning]:
    """They are warned one grace before the end, so that they end in time."""
    longest, grace = settings.session_max_duration, settings.session_idle_grace
    warnings: dict[SessionId, StopWarning] = {}
    for session, since in started.items():
        if not longest or now < since + longest - grace:
            continue
        known = before.get(session)
        new = StopWarning(session, since, now, max(since + longest, now + grace), longest)
        warnings[session] = known if known is not None and known.longest == longest else new
    return warnings


def postponed(warning: StopWarning, grace: float, now: float) -> StopWarning:
    """The warning of a server that is stopping: should it still be there after another grace, it is stopped again."""
    return replace(warning, stops_at=now + grace)


def asked(warning: StopWarning, patience: float, now: float) -> StopWarning:
    """The warning of a server that is asked to release its GPUs, and is stopped if it does not within `patience`."""
    return replace(warning, asked=True, stops_at=now + patience)
