"""The policy under a virtual clock: no job is lost or runs twice, no GPU is allocated twice; and its command."""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler.cli import main
from scheduler.errors import Invalid
from scheduler.model import (
    BUILD_POOL,
    ONE,
    TRAIN_POOL,
    Environment,
    JobId,
    Node,
    NodeName,
    NodePool,
    Pool,
    Project,
    ProjectName,
    Window,
)
from scheduler.simulation.baselines import Run
from scheduler.simulation.play import Costs, Player, request_of
from scheduler.simulation.sessions import build_nodes, sessions_of
from scheduler.simulation.study import prepare
from scheduler.simulation.trace import Trace, TraceJob, read_trace

NODES = tuple(Node(NodeName(f"n{number}"), 8) for number in range(2))
PHILLY = Path(__file__).parent / "data" / "philly_2017_10.csv.gz"
ONE_JOB = Path(__file__).parent / "data" / "one_job.csv"


def pool(**guaranteed: int) -> Pool:
    projects = tuple(Project(ProjectName(name), guaranteed=gpus * 1000) for name, gpus in guaranteed.items())
    return Pool(node_pools=(NodePool(TRAIN_POOL, Environment.TRAIN),), projects=projects)


traces = st.lists(
    st.builds(
        TraceJob,
        id=st.uuids().map(str),
        submitted=st.integers(0, 300).map(float),
        duration=st.integers(1, 200).map(float),
        gpus=st.sampled_from([500, 1000, 2000, 4000, 8000, 16000]),
        project=st.sampled_from(["a", "b"]),
    ),
    min_size=1,
    max_size=25,
).map(lambda some: Trace(tuple(sorted(some, key=lambda job: job.submitted)), ""))


@given(traces, st.integers(0, 16), st.sampled_from([0.0, 20.0]), st.sampled_from([None, 30.0]))
@settings(max_examples=100, deadline=None)
def test_every_job_does_its_work_once_and_no_gpu_is_given_twice(
    trace: Trace, a: int, every: float, saves: float | None
) -> None:
    costs = Costs(checkpoint_every=saves)
    runs = Player(trace, pool(a=a, b=16 - a), NODES, costs, every=every).play()
    assert sorted(run.job.id for run in runs) == sorted(job.id for job in trace.jobs)
    for run in runs:
        worked = run.held - run.lost
        assert worked == pytest.approx(run.job.gpus * run.job.duration / 1000), run
        assert run.started >= run.job.submitted
    spans = [span for run in runs for span in run.spans]
    for at in {span.start for span in spans}:
        assert sum(span.gpus for span in spans if span.start <= at < span.end) <= 16_000


@given(traces)
@settings(max_examples=30, deadline=None)
def test_the_same_trace_gives_the_same_runs(trace: Trace) -> None:
    first, second = (Player(trace, pool(a=8, b=8), NODES, Costs()).play() for _ in range(2))
    assert first == second


def test_a_guarantee_comes_back_within_one_save() -> None:
    """Journey 2: alone at night, one project has everything; in the morning the other claims its guarantee."""
    sweep = [TraceJob(JobId(f"sweep-{n}"), 0.0, 1000.0, 1000, ProjectName("a")) for n in range(16)]
    trace = Trace((*sweep, TraceJob(JobId("morning"), 100.0, 50.0, 8000, ProjectName("b"))), "")
    runs: dict[str, Run] = {r.job.id: r for r in Player(trace, pool(a=8, b=8), NODES, Costs(saving=15)).play()}
    assert runs["morning"].started == 115.0
    assert sum(run.stops for run in runs.values()) == 8
    assert all(run.held - run.lost == pytest.approx(1000.0) for name, run in runs.items() if name != "morning")


