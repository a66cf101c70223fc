"""The form of a clone shows what was given, and reads back as the same job."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ext.cloning import SHOWN, cloned, form_of
from jupyter_ext.dialog import value_of
from scheduler.model import Framework, JobKind
from scheduler.schema import JobSubmit

WORDS = st.text("abc XYZ-_'\"$1", min_size=1, max_size=8).filter(str.strip)
NAME = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)
SECONDS = st.integers(60, 10**6).map(lambda tenths: tenths / 10) | st.integers(60, 10**6).map(float)


@st.composite
def jobs(draw: st.DrawFn) -> JobSubmit:
    """Submissions as the scheduler answers with them: every value, whether it was given or not."""
    workers = draw(st.integers(1, 8))
    return JobSubmit(
        name=draw(NAME),
        project="vision",
        kind=draw(st.sampled_from(JobKind)),
        command=draw(st.lists(WORDS, min_size=1, max_size=3)),
        env={"PATH": "/bin", **draw(st.dictionaries(NAME, NAME, max_size=2))},
        gpus=draw(st.sampled_from([0.0, 0.125, 1.0, 8.0])),
        gpu_types=draw(st.none() | st.lists(NAME, min_size=1, max_size=2)),
        cpus=draw(st.none() | st.sampled_from([0.5, 4.0])),
        memory_gib=draw(st.none() | st.sampled_from([0.5, 16.0])),
        workers=workers,
        min_workers=draw(st.integers(1, workers)),
        framework=draw(st.sampled_from(Framework)),
        priority=draw(st.integers(0, 1000)),
        preemptible=draw(st.booleans()),
        max_runtime=draw(st.none() | SECONDS),
        idle_timeout=draw(st.none() | SECONDS.filter(lambda seconds: seconds >= 60)),
        grace=draw(st.integers(0, 3600).map(float)),
        retries=draw(st.integers(0, 3)),
        after=draw(st.just([]) | st.just(["j1"])),
        parameters={"lr": 0.1},
        bundle="0" * 64,
    )


@given(jobs())
def test_a_form_that_was_not_changed_gives_the_same_job(job: JobSubmit) -> None:
    form = form_of(job)
    again = cloned(job, form["run"], {name: value_of(name, text) for name, text in form["options"].items()})
    expected = job.model_dump(exclude={"after", "min_workers"})
    assert again.model_dump(exclude={"after", "min_workers"}) == expected
    assert (again.min_workers or again.workers) == job.min_workers
    assert again.after == []


def test_what_differs_from_its_default_is_shown_and_nothing_else() -> None:
    job = JobSubmit(
        name="a", kind=JobKind.CELL, command=["python"], gpus=1, workers=2, min_workers=2, preemptible=False
    )
    assert form_of(job) == {
        "run": "python",
        "fixed": True,
        "options": {"name": "a", "gpus": "1", "workers": "2", "preemptible": "true"},
    }


@pytest.mark.parametrize("name", SHOWN)
def test_the_form_has_a_field_for_what_it_shows(name: str) -> None:
    assert name in JobSubmit.model_fields
