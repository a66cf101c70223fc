"""Input is converted exactly to the scheduler's units, or refused with one sentence and the field."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.api.convert import job_of, session_of, submission_of
from scheduler.errors import Invalid
from scheduler.model import Environment, Job, JobKind, ProjectName, Shape, UserName
from scheduler.schema import JobSubmit, SessionOpen


def job(**sent: Any) -> Job:
    return job_of(
        JobSubmit(**{"command": ["python", "train.py"], **sent}),
        user=UserName("ann"),
        project=ProjectName("vision"),
        now=100.0,
        idempotency_key=None,
    )


@pytest.mark.parametrize(
    ("gpus", "thousandths"),
    [
        (0, 0),
        (0.001, 1),
        (0.1, 100),
        (0.25, 250),
        (0.333, 333),
        (1, 1000),
        (1.0, 1000),
        (8, 8000),
        (1024, 1024000),
    ],
)
def test_gpus_are_counted_in_thousandths(gpus: float, thousandths: int) -> None:
    assert job(gpus=gpus).request.shape.gpus == thousandths


@pytest.mark.parametrize(("gib", "mib"), [(1, 1024), (0.5, 512), (10.5, 10752), (0.1, 103), (80, 81920)])
def test_memory_is_counted_in_whole_mib_that_hold_it(gib: float, mib: int) -> None:
    assert job(gpu_memory_gib=gib).request.shape.gpu_memory == mib
    assert job(memory_gib=gib).request.shape.memory == mib


def test_a_job_has_the_submitted_values_and_belongs_to_the_caller() -> None:
    made = job(
        name="resnet",
        gpus=2,
        cpus=0.5,
        workers=4,
        min_workers=2,
        priority=70,
        preemptible=False,
        gpu_types=["h100", "a100"],
        env={"LR": "0.1"},
        grace=5,
        max_runtime=60,
        expected_runtime=45,
        retries=3,
    )
    assert made.user == "ann"
    assert made.request.project == "vision"
    assert made.request.environment is Environment.TRAIN
    assert made.request.shape == Shape(gpus=2000, cpus=500)
    assert (made.request.workers, made.request.min_workers) == (4, 2)
    assert made.request.gpu_types == ("h100", "a100")
    assert made.program.env == {"LR": "0.1"}
    assert (made.program.grace, made.program.max_runtime, made.program.retries) == (5, 60, 3)
    assert made.request.expected_runtime == 45
    assert made.submitted == made.queued == 100.0


def test_a_gang_of_groups_has_their_workers_in_order() -> None:
    made = job(groups=[{"name": "server", "workers": 2, "gpus": 0, "cpus": 4}, {"name": "worker", "gpus": 2}])
    request = made.request
    assert request.shapes == (Shape(0, cpus=4000), Shape(0, cpus=4000), Shape(2000))
    assert (request.workers, request.min_workers, request.shape, request.gpus) == (3, 3, Shape(2000), 2000)


def test_a_gang_is_all_workers_by_default() -> None:
    assert job(workers=4).request.min_workers == 4


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        ({"command": ["python", "src/train.py", "--lr", "1"]}, "train.py"),
        ({"command": ["/usr/bin/python", "-m", "trainer"]}, "python"),
        ({"command": ["python", "-u", "cell.py"], "kind": JobKind.CELL}, "cell"),
        ({"command": ["/opt/weird name!"]}, "weird-name"),
        ({"command": ["---"]}, "command"),
    ],
)
def test_a_job_without_a_name_is_called_after_what_it_runs(sent: dict[str, Any], name: str) -> None:
    assert job(**sent).name == name


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"gpu_memory_gib": 0.1, "memory_gib": 0.1, "cpus": 0.5, "workers": 4, "min_workers": 2, "priority": 7},
        {"kind": JobKind.CELL, "outputs": ["model"], "env": {"LR": "1"}, "max_runtime": 60.0, "retries": 2, "gpus": 0},
        {"bundle": "0" * 64, "files": [{"path": "a", "blobs": ["1" * 64], "executable": True}], "image": "pytorch:2"},
        {"groups": [{"name": "chief", "leader": True, "cpus": 2}, {"name": "rest", "workers": 3, "gpus": 2}]},
        {"after": ["j-1", "j-2:any"], "gpu_types": ["a100"], "framework": "torch", "parameters": {"lr": 0.1}},
    ],
)
def test_a_submission_that_is_read_from_a_job_gives_another_one_like_it(sent: dict[str, Any]) -> None:
    first = job(**sent)
    again = job(**submission_of(first).model_dump(exclude_unset=True))
    assert replace(again, id=first.id) == first


def test_ids_are_never_the_same() -> None:
    assert len({job().id for _ in range(1000)}) == 1000


@pytest.mark.parametrize(
    ("sent", "field", "words"),
    [
        ({"gpus": 0.0001}, "gpus", "0.001"),
        ({"gpus": 1.5}, "gpus", "Ask for 1 or 2"),
        ({"gpus": 1, "gpu_memory_gib": 10}, "gpu_memory_gib", "not both"),
        ({"workers": 2, "min_workers": 3}, "min_workers", "more than workers"),
        ({"expected_runtime": 20, "max_runtime": 10}, "expected_runtime", "longer than max_runtime"),
        ({"cpus": 0.0005}, "cpus", "0.001"),
        ({"command": [""]}, "command[0]", "empty"),
        ({"command": ["a", "b\0c"]}, "command[1]", "NUL"),
        ({"command": ["a", "x" * 300_000]}, "command", "256 KiB"),
        ({"env": {"1A": "x"}}, "env.1A", "not a valid variable name"),
        ({"env": {"A-B": "x"}}, "env.A-B", "not a valid variable name"),
        ({"env": {"RUNAI_RANK": "7"}}, "env.RUNAI_RANK", "set by the scheduler"),
        ({"env": {"CUDA_VISIBLE_DEVICES": "0"}}, "env.CUDA_VISIBLE_DEVICES", "set by the scheduler"),
        ({"env": {"A": "x\0"}}, "env.A", "NUL"),
        ({"env": {"A": "x" * 300_000}}, "env", "256 KiB"),
        ({"outputs": ["model"]}, "outputs", "only a cell"),
        ({"kind": JobKind.CELL, "outputs": ["a b"]}, "outputs[0]", "Python variable"),
        ({"kind": JobKind.CELL, "outputs": ["ok", "class"]}, "outputs[1]", "Python variable"),
        ({"kind": JobKind.CELL, "outputs": ["a", "a"]}, "outputs", "twice"),
    ],
)
def test_an_impossible_submission_is_refused_in_one_sentence(sent: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(Invalid) as refused:
        job(**sent)
    assert refused.value.field == field
    assert words in refused.value.sentence
    assert refused.value.sentence.endswith(".")


def test_a_session_is_a_build_workload_that_is_never_preempted() -> None:
    session = session_of(SessionOpen(user="ann", server="lab", gpus=0.5), now=7.0)
    assert session.user == "ann"
    assert session.server == "lab"
    assert session.request.environment is Environment.BUILD
    assert session.request.shape.gpus == 500
    assert not session.request.preemptible


def test_a_session_gets_whole_gpus_or_a_part_of_one() -> None:
    with pytest.raises(Invalid, match="Ask for 2 or 3"):
        session_of(SessionOpen(user="ann", gpus=2.5), now=7.0)
