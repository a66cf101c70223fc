"""Servers that wait in line for GPUs to build on: nobody overtakes, nobody is placed twice, and who goes has left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from scheduler.controller import sessionline
from scheduler.controller.sessionline import likely_start, offered
from scheduler.errors import Conflict, NotFound, Unavailable
from scheduler.model import Session, SessionId, SessionState
from scheduler.policy import decide
from scheduler.store import AuditFilter
from tests.controller.stage import Bench, World, make_session, opened


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=8))
def test_nobody_is_offered_gpus_behind_one_that_could_not_be_placed(asked: list[tuple[int, bool]]) -> None:
    line = [(replace(make_session(str(n)), requested=float(at)), passed) for n, (at, passed) in enumerate(asked)]
    found = list(offered(line))
    order = sorted(line, key=lambda each: (each[0].requested, each[0].id))
    assert found == [session for session, _ in order[: len(found)]]
    assert not any(passed for _, passed in order[: len(found) - 1])
    assert len(found) == len(line) or order[len(found) - 1][1]


amounts = st.lists(st.integers(1, 4000), min_size=1, max_size=5)
ends = st.lists(st.tuples(st.integers(0, 50).map(float), st.integers(1, 4000)), max_size=6)


@given(amounts, st.integers(0, 3000), ends)
def test_the_likely_start_is_the_first_instant_at_which_all_before_it_fit(
    ahead: list[int], free: int, known: list[tuple[float, int]]
) -> None:
    found = likely_start(ahead, free, known)
    instants = [
        at for at in sorted({at for at, _ in known}) if free + sum(h for t, h in known if t <= at) >= sum(ahead)
    ]
    assert found == (instants[0] if instants else None)


@pytest.fixture
async def full(tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    """A pool whose two GPUs to build on are held by ana and bo."""
    monkeypatch.setattr(sessionline, "HOLD", 0.01)
    async with opened(tmp_path, world, decide=decide) as bench:
        for user in ("ana", "bo"):
            await bench.controller.open_session(make_session(user))
        yield bench


async def waits(bench: Bench, user: str) -> Session:
    session = await bench.controller.open_session(make_session(user), wait=True)
    assert session.state is SessionState.REQUESTED
    return session


def users(sessions: list[Session]) -> list[str]:
    return [session.user for session in sessions]


def holding(bench: Bench) -> set[str]:
    return {session.user for session in bench.controller.book.sessions.values()}


def held_by(bench: Bench, user: str) -> SessionId:
    return next(session.id for session in bench.controller.book.sessions.values() if session.user == user)


async def test_the_first_in_line_gets_what_is_released(full: Bench) -> None:
    first, second = await waits(full, "cy"), await waits(full, "dan")
    assert users(full.controller.sessions_in_line()) == ["cy", "dan"]
    assert (await waits(full, "dan")).id == second.id  # it keeps its place
    with pytest.raises(Unavailable, match="2 other servers wait in line"):
        await full.controller.open_session(make_session("eve"))
    await full.controller.close_session(held_by(full, "bo"))
    await full.until(lambda: holding(full) == {"ana", "cy"})
    assert (await full.controller.open_session(make_session("cy"), wait=True)).id == first.id
    assert users(full.controller.sessions_in_line()) == ["dan"]
    await full.controller.close_session(held_by(full, "ana"))
    await full.until(lambda: holding(full) == {"cy", "dan"})
    assert full.controller.sessions_in_line() == []


async def test_who_leaves_the_line_makes_room_in_it(full: Bench) -> None:
    first = await waits(full, "cy")
    await waits(full, "dan")
    assert (await full.controller.close_session(first.id)).state is SessionState.ENDED
    assert users(full.controller.sessions_in_line()) == ["dan"]
    with pytest.raises(NotFound):
        await full.controller.close_session(first.id)
    await full.controller.close_session(held_by(full, "ana"))
    await full.until(lambda: holding(full) == {"bo", "dan"})


async def test_a_removal_from_the_line_by_another_is_audited(full: Bench) -> None:
    first, second = await waits(full, "cy"), await waits(full, "dan")
    await full.controller.close_session(first.id)
    await full.controller.close_session(second.id, by="root")
    entries = await full.store.audit(AuditFilter(kind="session"), limit=10)
    assert [(entry.user, entry.action, entry.name) for entry in entries] == [("root", "remove", second.id)]


async def test_who_does_not_ask_again_has_left(full: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessionline, "RENEWAL", 0.05)
    await waits(full, "cy")
    async with asyncio.timeout(10):
        while full.controller.sessions_in_line():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await full.controller.close_session(held_by(full, "ana"))
    assert (await full.controller.open_session(make_session("dan"))).state is SessionState.LEASED


async def test_an_earlier_request_comes_first_after_a_restart(full: Bench) -> None:
    await waits(full, "dan")
    earlier = replace(make_session("cy"), requested=make_session().requested - 60)
    await full.controller.open_session(earlier, wait=True)
    assert users(full.controller.sessions_in_line()) == ["cy", "dan"]
    await full.controller.close_session(held_by(full, "ana"))
    await full.until(lambda: holding(full) == {"bo", "cy"})


async def test_who_asks_for_more_than_the_quota_does_not_wait(full: Bench) -> None:
    await waits(full, "cy")
    for user in ("ana", "cy"):
        with pytest.raises(Conflict, match="quota of 1 GPU for notebooks and uses 1"):
            await full.controller.open_session(make_session(user, server="second"), wait=True)
    assert users(full.controller.sessions_in_line()) == ["cy"]
