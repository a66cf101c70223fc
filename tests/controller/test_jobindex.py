"""The index finds what a pass over all jobs would find, after any history."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given

from scheduler.controller import jobindex
from scheduler.controller.jobindex import JobIndex
from scheduler.model import Job, JobId, JobState, ProjectName, UserName
from tests.controller.stage import make_job

JOBS = [replace(make_job(project, user=user), id=JobId(f"j-{user}-{project}")) for user in "ab" for project in "pq"]
steps = st.lists(st.tuples(st.sampled_from(JOBS), st.sampled_from(JobState)), max_size=30)


def agrees(index: JobIndex, jobs: dict[str, Job]) -> None:
    assert index.jobs == jobs
    assert index.holding == {id: job for id, job in jobs.items() if job.state.holds_gpus}
    for project in "pq":
        found = Counter(job.state for job in jobs.values() if job.request.project == project)
        assert +index.by_project[ProjectName(project)] == found
    for user in "ab":
        found = Counter(job.state for job in jobs.values() if job.user == user)
        assert +index.by_user.get(UserName(user), Counter()) == found
        assert index.of_user(UserName(user)) == {id: job for id, job in jobs.items() if job.user == user}


@given(steps, steps)
def test_it_agrees_with_a_pass_over_all_jobs_and_a_copy_is_on_its_own(
    first: list[tuple[Job, JobState]], then: list[tuple[Job, JobState]]
) -> None:
    index, jobs = JobIndex(), dict[str, Job]()

    def play(index: JobIndex, jobs: dict[str, Job], changes: list[tuple[Job, JobState]]) -> None:
        for job, state in changes:
            now = replace(job, state=state)
            index.put(now)
            assert index.find(job.id) is now
            jobs.pop(job.id, None) if state.final else jobs.update({job.id: now})

    play(index, jobs, first)
    twin, others = index.copy(), dict(jobs)
    play(twin, others, then)
    agrees(index, jobs)
    agrees(twin, others)


def test_recently_ended_jobs_are_found_until_displaced_or_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jobindex, "ENDED", 2)
    index = JobIndex()
    for job in JOBS[:3]:
        index.put(replace(job, state=JobState.SUCCEEDED))
    index.forget([])
    assert [index.find(job.id) is not None for job in JOBS[:3]] == [False, True, True]
    index.forget([JOBS[2].id])
    assert [index.find(job.id) is not None for job in JOBS[:3]] == [False, True, False]