def test_a_window_has_its_gpus_at_once_and_jobs_that_wait_for_one_start_then() -> None:
    """A class on Monday mornings. A trace without dates begins on a Monday; the second job may start a week later."""
    window = Window(16 * ONE, "UTC", days=(0,), start=540, end=600)
    shared = pool(a=0, b=0)
    projects = (shared.projects[0], replace(shared.projects[1], weight=0, windows=(window,)))
    firm = TraceJob(JobId("firm"), 40_000.0, 60.0, 1000, ProjectName("b"), preemptible=False, expected=60.0)
    long = TraceJob(JobId("long"), 0.0, 50_000.0, 16_000, ProjectName("a"))
    early = TraceJob(JobId("early"), 100.0, 600.0, 8000, ProjectName("b"))
    player = Player(Trace((long, early, firm), ""), replace(shared, projects=projects), NODES, Costs(saving=15))
    runs: dict[str, Run] = {run.job.id: run for run in player.play()}
    nine = 9 * 3600.0
    assert (runs["early"].started, runs["long"].stops) == (nine + 15, 1)
    assert runs["firm"].started == nine + 7 * 86400


def test_jobs_do_not_stop_each_other_in_turns() -> None:
    """Two crowded days: a job that waits for a victim's place gets it, so no further jobs are stopped for it."""
    whole = read_trace(PHILLY)
    start = whole.jobs[0].submitted
    crowded = whole.window(start + 10 * 86400, start + 12 * 86400)
    (result,) = prepare(crowded, nodes=60).play(["runai"])
    runs = result.runs
    assert 0 < sum(run.stops for run in runs) < len(runs) / 4
    assert max(run.stops for run in runs) < 50


def test_a_job_that_can_never_start_is_named_with_its_reason() -> None:
    trace = Trace((TraceJob(JobId("firm"), 0.0, 1.0, 8000, ProjectName("a"), preemptible=False),), "")
    with pytest.raises(Invalid, match=r"firm of a wants 8 GPUs and never starts on this pool: .*guarantee"):
        Player(trace, pool(a=4), NODES, Costs()).play()


def test_a_job_larger_than_the_smallest_pool_is_named_before_any_is_played() -> None:
    jobs = (
        TraceJob(JobId("small"), 0.0, 1.0, 1000, ProjectName("a")),
        TraceJob(JobId("huge"), 1.0, 1.0, 16000, ProjectName("a")),
    )
    study = prepare(Trace(jobs, ""), nodes=2, scales=(1.5, 0.5))
    with pytest.raises(Invalid, match=r"huge of a wants 16 GPUs, and the pool scaled by 0.5 has only 8 \(1 × 8\)"):
        next(study.play(["static", "runai"]))
    assert [result.gpus for result in replace(study, scales=(1.5,)).play(["runai"])] == [16, 24]


@pytest.mark.parametrize(
    ("size", "field"),
    [
        ({"nodes": 1_000_000}, "nodes"),
        ({"nodes": 60_000, "scales": (1.0, 2.0)}, "nodes"),
        ({"nodes": 1, "gpus_per_node": 10**9}, "gpus_per_node"),
        ({"nodes": 1000, "gpus_per_node": 1001}, "nodes"),
        ({"nodes": 500, "gpus_per_node": 1001, "scales": (2.0,)}, "nodes"),
    ],
)
def test_a_pool_of_an_absurd_size_is_refused(size: dict[str, Any], field: str) -> None:
    trace = Trace((TraceJob(JobId("j"), 0.0, 10.0, ONE, ProjectName("a")),), "")
    with pytest.raises(Invalid, match="at most") as refused:
        prepare(trace, **size)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"scales": (1.0,) * 17}, "--scale takes 16 values at most, not 17."),
        ({"costs": (60.0,) * 1000}, "--restart-cost takes 16 values at most, not 1,000."),
        ({"checkpoint_every": 1e-9}, "--checkpoint-every is at least 1 second."),
    ],
)
def test_a_study_without_end_is_refused(options: dict[str, Any], sentence: str) -> None:
    trace = Trace((TraceJob(JobId("j"), 0.0, 10.0, ONE, ProjectName("a")),), "")
    with pytest.raises(Invalid) as refused:
        prepare(trace, nodes=1, **options)
    assert str(refused.value) == sentence


def test_more_people_than_any_hub_has_are_refused() -> None:
    with pytest.raises(Invalid, match="100,000 people at the most, not 1,000,000"):
        sessions_of(1_000_000, 0.0, 1.0, seed=1)


