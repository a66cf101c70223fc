"""The policy under a virtual clock: nothing is lost, nothing runs twice, no GPU is given twice; and the command to see it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cli import main
from scheduler.errors import Invalid
from scheduler.model import Environment, Node, NodePool, Pool, Project
from scheduler.simulation.baselines import Run
from scheduler.simulation.play import Costs, Player
from scheduler.simulation.study import prepare
from scheduler.simulation.trace import Trace, TraceJob

NODES = tuple(Node(f"n{number}", 8) for number in range(2))
PHILLY = Path(__file__).parent / "data" / "philly_2017_10.csv.gz"


def pool(**guaranteed: int) -> Pool:
    projects = tuple(Project(name, guaranteed=gpus * 1000) for name, gpus in guaranteed.items())
    return Pool(node_pools=(NodePool("train", Environment.TRAIN),), projects=projects)


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


@given(traces, st.integers(0, 16), st.sampled_from([0.0, 20.0]))
@settings(max_examples=100, deadline=None)
def test_every_job_does_its_work_once_and_no_gpu_is_given_twice(trace: Trace, a: int, every: float) -> None:
    runs = Player(trace, pool(a=a, b=16 - a), NODES, Costs(), every=every).play()
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
    """Journey 2: alone at night one project has everything; in the morning the other asks for its own."""
    sweep = [TraceJob(f"sweep-{n}", 0.0, 1000.0, 1000, "a") for n in range(16)]
    trace = Trace((*sweep, TraceJob("morning", 100.0, 50.0, 8000, "b")), "")
    runs: dict[str, Run] = {
        r.job.id: r for r in Player(trace, pool(a=8, b=8), NODES, Costs(saving=15)).play()
    }
    assert runs["morning"].started == 115.0
    assert sum(run.stops for run in runs.values()) == 8
    assert all(
        run.held - run.lost == pytest.approx(1000.0) for name, run in runs.items() if name != "morning"
    )


def test_a_job_that_can_never_start_is_named() -> None:
    trace = Trace((TraceJob("huge", 0.0, 1.0, 32000, "a"),), "")
    with pytest.raises(Invalid, match="huge of a wants 32 GPUs and never starts"):
        Player(trace, pool(a=8), NODES, Costs()).play()


def test_partitions_are_sized_on_an_earlier_part() -> None:
    jobs = tuple(TraceJob(f"j{n}", float(n), 50.0, 1000, "a" if n < 50 else "b") for n in range(100))
    study = prepare(
        Trace(jobs, ""),
        nodes=2,
        gpus_per_node=8,
        quantile=0.9,
        learn=40.0,
        pool=None,
        costs=Costs(),
        every=0.0,
    )
    assert len(study.played.jobs) == 60
    assert study.partition["b"] == 1  # seen for the first time: what its largest gang needs
    assert study.partition["a"] > 1


def test_the_command_plays_a_trace_and_draws_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "trace.csv"
    lines = [f"{n},{50 + n},{1 + n % 3},{'ab'[n % 2]}" for n in range(60)]
    table.write_text("submit_time,duration,gpus,project\n" + "\n".join(lines) + "\n")
    report = tmp_path / "out.html"
    assert main(["simulate", str(table), "--nodes", "2", "--report", str(report), "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {result["policy"] for result in told["results"]} >= {"runai", "static", "fifo", "dominant_share"}
    assert all(result["jobs"] == 60 for result in told["results"])
    assert report.read_text("utf-8").count("<svg") == 3


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nowhere.csv", "--nodes", "2"], "There is no trace nowhere.csv."),
        ([str(PHILLY), "--nodes", "90", "--policies", "fifoo"], "There is no policy “fifoo”"),
        ([str(PHILLY), "--nodes", "90", "--learn", "400"], "learn from a shorter part"),
    ],
)
def test_what_cannot_be_played_is_one_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *words]) == 1
    told = capsys.readouterr()
    assert sentence in told.err
    assert told.err.count("\n") == 1
    assert told.out == ""
