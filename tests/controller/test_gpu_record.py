"""GPUs that fail and work again: once in the event log and once in the audit, also across restarts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.errors import Unavailable
from scheduler.store import AuditFilter
from tests.controller.stage import DISK, NODES, Bench, World, make_job, opened

WHY = "Xid 79: GPU has fallen off the bus."
WELL = NODES[1]
FAILING = replace(WELL, failing=((2, WHY),))


async def told(bench: Bench) -> list[tuple[str, str, object]]:
    events = await bench.store.events(0)
    return [(each.kind, each.subject, (each.data or {}).get("reason")) for each in events if each.kind[:4] == "gpu."]


async def audited(bench: Bench) -> list[tuple[object, ...]]:
    found = await bench.store.audit(AuditFilter(kind="gpu"), limit=10)
    return [(each.user, each.name, each.before, each.after) for each in reversed(found)]


FAILED, RECOVERED = ("gpu.failed", "n1/2", WHY), ("gpu.recovered", "n1/2", WHY)


async def test_a_gpu_that_fails_and_works_again_is_recorded_once(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world, WELL) as bench:
        bench.machines.become(FAILING)
        bench.machines.become(replace(FAILING, failing=((2, "The GPU does not respond."),)))
        bench.machines.become(WELL)
        await bench.settled()
        assert await told(bench) == [FAILED, RECOVERED]
        assert await audited(bench) == [
            (None, "n1/2", {"failure": None}, {"failure": WHY}),
            (None, "n1/2", {"failure": WHY}, {"failure": None}),
        ]


async def test_what_happened_to_gpus_while_the_scheduler_was_down_is_recorded_when_it_starts(
    tmp_path: Path, world: World
) -> None:
    async with opened(tmp_path, world, WELL) as bench:
        bench.machines.become(FAILING)
        await bench.settled()
    async with opened(tmp_path, world, FAILING, pool=None) as bench:
        await bench.settled()
        assert await told(bench) == [FAILED], "known before"
    async with opened(tmp_path, world, WELL, pool=None) as bench:
        await bench.settled()
        assert await told(bench) == [FAILED, RECOVERED]
    async with opened(tmp_path, world, FAILING, pool=None) as bench:
        await bench.settled()
        assert await told(bench) == [FAILED, RECOVERED, FAILED]


async def test_a_gpu_of_a_node_that_is_gone_does_not_count_as_recovered(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world, *NODES[:1], FAILING) as bench:
        bench.machines.become(NODES[0])
        bench.machines.become(NODES[0], FAILING)
        await bench.settled()
        assert await told(bench) == [FAILED]


async def test_a_record_that_could_not_be_written_is_written_later(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world, WELL) as bench:
        await bench.settled()
        before = bench.controller.book.last_event
        DISK.full = True
        bench.machines.become(FAILING)
        with pytest.raises(Unavailable):
            await bench.controller.submit(make_job())
        DISK.full = False
        await bench.until(lambda: bench.controller.book.last_event > before)
        assert await told(bench) == [FAILED]
