"""Which notebook servers are warned that they will be stopped, and which of them are stopped: the idle ones, and those
that have reached the longest duration of a session.

Pure. What must hold:
- A server is stopped only if it was warned and the whole grace has passed since.
- A server that has not reached the longest duration is stopped only if it was idle all the time since its warning.
- A warning is withdrawn as soon as the settings allow the server to stay; a warning for idleness also when the server
  is used or nobody can tell whether it is.
- Warnings are kept in memory: after a restart of the scheduler, a server is warned again and has the whole grace.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from scheduler.model import SessionId, Settings, duration

SAME = 10.0
"""Seconds by which two reports may differ about the same last activity."""


@dataclass(frozen=True, slots=True)
class StopWarning:
    """A warned server. `since` (when it became idle), `told` and `stops_at` are in seconds since the epoch.

    With `longest`, the longest duration of a session in seconds, it was warned because of that, and `since` is when it
    started.
    """

    session: SessionId
    since: float
    told: float
    stops_at: float
    longest: float = 0.0

    def sentence(self) -> str:
        idle, left = duration(self.told - self.since), duration(self.stops_at - self.told)
        if self.longest:
            return f"Its server will be stopped after {left}: a server may run for {duration(self.longest)} at most."
        return f"Its server was idle for {idle}; it will be stopped after {left} more without use."

    def stopped(self, now: float) -> str:
        if self.longest:
            ran = duration(now - self.since)
            return f"Its server was stopped after {ran}: a server may run for {duration(self.longest)} at most."
        return f"Its server was stopped after {duration(now - self.since)} idle."


@dataclass(frozen=True, slots=True)
class ServerStops:
    """The warnings in force, and those of the servers to be stopped now."""

    warnings: Mapping[SessionId, StopWarning] = field(default_factory=dict)
    due: Collection[StopWarning] = ()


def server_stops(
    before: Mapping[SessionId, StopWarning],
    idle: Mapping[SessionId, float],
    started: Mapping[SessionId, float],
    settings: Settings,
    now: float,
) -> ServerStops:
    """The warnings after those of `before`: `idle` has the servers that are idle at `now` and since when, `started`
    when each server started, in seconds since the epoch. The earlier of two stops of a server counts."""
    warnings = _idle(before, idle, settings, now)
    for session, warning in _longest(before, started, settings, now).items():
        if session not in warnings or warning.stops_at < warnings[session].stops_at:
            warnings[session] = warning
    return ServerStops(warnings, [each for each in warnings.values() if now >= each.stops_at])


def _idle(
    before: Mapping[SessionId, StopWarning], idle: Mapping[SessionId, float], settings: Settings, now: float
) -> dict[SessionId, StopWarning]:
    timeout, grace = settings.session_idle_timeout, settings.session_idle_grace
    warnings: dict[SessionId, StopWarning] = {}
    for session, since in idle.items():
        if not timeout or now - since < timeout:
            continue
        known = before.get(session)
        unused = known is not None and not known.longest and since <= known.since + SAME
        warnings[session] = known if known and unused else StopWarning(session, since, now, now + grace)
    return warnings


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
