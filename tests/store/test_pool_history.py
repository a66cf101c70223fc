"""The history of the pool: its sums survive condensing, its size stays bounded, and an older state brings its own."""

from __future__ import annotations

import sqlalchemy
from sqlalchemy import func, select

from scheduler.model import Consumer, Consumption, Environment, GpuType, PoolUse, ProjectName, UserName
from scheduler.store import ChangeSet, PoolRecord, Store, UsageRecord, tables
from scheduler.store.poolhistory import DAY, HOUR, MINUTE, MOST_ROWS

START = 1_600_000_000 // DAY * DAY
EVER = 4_000_000_000


def record(minute: int, **amounts: float) -> PoolRecord:
    return PoolRecord(START + minute * MINUTE, PoolUse(**{"observed": 60, "held": 120, "queued": 60, **amounts}))  # type: ignore[arg-type]


async def total(store: Store) -> PoolUse:
    found = await store.pool_history(0, EVER, DAY)
    return sum((each.used for each in found), PoolUse())


async def test_records_are_summed_in_periods_of_any_length(store: Store) -> None:
    await store.write(
        ChangeSet(history=(record(0, starts=1, wait=5, longest_wait=5), record(0, observed=0), record(4)))
    )
    await store.write(ChangeSet(history=(record(0, observed=0, starts=2, wait=9, longest_wait=7), record(5))))
    minutes = await store.pool_history(START, EVER, MINUTE)
    assert [each.start - START for each in minutes] == [0, 4 * MINUTE, 5 * MINUTE]
    assert minutes[0].used == PoolUse(60, held=360, queued=180, starts=3, wait=14, longest_wait=7)
    fives = await store.pool_history(START + 60, START + HOUR, 5 * MINUTE)
    assert [(each.start - START, each.used.held) for each in fives] == [(0, 480), (5 * MINUTE, 120)]


async def test_what_is_not_known_of_a_part_is_not_known_of_the_whole(store: Store) -> None:
    unknown = PoolRecord(START, PoolUse(60, held=1, queued=None))
    await store.write(ChangeSet(history=(unknown, record(1), record(60))))
    await store.write(ChangeSet(condensed=START + 3 * DAY))
    assert [each.used.queued for each in await store.pool_history(0, EVER, HOUR)] == [None, 60]
    assert (await total(store)).queued is None


async def test_the_number_of_rows_is_bounded_and_sums_are_kept(store: Store, url: str) -> None:
    """Fourteen months, of which the last weeks have a record for each minute."""
    minutes = [*range(0, 400 * 24 * 60, 60), *range(400 * 24 * 60, 420 * 24 * 60)]
    for at in range(0, len(minutes), 1440):
        some = minutes[at : at + 1440]
        await store.write(ChangeSet(history=tuple(map(record, some)), condensed=START + (some[-1] + 1) * MINUTE))
    engine = sqlalchemy.create_engine(url)
    with engine.connect() as connection:
        row = tables.pool_history.c
        count, first = connection.execute(select(func.count(), func.min(row.start))).one()
        levels = set(connection.scalars(select(row.seconds)))
    engine.dispose()
    assert count == 2 * 1440 + (14 - 2) * 24 + (397 - 14) <= MOST_ROWS
    assert levels == {MINUTE, HOUR, DAY}
    assert first == START + (420 - 397) * DAY
    kept_minutes = [minute for minute in minutes if START + minute * MINUTE >= first]
    assert await total(store) == PoolUse(
        60.0 * len(kept_minutes), 120.0 * len(kept_minutes), queued=60.0 * len(kept_minutes)
    )


async def test_an_older_state_brings_the_use_of_its_completed_periods(store: Store, url: str) -> None:
    def used(hour: int, environment: Environment, **amounts: float) -> UsageRecord:
        consumer = Consumer(environment, ProjectName("p"), UserName("ana"), GpuType("A100"))
        return UsageRecord(START + hour * HOUR, consumer, Consumption(held=3600, **amounts))  # type: ignore[arg-type]

    await store.write(
        ChangeSet(
            accounted=(
                used(0, Environment.TRAIN, starts=2, wait=30, longest_wait=20, measured=60, idle=6),
                used(0, Environment.BUILD, starts=1, wait=500, longest_wait=500),
                used(1, Environment.TRAIN),
            )
        )
    )
    store.close()
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE pool_history")
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0017'")
    engine.dispose()
    store = Store(url)
    store.open()
    assert await store.pool_history(0, EVER, HOUR) == [
        PoolRecord(START, PoolUse(3600, 7200, 60, 6, queued=None, starts=2, wait=30, longest_wait=20))
    ]
    store.close()
