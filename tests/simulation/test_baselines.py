"""The baselines' arithmetic, compared with an independent reference over the same table, and simple laws."""

from __future__ import annotations

import gzip
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.errors import Invalid
from scheduler.model import JobId, ProjectName
from scheduler.simulation.baselines import POLICIES, Run, demand_quantile, play_baseline, play_static
from scheduler.simulation.metrics import figures, quantile
from scheduler.simulation.trace import Trace, TraceJob, read_trace

WINDOW = 28 * 86400


@pytest.fixture(scope="module")
def philly() -> Trace:
    return read_trace(Path(__file__).parent / "data" / "philly_2017_10.csv.gz")


@pytest.mark.parametrize(
    ("nodes", "policy", "mean", "p99", "mean_wait", "p99_wait", "held"),
    [
        (80, "fifo", 5.95, 55.8, 3.03, 29.6, 0.759),
        (80, "skip_ahead", 3.69, 53.3, 0.77, 11.4, 0.766),
        (80, "shortest_first", 3.34, 52.8, 0.42, 6.5, 0.761),
        (96, "fifo", 3.29, 51.1, 0.37, 10.2, 0.651),
        (96, "skip_ahead", 3.04, 51.0, 0.12, 2.3, 0.651),
    ],
)
def test_the_reference_results_come_out(
    philly: Trace,
    nodes: int,
    policy: str,
    mean: float,
    p99: float,
    mean_wait: float,
    p99_wait: float,
    held: float,
) -> None:
    start = philly.jobs[0].submitted
    result = figures(play_baseline(philly, policy, nodes=nodes), gpus=nodes * 8, start=start, end=start + WINDOW)
    hours = [result.completion.mean / 3600, result.completion.p99 / 3600, result.held]
    assert hours == pytest.approx([mean, p99, held], rel=0.01)
    assert [result.wait.mean / 3600, result.wait.p99 / 3600] == pytest.approx([mean_wait, p99_wait], rel=0.01, abs=0.05)


@pytest.mark.parametrize(("q", "gpus", "held"), [(0.99, 1856, 0.27), (0.95, 1312, 0.38)])
def test_static_partitions_come_out(philly: Trace, q: float, gpus: int, held: float) -> None:
    partition = demand_quantile(philly, q)
    assert sum(partition.values()) * 8 == gpus
    start = philly.jobs[0].submitted
    result = figures(play_static(philly, partition), gpus=gpus, start=start, end=start + WINDOW)
    assert result.held == pytest.approx(held, abs=0.005)


jobs = st.lists(
    st.builds(
        TraceJob,
        id=st.uuids().map(str),
        submitted=st.integers(0, 100).map(float),
        duration=st.integers(1, 50).map(float),
        gpus=st.sampled_from([250, 500, 1000, 2000, 3000, 8000, 12000, 16000]),
        project=st.sampled_from(["a", "b", "c"]),
    ),
    min_size=1,
    max_size=30,
).map(lambda some: Trace(tuple(sorted(some, key=lambda job: job.submitted)), ""))


@given(jobs, st.sampled_from(sorted(POLICIES)), st.integers(2, 4))
@settings(max_examples=150, deadline=None)
def test_every_job_runs_once_and_no_gpu_is_given_twice(trace: Trace, policy: str, nodes: int) -> None:
    runs = play_baseline(trace, policy, nodes=nodes)
    assert sorted(run.job.id for run in runs) == sorted(job.id for job in trace.jobs)
    assert all(run.started >= run.job.submitted and run.ended - run.started == run.job.duration for run in runs)
    assert sum(run.held for run in runs) == pytest.approx(trace.gpu_seconds)
    for at in {run.started for run in runs}:
        assert sum(run.job.gpus for run in runs if run.started <= at < run.ended) <= nodes * 8000


