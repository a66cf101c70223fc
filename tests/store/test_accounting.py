"""The record of use: its totals survive compaction, and its size stays bounded."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy
from sqlalchemy import func, select

from scheduler.model import Consumer, Consumption, Environment, GpuType, ProjectName, UserName
from scheduler.store import ChangeSet, Store, UsageRecord, WantedUsage, accounting, tables
from scheduler.store.accounting import DAY, DAYS, HOUR, HOURS

START = 1_600_000_000 // DAY * DAY
EVER = WantedUsage(0, 4_000_000_000)


def used(hour: int, user: str = "ana", project: str = "vision", held: float = 1.0) -> UsageRecord:
    consumer = Consumer(Environment.TRAIN, ProjectName(project), UserName(user), GpuType("A100"))
    return UsageRecord(
        START + hour * HOUR, consumer, Consumption(held, measured=held, idle=held / 2, starts=1, longest_wait=hour)
    )


async def rows_of(store: Store, wanted: WantedUsage = EVER, *by: str) -> dict[tuple[str, ...], Consumption]:
    found = await store.used(replace(wanted, by=by))
    return {each.names: each.used for each in found}


async def test_added_records_are_summed(store: Store) -> None:
    await store.write(ChangeSet(accounted=(used(0), used(0, held=2), used(1), used(1, "ben"))))
    await store.write(ChangeSet(accounted=(used(0), used(1, held=-1)), accounted_until=7.0))
    assert await rows_of(store, EVER, "user") == {
        ("ana",): Consumption(4, 4, 2, 5, longest_wait=1),
        ("ben",): Consumption(1, 1, 0.5, 1, longest_wait=1),
    }
    hours = await store.used(replace(EVER, by=["project"], every=(HOUR, 0)))
    assert [(each.start, each.used.held) for each in hours] == [(START, 4), (START + HOUR, 1)]
    assert store.load().accounted_until == 7.0


async def test_callers_read_only_their_own_use_and_that_of_their_projects(store: Store) -> None:
    await store.write(ChangeSet(accounted=(used(0), used(0, "ben"), used(0, "ben", "nlp"), used(0, "cy", "nlp"))))
    seen = WantedUsage(0, 4_000_000_000, visible=("ana", ["nlp"]))
    assert set(await rows_of(store, seen, "project", "user")) == {("vision", "ana"), ("nlp", "ben"), ("nlp", "cy")}


async def test_hours_are_merged_into_days_without_loss(store: Store) -> None:
    await store.write(ChangeSet(accounted=tuple(used(hour) for hour in range(72))))
    now = START + 72 * HOUR + HOURS * HOUR
    before = await rows_of(store, EVER, "user")
    for _ in range(2):  # the second time there is nothing left to do
        await store.write(ChangeSet(condensed=now))
        assert await rows_of(store, EVER, "user") == before
    assert [each.start for each in await store.used(replace(EVER, every=(HOUR, 0)))] == [
        START,
        START + DAY,
        START + 2 * DAY,
    ]
    await store.write(ChangeSet(accounted=(used(1),)))  # an end reported late
    await store.write(ChangeSet(condensed=now))
    assert (await rows_of(store, EVER, "user"))[("ana",)].held == 73


async def test_the_number_of_rows_is_bounded(store: Store, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fourteen months with more consumers than are kept for a period, and a small bound."""
    most, days = 6, 430
    monkeypatch.setattr(accounting, "MOST", most)
    hours = [*range(0, 24 * (days - 15), 24), *range(24 * (days - 15), 24 * days - 1)]
    crowd = [used(0, f"user{n}", held=1 + n % 7) for n in range(2 * most)]
    for at in range(0, len(hours), 40):
        some = hours[at : at + 40]
        records = (replace(each, start=START + hour * HOUR) for hour in some for each in crowd)
        await store.write(ChangeSet(accounted=tuple(records), condensed=START + (some[-1] + 1) * HOUR))
    engine = sqlalchemy.create_engine(url)
    with engine.connect() as connection:
        count, first = connection.execute(select(func.count(), func.min(tables.accounting.c.start))).one()
    engine.dispose()
    assert (HOURS + DAYS) * (most - 1) <= count <= (HOURS + DAYS + 24) * most
    assert first == START + (days - 1 - DAYS) * DAY
    kept = [hour for hour in hours if hour >= 24 * (days - 1 - DAYS)]
    assert (await rows_of(store))[()].starts == len(kept) * len(crowd)