def test_more_sessions_than_any_hub_has_are_refused() -> None:
    with pytest.raises(Invalid, match=r"1,000 people open up to 11,575,000 sessions .* is 1,000,000 at most\.$"):
        sessions_of(1000, 0.0, 1e9, seed=1)


def test_static_partitions_of_an_absurd_size_are_refused() -> None:
    """A million GPUs at a time in each of three projects."""
    jobs = [TraceJob(JobId(f"j{n}"), 0.0, 10.0, 1_000_000 * ONE, ProjectName(f"p{n}")) for n in range(3)]
    study = prepare(Trace(tuple(jobs), ""), nodes=1)
    with pytest.raises(Invalid, match="take 375,000 nodes of 8 GPUs; 100,000 nodes and 1,000,000 GPUs") as refused:
        next(study.play(["static"]))
    assert refused.value.field == "policies"


def test_a_project_with_others_below_it_takes_no_jobs() -> None:
    owned = replace(pool(a=8), projects=(Project(ProjectName("a")), Project(ProjectName("b"), parent=ProjectName("a"))))
    with pytest.raises(Invalid, match="“a”, which the trace names, has projects below it"):
        prepare(Trace((TraceJob(JobId("j"), 0.0, 1.0, 1000, ProjectName("a")),), ""), nodes=1, pool=owned)


def test_work_is_conserved_however_late_a_trace_begins() -> None:
    """A clock with ten digits leaves a resolution of microseconds for shorter times."""
    jobs = tuple(TraceJob(JobId(f"j{n}"), 9.9e9 + n / 3, 0.1, 128_000, ProjectName("ab"[n % 2])) for n in range(9))
    results = list(
        prepare(Trace((TraceJob(JobId("first"), 0.0, 0.1, 1000, ProjectName("a")), *jobs), ""), nodes=16).play(
            ["runai", "fifo"]
        )
    )
    assert [result.figures.jobs for result in results] == [10, 10]


quiet_and_loud = st.tuples(
    st.lists(st.tuples(st.integers(0, 4000), st.integers(30, 1500), st.sampled_from([1, 2, 4, 8])), max_size=25),
    st.lists(
        st.tuples(st.integers(0, 4000), st.integers(30, 1500), st.sampled_from([1, 2, 8, 16])), min_size=5, max_size=30
    ),
)


@given(quiet_and_loud)
@example(
    (
        [(0, 669, 1), (130, 176, 1), (305, 360, 4), (669, 30, 8)],
        [(0, 306, 2), (0, 30, 1), (4, 302, 1), (464, 243, 8), (662, 30, 8)],
    )
)
@settings(max_examples=60, deadline=None)
def test_who_stays_inside_its_guarantee_is_as_well_off_as_alone(
    asked: tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]],
) -> None:
    """Within what a stop costs: saving whoever is in its way, and a restart for each time that it is moved itself.

    Inside is who, when it comes, has a place in the guarantee beside its project's jobs that have not ended: one that
    was moved ends later than it would have alone.
    """
    quiet: list[TraceJob] = []
    for number, (at, long, gpus) in enumerate(sorted(asked[0])):
        held = sum(j.gpus for j in quiet if j.submitted <= at < j.submitted + j.duration)
        if held + gpus * 1000 <= 8000:
            quiet.append(TraceJob(JobId(f"q{number}"), float(at), float(long), gpus * 1000, ProjectName("quiet")))
    loud = [
        TraceJob(JobId(f"l{n}"), float(at), float(long), gpus * 1000, ProjectName("loud"))
        for n, (at, long, gpus) in enumerate(asked[1])
    ]
    trace = Trace(tuple(sorted([*quiet, *loud], key=lambda job: job.submitted)), "")
    nodes = (*NODES, Node(NodeName("n2"), 8))
    costs = Costs(saving=15, restarting=45)
    runs = [run for run in Player(trace, pool(quiet=8, loud=16), nodes, costs).play() if run.job.project == "quiet"]
    for run in runs:
        came = run.job.submitted
        held = sum(each.job.gpus for each in runs if each.job.submitted <= came < each.ended)  # its own among them
        if held <= 8000:
            assert run.wait <= 15 + 60 * run.stops + 1e-6, run
            assert run.stops <= 3, run