def step_by_step(trace: Trace, policy: str, nodes: int) -> dict[str, float]:
    """The start of each job, by a slow reference: repeated passes over all waiting jobs and all nodes."""
    free = [8000] * nodes
    waiting: list[TraceJob] = []
    running: list[tuple[float, list[tuple[int, int]]]] = []
    coming, starts = list(trace.jobs), dict[str, float]()

    def places(gpus: int) -> list[tuple[int, int]] | None:
        if gpus > 8000:
            idle = [node for node in range(nodes) if free[node] == 8000]
            return [(node, 8000) for node in idle[: -(-gpus // 8000)]] if len(idle) * 8000 >= gpus else None
        fitting = [(free[node], node) for node in range(nodes) if free[node] >= gpus]
        return [(min(fitting)[1], gpus)] if fitting else None

    def one_starts(now: float) -> bool:
        for job in sorted(waiting, key=lambda job: job.duration if policy == "shortest_first" else 0):
            if (found := places(job.gpus)) is not None:
                for node, gpus in found:
                    free[node] -= gpus
                waiting.remove(job)
                running.append((now + job.duration, found))
                starts[job.id] = now
                return True
            if policy == "fifo":
                return False
        return False

    while coming or running:
        now = min([job.submitted for job in coming[:1]] + [end for end, _ in running])
        for end, held in [each for each in running if each[0] == now]:
            running.remove((end, held))
            for node, gpus in held:
                free[node] += gpus
        while coming and coming[0].submitted == now:
            waiting.append(coming.pop(0))
        while one_starts(now):
            pass
    return starts


@given(jobs, st.sampled_from(["fifo", "skip_ahead", "shortest_first"]), st.integers(2, 4))
@settings(max_examples=150, deadline=None)
def test_jobs_start_when_a_slow_search_has_them_start(trace: Trace, policy: str, nodes: int) -> None:
    runs = play_baseline(trace, policy, nodes=nodes)
    assert {run.job.id: run.started for run in runs} == step_by_step(trace, policy, nodes)


@given(jobs)
@settings(max_examples=50, deadline=None)
def test_first_in_first_out_never_overtakes(trace: Trace) -> None:
    runs = {run.job.id: run for run in play_baseline(trace, "fifo", nodes=2)}
    starts = [runs[job.id].started for job in trace.jobs]
    assert starts == sorted(starts)


def test_backfill_does_not_delay_the_head() -> None:
    def job(name: str, submitted: float, duration: float, gpus: int) -> TraceJob:
        return TraceJob(JobId(name), submitted, duration, gpus * 1000, ProjectName("p"))

    trace = Trace((job("long", 0, 100, 5), job("head", 1, 10, 8), job("short", 2, 50, 3), job("late", 3, 200, 3)), "")
    runs: dict[str, Run] = {run.job.id: run for run in play_baseline(trace, "backfill", nodes=1)}
    assert {name: run.started for name, run in runs.items()} == {
        "long": 0,
        "head": 100,
        "short": 2,
        "late": 110,
    }


def test_a_gang_larger_than_the_pool_is_named() -> None:
    trace = Trace((TraceJob(JobId("huge"), 0, 1, 24000, ProjectName("p")),), "")
    with pytest.raises(Invalid, match="huge wants 24 GPUs"):
        play_baseline(trace, "skip_ahead", nodes=2)


GOOD = "job_id,submit_time,gpus,duration,project\nj1,0,1,60,a\n"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (GOOD.replace("gpus", "gpu"), "trace.csv:1: unknown column “gpu”"),
        (GOOD.replace(",project", ""), "trace.csv:1: the column “project” is missing"),
        (GOOD + "j2,0,1.5,60,a\n", "trace.csv:3: gpus: “1.5” is more than one GPU and not whole"),
        (GOOD + "j2,0,-1,60,a\n", "trace.csv:3: gpus: “-1” is not a number of GPUs above 0"),
        (GOOD + "j2,soon,1,60,a\n", "trace.csv:3: submit_time: “soon” is not a number"),
        (GOOD + "j2,0,1,nan,a\n", "trace.csv:3: duration: “nan” is not a number of seconds"),
        (GOOD + "j1,0,1,60,a\n", "trace.csv:3: job_id: “j1” appears twice"),
        (GOOD + "j2,0,1,60\n", "trace.csv:3: 4 values for 5 columns"),
        (GOOD + "j2,0,1,60,\n", "trace.csv:3: project: “” is empty"),
        ("submit_time,gpus,duration,project\n", "trace.csv has no jobs"),
        ("", "trace.csv:1: the column “submit_time” is missing"),
        (GOOD + "j2,0,inf,60,a\n", "trace.csv:3: gpus: “inf” is not a number of GPUs above 0 and up to"),
        (GOOD + "j2,0,1e300,60,a\n", "trace.csv:3: gpus: “1e300” is not a number of GPUs above 0 and up to"),
        (GOOD + "j2,1e300,1,60,a\n", "trace.csv:3: submit_time: “1e300” is not a number of seconds"),
        (GOOD + "j2,-1,1,60,a\n", "trace.csv:3: submit_time: “-1” is not a number of seconds"),
        (GOOD + "j2,0,nan,60,a\n", "trace.csv:3: gpus: “nan” is not a number"),
        (GOOD + "j2,0,1,1_000,a\n", "trace.csv:3: duration: “1_000” is not a number"),
        (
            GOOD + "j2,2017-13-01 00:00:00,1,60,a\n",
            "trace.csv:3: submit_time: “2017-13-01 00:00:00” is neither a",
        ),
        (GOOD.replace(",", ";"), "trace.csv:1: unknown column “job_id;submit_time;gpus;duration;project”"),
        (GOOD + "j2,0,1,,a\n", "trace.csv:3: duration: “” is not a number"),
        (GOOD + 'j2,0,1,60,"' + "a" * 200_000, "trace.csv:3: this is not a line of a CSV table: field larger"),
    ],
)
def test_a_bad_trace_is_refused_with_its_place(tmp_path: Path, text: str, place: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(Invalid, match="^" + re.escape(place)):
        read_trace(path)


@pytest.mark.parametrize(
    "text",
    [
        GOOD.replace("\n", "\r\n"),
        "\ufeff" + GOOD,
        "\n" + GOOD + "\n\n",
        GOOD.replace(",", ", "),
        "project,duration,gpus,submit_time,job_id\na,60.0,1.0,0.0,j1\n",
        GOOD.replace("j1,0,", "j1,1970-01-05 00:00:00,"),
        GOOD.replace("j1,0,", "j1,1970-01-05T01:00+01:00,"),
        "job_id,submit_time,gpus,duration,project,priority,preemptible,workers\nj1,0,1,60,a,50.0,True,\n",
    ],
    ids=["crlf", "bom", "blank lines", "spaces", "other order", "date", "offset", "as data frames write"],
)
def test_a_table_may_be_written_in_many_ways(tmp_path: Path, text: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(text.encode())
    assert read_trace(path).jobs == (TraceJob(JobId("j1"), 0.0, 60.0, 1000, ProjectName("a")),)


def test_columns_are_ignored_only_explicitly(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("status,submit_time,gpus,duration,project,vc\nPass,0,1,60,a,x\n")
    with pytest.raises(Invalid, match=r"^trace.csv:1: unknown column “status”.*--ignore status\.$"):
        read_trace(path)
    assert read_trace(path, ignore=("status", "vc")).jobs == (
        TraceJob(JobId("line-2"), 0.0, 60.0, 1000, ProjectName("a")),
    )


def test_a_table_in_another_encoding_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes((GOOD + "j2,0,1,60,Zürich\n").encode("latin-1"))
    with pytest.raises(Invalid, match=r"^trace.csv:3: is not UTF-8"):
        read_trace(path)


HEADER = "submit_time,duration,project,gpus,workers,min_workers\n"


@pytest.mark.parametrize(
    ("row", "place"),
    [
        ("0,60,a,3,2,", "trace.csv:2: workers: 3 GPUs cannot be divided equally among 2 workers"),
        ("0,60,a,4,2,3", "trace.csv:2: min_workers: 3 is more than its 2 workers"),
        ("0,60,a,4,,2", "trace.csv:2: min_workers: 2 is more than its 1 workers"),
        ("0,60,a,4,two,", "trace.csv:2: workers: “two” is not a number"),
    ],
)
def test_impossible_workers_are_refused(tmp_path: Path, row: str, place: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(HEADER + row + "\n")
    with pytest.raises(Invalid, match="^" + re.escape(place)):
        read_trace(path)


def test_a_trace_may_be_packed_and_a_torn_one_is_refused(tmp_path: Path) -> None:
    packed, torn, broken = tmp_path / "a.csv.gz", tmp_path / "b.csv.gz", tmp_path / "c.csv.gz"
    data = gzip.compress(GOOD.encode())
    packed.write_bytes(data)
    assert [job.id for job in read_trace(packed).jobs] == ["j1"]
    torn.write_bytes(data[:-12])
    broken.write_bytes(data[:12] + b"\xff" * 20 + data[32:])
    for path in (torn, broken):
        with pytest.raises(Invalid, match="can't be read as a CSV table"):
            read_trace(path)
    with pytest.raises(Invalid, match="can't be read"):
        read_trace(tmp_path)


def test_a_window_of_a_trace_keeps_its_jobs(philly: Trace) -> None:
    start = philly.jobs[0].submitted
    first, second = philly.window(start, start + WINDOW / 2), philly.window(start + WINDOW / 2, float("inf"))
    assert len(first.jobs) + len(second.jobs) == len(philly.jobs)


def test_jobs_without_any_work_can_be_played() -> None:
    trace = Trace((TraceJob(JobId("a"), 0.0, 0.0, 1000, ProjectName("p")),), "")
    told = figures(play_baseline(trace, "fifo", nodes=1), gpus=8, start=0.0, end=1.0)
    assert (told.held, told.completion_by_gpu_hours, told.slowdown) == (0.0, 0.0, 1.0)


def test_quantiles_are_values_that_occurred() -> None:
    assert [quantile([1, 2, 3, 4], q) for q in (0, 0.25, 0.5, 0.99)] == [1, 1, 2, 4]


def test_work_done_twice_is_held_but_not_busy(philly: Trace) -> None:
    runs = play_baseline(philly.window(0, philly.jobs[1000].submitted), "fifo", nodes=80)
    start, end = runs[0].started, max(run.ended for run in runs)
    plain = figures(runs, gpus=640, start=start, end=end)
    redone = figures([replace(run, lost=run.held / 2, stops=1) for run in runs], gpus=640, start=start, end=end)
    assert plain.busy == plain.held == redone.held
    assert redone.busy == pytest.approx(redone.held / 2)
    assert redone.stops == len(runs)
