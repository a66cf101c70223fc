"""The settings of the pool file, to and from the model."""

from __future__ import annotations

from dataclasses import asdict

from scheduler.errors import Invalid
from scheduler.model import DeclaredLoad, GroupName, IdleException, ReclaimUpTo, Settings, UserName
from scheduler.schema import DeclaredLoadEntry, IdleExceptionEntry, SettingsEntry
from scheduler.schema.reading import mib


def settings_entry(settings: Settings) -> SettingsEntry:
    return SettingsEntry.model_validate(
        {name: getattr(settings, name) for name in SettingsEntry.model_fields}
        | {
            "reclaim": settings.reclaim.value,
            "service_levels": list(settings.service_levels),
            "session_idle_exceptions": [asdict(each) for each in settings.session_idle_exceptions],
            "declared_load": _load_entry(settings.declared_load),
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
            "declared_load": _load(entry.declared_load),
        }
    )


def _exception(entry: IdleExceptionEntry) -> IdleException:
    return IdleException(
        users=tuple(map(UserName, entry.users)),
        groups=tuple(map(GroupName, entry.groups)),
        **entry.model_dump(exclude={"users", "groups"}),
    )


def _load(entry: DeclaredLoadEntry | None) -> DeclaredLoad | None:
    if entry is None:
        return None
    if entry.used_memory_gib > entry.memory_gib:
        raise Invalid(
            f"A GPU of {entry.memory_gib:g} GiB cannot use {entry.used_memory_gib:g} GiB.",
            field="settings.declared_load.used_memory_gib",
        )
    memory = mib(entry.memory_gib, "settings.declared_load.memory_gib")
    used = mib(entry.used_memory_gib, "settings.declared_load.used_memory_gib")
    return DeclaredLoad(entry.use, memory, used, entry.power_watts, entry.temperature)


def _load_entry(load: DeclaredLoad | None) -> DeclaredLoadEntry | None:
    if load is None:
        return None
    return DeclaredLoadEntry(
        use=load.use,
        memory_gib=load.memory / 1024,
        used_memory_gib=load.used_memory / 1024,
        power_watts=load.power,
        temperature=load.temperature,
    )