def test_a_moved_job_continues_in_its_nomination() -> None:
    """Jobs that arrive while it saves its state do not take its place, so no job is stopped to get it back."""
    jobs = (
        TraceJob(JobId("early"), 0.0, 100.0, 7000, ProjectName("c")),
        *(TraceJob(JobId(f"stays-{n}"), 1.0 + n, 5000.0, 1000, ProjectName("c")) for n in range(2)),  # one on each node
        TraceJob(JobId("gang"), 200.0, 1000.0, 8000, ProjectName("b")),
        *(TraceJob(JobId(f"late-{n}"), 205.0, 1000.0, 1000, ProjectName("a")) for n in range(7)),
    )
    runs = {r.job.id: r for r in Player(Trace(jobs, ""), pool(a=0, b=8, c=8), NODES, Costs()).play()}
    assert runs[JobId("gang")].started == 215.0
    assert {name for name, run in runs.items() if run.stops} <= {"stays-0", "stays-1"}
    assert sum(run.stops for run in runs.values()) == 1


def test_a_job_that_is_stopped_while_it_restarts_has_lost_no_more_than_it_held() -> None:
    """The owner of the guarantee comes back twice, the second time while the first victim still restarts."""
    jobs = (
        TraceJob(JobId("victim"), 0.0, 100.0, 8000, ProjectName("a")),
        TraceJob(JobId("first"), 10.0, 20.0, 16000, ProjectName("b")),
        TraceJob(JobId("second"), 55.0, 20.0, 16000, ProjectName("b")),
    )
    runs = {r.job.id: r for r in Player(Trace(jobs, ""), pool(a=0, b=16), NODES, Costs()).play()}
    victim = runs[JobId("victim")]
    assert victim.stops == 2
    assert victim.held - victim.lost == pytest.approx(800.0)


def test_a_job_with_periodic_checkpoints_loses_the_work_since_the_last_one() -> None:
    """Stopped at 230 with checkpoints at 100 and 200: thirty seconds of eight GPUs are done again."""
    jobs = (
        TraceJob(JobId("victim"), 0.0, 500.0, 8000, ProjectName("a")),
        TraceJob(JobId("due"), 230.0, 20.0, 16000, ProjectName("b")),
    )
    costs = Costs(saving=15, restarting=45, checkpoint_every=100.0)
    runs = {r.job.id: r for r in Player(Trace(jobs, ""), pool(a=0, b=16), NODES, costs).play()}
    victim = runs[JobId("victim")]
    assert victim.stops == 1
    assert victim.lost == pytest.approx(8 * (30 + 15 + 45))
    assert victim.held - victim.lost == pytest.approx(8 * 500.0)


def test_the_policy_sees_when_a_job_has_saved_itself() -> None:
    """At 205 the one that began at 0 saved five seconds ago; the younger one would lose 55."""
    jobs = (
        TraceJob(JobId("old"), 0.0, 500.0, 8000, ProjectName("a")),
        TraceJob(JobId("young"), 50.0, 500.0, 8000, ProjectName("a")),
        TraceJob(JobId("due"), 205.0, 20.0, 8000, ProjectName("b")),
    )
    costs = Costs(saving=15, restarting=45, checkpoint_every=100.0)
    runs = {r.job.id: r for r in Player(Trace(jobs, ""), pool(a=0, b=8), NODES, costs).play()}
    assert {name: run.stops for name, run in runs.items()} == {"old": 1, "young": 0, "due": 0}
    assert runs[JobId("old")].lost == pytest.approx(8 * (5 + 15 + 45))


@given(st.integers(1, 64), st.integers(1, 16))
def test_a_gang_asks_for_equal_workers_that_fit_a_node(gpus: int, size: int) -> None:
    request = request_of(TraceJob(JobId("j"), 0.0, 1.0, gpus * 1000, ProjectName("a")), size)
    assert request.workers * request.shape.gpus == gpus * 1000
    assert request.shape.gpus % 1000 == 0
    assert request.shape.gpus <= size * 1000


