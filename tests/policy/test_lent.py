"""GPUs that idle sessions lend: only jobs that may be stopped use them, and their owner has exactly these back."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduler.model import ONE, GpuKey, WorkerPlacement, Workload, without_gpus
from scheduler.policy import Action, Snapshot, SnapshotPlanner, decide
from scheduler.policy.play import after
from tests.policy.holdings import is_job
from tests.policy.pools import snapshots


def gpus(workers: tuple[WorkerPlacement, ...]) -> dict[GpuKey, int]:
    return {GpuKey((worker.node, gpu)): worker.share for worker in workers for gpu in worker.gpus}


def carried_out(snapshot: Snapshot, gone: tuple[str, ...] = ()) -> Snapshot:
    """The pool after what its plan starts at once, without the workloads that are `gone`."""
    plan = decide(snapshot)
    work = []
    for workload in snapshot.workloads:
        decision = plan.decisions[workload.id]
        if workload.id in gone:
            continue
        if decision.action is Action.START and not decision.after:
            workload = after(workload, decision, snapshot.now)
        work.append(workload)
    return replace(snapshot, workloads=tuple(work))


@st.composite
def lent(draw: st.DrawFn) -> Snapshot:
    """A pool some of whose sessions lend their GPUs, and where jobs have had the time to use them."""
    snapshot = draw(snapshots())
    sessions = [w.id for w in snapshot.workloads if not is_job(w) and w.running and gpus(w.placement)]
    lending = draw(st.lists(st.sampled_from(sessions), unique=True)) if sessions else []
    snapshot = replace(
        snapshot,
        pool=replace(snapshot.pool, settings=replace(snapshot.pool.settings, lending=True)),
        workloads=tuple(
            replace(w, claim=w.placement, placement=without_gpus(w.placement)) if w.id in lending else w
            for w in snapshot.workloads
        ),
    )
    return carried_out(snapshot) if draw(st.booleans()) else snapshot


def claims(snapshot: Snapshot) -> dict[GpuKey, int]:
    return gpus(tuple(worker for workload in snapshot.workloads for worker in workload.claim))


@given(lent())
def test_only_jobs_that_may_be_stopped_use_what_is_lent(snapshot: Snapshot) -> None:
    plan, claimed = decide(snapshot), claims(snapshot)
    held = Counter[GpuKey]()
    for workload in snapshot.workloads:
        decision = plan.decisions[workload.id]
        starts = decision.action is Action.START
        placed = gpus(decision.placement if starts else workload.placement)
        if workload.running or (starts and not decision.after):
            held.update(placed)
        if starts and not (is_job(workload) and workload.request.preemptible):
            assert all(claimed.get(key, 0) + share <= ONE for key, share in placed.items())
    assert all(share <= ONE for share in held.values())


@given(lent())
def test_a_session_that_is_used_again_has_its_own_gpus_back_after_one_reclaim(snapshot: Snapshot) -> None:
    back = replace(snapshot, workloads=tuple(replace(w, recalled=bool(w.claim)) for w in snapshot.workloads))
    plan = decide(back)
    returning: list[Workload] = [w for w in back.workloads if w.claim]
    gone: set[str] = set()
    for session in returning:
        decision = plan.decisions[session.id]
        assert (decision.action, decision.placement) == (Action.START, session.claim)
        gone |= set(decision.after)
    assert not any(w.id in gone and not (is_job(w) and w.request.preemptible) for w in back.workloads if not w.stopping)
    rest = replace(back, workloads=tuple(w for w in back.workloads if w.id not in gone))
    for session in returning:
        decision = decide(rest).decisions[session.id]
        assert (decision.action, decision.placement, decision.after) == (Action.START, session.claim, ())


@given(lent(), st.booleans())
def test_a_planner_that_remembers_decides_the_same(snapshot: Snapshot, recalled: bool) -> None:
    planner = SnapshotPlanner()
    planner(snapshot)
    changed = replace(snapshot, workloads=tuple(replace(w, recalled=bool(w.claim)) for w in snapshot.workloads))
    then = changed if recalled else carried_out(snapshot)
    assert dict(planner(then).decisions) == dict(decide(then).decisions)
