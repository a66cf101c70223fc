"""Sessions: placed at once or refused with the reason, one lease for a user's server, never preempted."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.controller import session_lifecycle
from scheduler.errors import Conflict, Invalid, NotFound, Unavailable
from scheduler.model import ONE, JobId, SessionId, SessionState, User, UserName
from scheduler.policy import Action, Decision, Plan, Snapshot
from scheduler.policy.blocking import OverBuildQuota
from tests.controller.stage import POOL, Bench, World, begin, first_come, make_session, opened


async def test_a_session_gets_its_lease_at_once(bench: Bench) -> None:
    session = await bench.controller.open_session(make_session())
    assert session.state is SessionState.LEASED
    assert session.placement[0].node == "box-build"
    assert bench.controller.book.sessions[session.id] == session
    assert session.reason == "Holds its GPUs on box-build."


async def test_the_same_server_has_the_same_lease(bench: Bench) -> None:
    asked = await asyncio.gather(*(bench.controller.open_session(make_session()) for _ in range(5)))
    again = await bench.controller.open_session(make_session())
    assert len({session.id for session in (*asked, again)}) == 1
    assert len(bench.controller.book.sessions) == 1
    other = await bench.controller.open_session(make_session(server="second"))
    assert other.id != again.id


async def test_a_session_that_does_not_fit_is_refused_with_the_reason(bench: Bench) -> None:
    first = await bench.controller.open_session(make_session("ana"))
    await bench.controller.open_session(make_session("bo"))
    with pytest.raises(Unavailable, match="to become free"):
        await bench.controller.open_session(make_session("cy"))
    await bench.controller.close_session(first.id)
    assert (await bench.controller.open_session(make_session("cy"))).state is SessionState.LEASED


async def test_a_refusal_for_the_quota_is_a_conflict(tmp_path: Path, world: World) -> None:
    def over_quota(snapshot: Snapshot) -> Plan:
        wait = Decision(
            Action.WAIT, "ana holds 1 GPU already.", blocked_by=OverBuildQuota(UserName("ana"), 1000, 1000, 1000)
        )
        return Plan({w.id: wait for w in snapshot.workloads}, {})

    async with opened(tmp_path, world, decide=over_quota) as bench:
        with pytest.raises(Conflict, match="ana holds 1 GPU already"):
            await bench.controller.open_session(make_session())
        assert bench.controller.book.sessions == {}


async def test_more_than_a_quota_or_a_node_is_refused_before_any_plan(bench: Bench) -> None:
    with pytest.raises(Invalid, match="ana's build quota is 1 GPU") as refused:
        await bench.controller.open_session(make_session(gpus=2))
    assert refused.value.field == "gpus"
    await bench.controller.apply(replace(POOL, users=(User(UserName("ana"), 16 * ONE),), build_overcommit=True))
    with pytest.raises(Invalid, match="largest node in its node pools has 2 GPUs"):
        await bench.controller.open_session(make_session(gpus=3))


async def test_closing_frees_and_is_durable(bench: Bench, tmp_path: Path, world: World) -> None:
    session = await bench.controller.open_session(make_session())
    ended = await bench.controller.close_session(session.id)
    assert ended.state is SessionState.ENDED
    assert await bench.controller.close_session(session.id) == ended
    assert await bench.store.session(session.id) == ended
    with pytest.raises(NotFound, match="no session nobody"):
        await bench.controller.close_session(SessionId("nobody"))


async def test_a_session_that_waits_for_lent_gpus_gets_them_or_times_out(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    back = asyncio.Event()

    def lent(snapshot: Snapshot) -> Plan:
        if back.is_set():
            return first_come(snapshot)
        wait = Decision(Action.START, "Its GPU is lent to job7, which gives it back.", after=(JobId("job7"),))
        return Plan({w.id: wait for w in snapshot.workloads}, {})

    async with opened(tmp_path, world, decide=lent) as bench:
        asked = asyncio.ensure_future(bench.controller.open_session(make_session()))
        await asyncio.sleep(0.05)
        assert not asked.done()
        back.set()
        bench.controller.refresh()
        assert (await asked).state is SessionState.LEASED
        back.clear()
        with monkeypatch.context() as patch:
            patch.setattr(session_lifecycle, "PATIENCE", 1.0)
            with pytest.raises(Unavailable, match="lent to job7"):
                await bench.controller.open_session(make_session("bo"))
        back.set()
        bench.controller.refresh()
        await bench.controller.open_session(make_session("cy"))
        assert {session.user for session in bench.controller.book.sessions.values()} == {"ana", "cy"}


# -- the engine's part in a session -------------------------------------------------------------------------


async def test_the_engine_assigns_gpus_before_a_session_is_answered(bench: Bench) -> None:
    session = await bench.controller.open_session(make_session())
    seat = bench.engine.world.seats[session.id]
    assert (seat.user, seat.server, seat.workers) == ("ana", "", session.placement)
    grant = bench.controller.grant(session.id)
    assert grant is not None
    assert grant.env["CUDA_VISIBLE_DEVICES"] == "0"
    await bench.controller.close_session(session.id)
    assert bench.engine.world.seats == {}
    assert bench.controller.grant(session.id) is None


async def test_a_session_is_refused_with_the_sentence_of_the_engine(bench: Bench) -> None:
    bench.engine.refuse = Unavailable("The driver does not answer.")
    with pytest.raises(Unavailable, match="The driver does not answer"):
        await bench.controller.open_session(make_session())
    assert bench.controller.book.sessions == {}
    bench.engine.refuse = None
    assert (await bench.controller.open_session(make_session())).state is SessionState.LEASED


async def test_gpus_are_free_only_after_the_engine_has_released_them(bench: Bench) -> None:
    first = await bench.controller.open_session(make_session("ana"))
    await bench.controller.open_session(make_session("bo"))
    bench.engine.leaves.clear()
    closing = asyncio.create_task(bench.controller.close_session(first.id))
    with pytest.raises(Unavailable, match="to become free"):
        await bench.controller.open_session(make_session("cy"))
    assert not closing.done()
    bench.engine.leaves.set()
    assert (await closing).state is SessionState.ENDED
    assert (await bench.controller.open_session(make_session("cy"))).state is SessionState.LEASED


async def test_sessions_have_their_gpus_again_after_a_crash(tmp_path: Path, world: World) -> None:
    bench = await begin(tmp_path, world)
    await bench.controller.apply(POOL)
    session = await bench.controller.open_session(make_session())
    world.seats.clear()
    await bench.crash()
    async with opened(tmp_path, world, pool=None) as again:
        await again.settled()
        assert world.seats.keys() == {session.id}
        assert again.controller.grant(session.id) is not None
        await again.controller.close_session(session.id)


async def test_a_session_whose_node_is_gone_gives_its_gpus_back(bench: Bench) -> None:
    session = await bench.controller.open_session(make_session())
    bench.machines.become(*[node for node in bench.machines.there if node.name != "box-build"])
    await bench.settled()
    assert session.id not in bench.controller.book.sessions
    assert bench.engine.world.seats == {}