def test_partitions_are_sized_on_an_earlier_part() -> None:
    jobs = tuple(
        TraceJob(JobId(f"j{n}"), float(n), 50.0, 1000, ProjectName("a" if n < 50 else "b")) for n in range(100)
    )
    study = prepare(Trace(jobs, ""), nodes=2, quantile=0.9, learn=40.0)
    assert len(study.played.jobs) == 60
    assert study.partition["b"] == 1  # seen for the first time: what its largest gang needs
    assert study.partition["a"] > 1


def test_no_more_is_guaranteed_than_the_pool_has() -> None:
    jobs = tuple(TraceJob(JobId(f"j{n}"), float(n), 500.0, 1000, ProjectName("abc"[n % 3])) for n in range(90))
    study = prepare(Trace(jobs, ""), nodes=4, quantile=0.9)
    assert sum(study.partition.values()) > 4
    promised = {project.name: project.guaranteed or 0 for project in study.guaranteed(4).projects}
    assert 0.9 * 32_000 < sum(promised.values()) <= 32_000
    large = study.guaranteed(100).projects
    assert {p.name: p.guaranteed for p in large} == {name: nodes * 8000 for name, nodes in study.partition.items()}


# -- build sessions -----------------------------------------------------------------------------------------


def test_sessions_have_the_profile_that_is_claimed() -> None:
    sessions = sessions_of(400, 0.0, 28 * 86400.0, seed=3)
    assert sessions == sessions_of(400, 0.0, 28 * 86400.0, seed=3)
    assert sessions != sessions_of(400, 0.0, 28 * 86400.0, seed=4)
    lengths = sorted(session.job.duration / 3600 for session in sessions)
    assert lengths[len(lengths) // 2] == pytest.approx(3, rel=0.1)
    assert lengths[len(lengths) * 95 // 100] == pytest.approx(24, rel=0.2)
    for session in sessions:
        day, second = divmod(session.job.submitted, 86400)
        assert day % 7 < 5
        assert 9 * 3600 <= second <= 19 * 3600
        assert 0.05 <= session.busy <= 0.35
    by_user: dict[str | None, list[TraceJob]] = {}
    for session in sessions:
        by_user.setdefault(session.job.user, []).append(session.job)
    for own in by_user.values():  # one notebook at a time
        assert all(a.submitted + a.duration <= b.submitted for a, b in pairwise(own))


@pytest.mark.parametrize("lending", [False, True])
def test_a_session_gets_its_lent_gpu_back(lending: bool) -> None:
    """Twelve GPUs asked for on eight: four find a place on build GPUs only if those are lent, until people come."""
    sessions = sessions_of(8, 0.0, 5 * 86400.0, seed=1)
    trace = Trace(tuple(TraceJob(JobId(f"j{n:02}"), 0.0, 4 * 86400.0, 1000, ProjectName("a")) for n in range(12)), "")
    owned = pool(a=8)
    owned = replace(
        owned,
        node_pools=(*owned.node_pools, NodePool(BUILD_POOL, Environment.BUILD)),
        settings=replace(owned.settings, lending=lending),
    )
    player = Player(trace, owned, (NODES[0], *build_nodes(8, 8)), Costs(saving=15), sessions=sessions)
    runs = player.play()
    assert len(player.opened) == len(sessions)
    assert max(run.wait for run in player.opened) <= (15.001 if lending else 0.001)
    assert (sum(run.stops for run in runs) > 0) == lending
    assert (min(sorted(run.started for run in runs)[8:]) == 0.0) == lending
    spans = [span for run in (*runs, *player.opened) for span in run.spans]
    for at in {span.start for span in spans}:
        assert sum(span.gpus for span in spans if span.start <= at < span.end) <= 16_000


# -- the command --------------------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "trace.csv"
    lines = [f"{36_000 + 300 * n},{500 + n},{1 + n % 3},{'ab'[n % 2]}" for n in range(60)]
    path.write_text("submit_time,duration,gpus,project\n" + "\n".join(lines) + "\n")
    return path


def test_the_command_plays_a_trace_and_draws_it(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib, of the extra `report`")
    report = tmp_path / "out.html"
    words = ["simulate", str(table), "--nodes", "2", "--scale", "0.5,2", "--restart-cost", "60,250"]
    assert main([*words, "--sessions", "4", "--seed", "7", "--report", str(report), "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    results = {result["policy"]: result for result in told["results"]}
    assert {"runai", "static", "fifo", "dominant_share", "runai × 0.5", "skip_ahead × 2"} <= set(results)
    assert {"runai, a stop costs 250 s", "runai, sessions, lending", "static, sessions"} <= set(results)
    assert all(result["jobs"] == 60 for result in told["results"])
    assert results["runai × 0.5"]["gpus"] == 8
    assert results["static"]["against_static"] is None
    assert set(results["runai"]["against_static"]["teams"]) == {"a", "b"}
    assert told["facts"]["seed"] == "7"
    assert hashlib.sha256(table.read_bytes()).hexdigest() in told["facts"]["trace"]
    page = report.read_text("utf-8")
    assert page.count("<svg") == 6
    assert all(name in page for name in results if "stop costs" not in name)
    assert ">250 s" in page


def test_hash_seed_and_command_are_printed_with_the_table(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(table), "--nodes", "2", "--policies", "fifo"]) == 0
    told = capsys.readouterr().out
    assert hashlib.sha256(table.read_bytes()).hexdigest() in told
    assert "seed: 1" in told
    assert "command: jupyter runai" in told


def _packed(megabytes: int) -> bytes:
    """A table of spaces, packed, which are a thousandth of that."""
    packer = zlib.compressobj(wbits=31)
    return b"".join([*[packer.compress(b" " * 1_000_000) for _ in range(megabytes)], packer.flush()])


HEADER = b"submit_time,duration,gpus,project"


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        pytest.param(b"\n" * 1_000_002, "has 1,000,002 lines; a trace has 1,000,000 jobs at most", id="jobs"),
        pytest.param(_packed(300), "is too large to simulate; a trace takes 256 MiB at most", id="packed"),
        pytest.param(
            HEADER + b"".join(b"\n0,1,1,p%d" % n for n in range(10_001)),
            "are of 10,001 projects; 10,000 are simulated at most.",
            id="projects",
        ),
        pytest.param(
            HEADER + b",workers\n0,1,1000,a,1000000", "“1000000” is not a whole number from 1 to 4,096.", id="workers"
        ),
        pytest.param(HEADER + b"\n1e11,1,1,a", "“1e11” is not a number of seconds from 0 to 1e+10.", id="span"),
        pytest.param(HEADER + b"\n0,1,2000000,a", "is not a number of GPUs above 0 and up to 1,000,000.", id="gpus"),
    ],
)
def test_a_trace_of_an_absurd_size_is_refused_in_one_sentence(
    table: bytes, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(table)
    assert main(["simulate", str(path), "--nodes", "2"]) == 1
    told = capsys.readouterr()
    assert sentence in told.err
    assert told.err.count("\n") == 1
    assert told.out == ""


def test_an_endless_file_is_not_read_to_its_end() -> None:
    with pytest.raises(Invalid, match="zero is too large to simulate"):
        read_trace(Path("/dev/zero"))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nowhere.csv", "--nodes", "2"], "There is no trace nowhere.csv."),
        ([str(PHILLY), "--nodes", "90", "--policies", "fifoo"], "There is no policy “fifoo”"),
        ([str(PHILLY), "--nodes", "90", "--learn", "400"], "learn from a shorter part"),
        ([str(ONE_JOB), "--nodes", "2", "--sessions", "3"], "Nobody opens a session"),
        (
            [str(ONE_JOB), "--nodes", "2", "--report", "nowhere/out.html"],
            "The folder of nowhere/out.html does not exist",
        ),
    ],
)
def test_an_impossible_trace_is_refused_in_one_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *words]) == 1
    told = capsys.readouterr()
    assert sentence in told.err
    assert told.err.count("\n") == 1
    assert told.out == ""
