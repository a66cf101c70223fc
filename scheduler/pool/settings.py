"""The settings of the pool file, to and from the model."""

from __future__ import annotations

from dataclasses import asdict

from scheduler.errors import Invalid
from scheduler.model import GroupName, IdleException, ReclaimUpTo, Settings, UserName
from scheduler.schema import IdleExceptionEntry, SettingsEntry


def settings_entry(settings: Settings) -> SettingsEntry:
    return SettingsEntry.model_validate(
        {name: getattr(settings, name) for name in SettingsEntry.model_fields}
        | {
            "reclaim": settings.reclaim.value,
            "service_levels": list(settings.service_levels),
            "session_idle_exceptions": [asdict(each) for each in settings.session_idle_exceptions],
        }
    )


def settings_of(entry: SettingsEntry) -> Settings:
    if not entry.lending and any([entry.session_idle_lend, *[each.lend for each in entry.session_idle_exceptions]]):
        raise Invalid(
            "GPUs of idle notebook servers are lent only with `lending: true`; add it, or remove "
            "`session_idle_lend` and `lend`.",
            field="settings.session_idle_lend",
        )
    return Settings(
        **entry.model_dump()
        | {
            "reclaim": ReclaimUpTo(entry.reclaim),
            "service_levels": tuple(sorted(entry.service_levels)),
            "session_idle_exceptions": tuple(_exception(each) for each in entry.session_idle_exceptions),
        }
    )


def _exception(entry: IdleExceptionEntry) -> IdleException:
    return IdleException(
        users=tuple(map(UserName, entry.users)),
        groups=tuple(map(GroupName, entry.groups)),
        **entry.model_dump(exclude={"users", "groups"}),
    )
