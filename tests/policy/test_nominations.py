"""A job keeps its nominated places while its victims are stopping."""

from __future__ import annotations

from dataclasses import replace

from scheduler.model import JobId, NodeName, WorkerPlacement
from scheduler.policy import Action, Snapshot, decide, forecast
from scheduler.policy.play import carry_out
from scheduler.scenario import read


def half_gone() -> Snapshot:
    """One of two victims has ended, the other is stopping; an older job could use the free GPU."""
    (snapshot,) = read("""
        nodes: [{name: n0, gpus: 2}]
        projects: [{name: over}, {name: due, guaranteed: 2, created: 1}]
        jobs:
          - {name: v, project: over, state: stopping, started: -9, placement: [{node: n0, gpus: [0]}]}
          - {name: gang, project: due, gpus: 2}
          - {name: old, project: due, priority: 90, submitted: -99}
    """)
    return snapshot


def test_a_nomination_is_honoured_before_other_jobs() -> None:
    snapshot = half_gone()
    v, gang, old = snapshot.workloads
    nominated = replace(gang, nomination=(WorkerPlacement(NodeName("n0"), (0, 1)),))
    plan = decide(replace(snapshot, workloads=(v, nominated, old)))
    assert plan.decisions[JobId("gang")].action is Action.START
    assert plan.decisions[JobId("gang")].after == ("v",)
    assert plan.decisions[JobId("old")].action is Action.WAIT


def test_without_a_nomination_the_queue_order_decides() -> None:
    plan = decide(half_gone())
    assert plan.decisions[JobId("old")].action is Action.START
    assert plan.decisions[JobId("gang")].action is Action.WAIT


def test_a_nomination_for_missing_gpus_lapses() -> None:
    snapshot = half_gone()
    v, gang, old = snapshot.workloads
    for places in (WorkerPlacement(NodeName("n9"), (0, 1)), WorkerPlacement(NodeName("n0"), (1, 2))):
        plan = decide(replace(snapshot, workloads=(v, replace(gang, nomination=(places,)), old)))
        assert plan.decisions[JobId("old")].action is Action.START


def resizing(nomination: str = "[{node: n0, gpus: [0]}, {node: n0, gpus: [1]}]", limit: str = "null") -> Snapshot:
    """A job is stopping on one GPU, to continue on two; a new job could take the second."""
    (snapshot,) = read(f"""
        nodes: [{{name: n0, gpus: 2, gpu_type: A100}}]
        projects: [{{name: a, quotas: [{{gpu_type: A100, limit: 2}}], limit: {limit}}}, {{name: b}}]
        jobs:
          - {{name: e, project: a, workers: 2, min_workers: 1, state: stopping, started: -9,
             placement: [{{node: n0, gpus: [0]}}], nomination: {nomination}}}
          - {{name: new, project: b}}
        settings: {{reclaim: guarantee}}
    """)
    return snapshot


def test_a_moving_job_keeps_its_nomination_and_its_old_gpus_stay_held() -> None:
    snapshot = resizing()
    plan = decide(snapshot)
    assert plan.decisions[JobId("e")].action is Action.KEEP
    assert plan.decisions[JobId("e")].placement == snapshot.workloads[0].nomination
    assert plan.decisions[JobId("new")].action is Action.WAIT
    assert not plan.changes


def test_a_shrinking_job_releases_gpus_for_waiting_jobs() -> None:
    plan = decide(resizing("[{node: n0, gpus: [1]}]"))
    assert plan.decisions[JobId("new")].placement == (WorkerPlacement(NodeName("n0"), (0,)),)
    assert plan.decisions[JobId("new")].after == ("e",)


def test_a_stopped_job_starts_in_its_nomination() -> None:
    snapshot = resizing()
    e, new = snapshot.workloads
    waiting = replace(e, running=False, stopping=False, started=None, placement=())
    plan = decide(replace(snapshot, workloads=(waiting, new)))
    assert (plan.decisions[JobId("e")].action, plan.decisions[JobId("e")].after) == (Action.START, ())
    assert plan.decisions[JobId("e")].placement == e.nomination


def test_older_files_call_a_nomination_a_claim() -> None:
    text = """
        nodes: [{name: n0, gpus: 1}]
        projects: [{name: a}]
        jobs: [{name: j, project: a, %s: [{node: n0, gpus: [0]}]}]
    """
    assert [*read(text % "claim")] == [*read(text % "nomination")]
    assert next(iter(read(text % "claim"))).workloads[0].nomination


def test_a_lowered_limit_ends_the_nomination() -> None:
    plan = decide(resizing(limit="1"))
    assert plan.decisions[JobId("e")].placement == ()
    assert plan.decisions[JobId("new")].action is Action.START


def test_a_simulation_starts_a_job_in_its_nomination() -> None:
    snapshot = resizing()
    (e, new) = carry_out(snapshot, decide(snapshot)).workloads
    assert (e.running, e.stopping, e.placement, e.nomination) == (
        True,
        False,
        snapshot.workloads[0].nomination,
        (),
    )
    assert not new.running
    assert forecast(snapshot).starts == {}
    ends = replace(snapshot.workloads[0].request, expected_runtime=60.0)
    ending = replace(snapshot, workloads=(replace(snapshot.workloads[0], request=ends), new))
    assert forecast(ending).starts == {"new": 60.0}


def test_a_nomination_for_two_racks_lapses_if_one_rack_is_required() -> None:
    """Labels may have changed since the nomination."""
    (snapshot,) = read("""
        topology: [rack]
        nodes: [{name: n0, gpus: 1, labels: {rack: r0}}, {name: n1, gpus: 1, labels: {rack: r1}}]
        projects: [{name: a}]
        jobs: [{name: gang, project: a, workers: 2, require: rack}]
    """)
    (gang,) = snapshot.workloads
    nominated = replace(gang, nomination=(WorkerPlacement(NodeName("n0"), (0,)), WorkerPlacement(NodeName("n1"), (0,))))
    assert decide(replace(snapshot, workloads=(nominated,))).decisions[JobId("gang")].action is Action.WAIT
