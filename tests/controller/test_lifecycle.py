"""A job's life cycle as a pure function of its events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from scheduler.controller import lifecycle, retries, sentences
from scheduler.controller.lifecycle import LaunchAttempt, StopAttempt
from scheduler.controller.retries import LOSSES
from scheduler.engines.base import WorkerState, WorkerStatus
from scheduler.errors import Conflict
from scheduler.model import Avoided, Ending, Fault, Job, JobState, NodeName, Shape, WorkerGroup, WorkerPlacement
from tests.controller.stage import make_job

NOW = 4_000_000_000.0
"""Later than any submission of these tests."""


def placed(workers: int) -> tuple[WorkerPlacement, ...]:
    return tuple(WorkerPlacement(NodeName(f"n{rank}"), (0,)) for rank in range(workers))


def workers(job: Job, *codes: int | str | None, at: float = NOW + 5) -> dict[int, WorkerStatus]:
    """The state of each rank: `"runs"`, `"lost"`, an exit code, or `None` if unknown."""
    found = {}
    for rank, code in enumerate(codes):
        if code is not None:
            state = {"runs": WorkerState.RUNNING, "lost": WorkerState.LOST}.get(str(code), WorkerState.EXITED)
            exit_code = code if isinstance(code, int) else None
            found[rank] = WorkerStatus(job.id, len(job.attempts), rank, state, at, exit_code)
    return found


def starting(size: int = 1, **more: object) -> Job:
    return lifecycle.start(make_job(workers=size, **more), placed(size), NOW).job  # type: ignore[arg-type]


def running(size: int = 1, **more: object) -> Job:
    job = starting(size, **more)
    return lifecycle.observe(job, workers(job, *["runs"] * size, at=NOW), NOW).job


def stopping(size: int = 1, **more: object) -> Job:
    return lifecycle.preempt(running(size, **more), "Paused for speech.", NOW + 1).job


def ended(job: Job, *codes: int | str | None, at: float = NOW + 5) -> Job:
    return lifecycle.observe(job, workers(job, *codes, at=at), NOW + 5).job


# -- success ----------------------------------------------------------------------------------------------------


def test_a_start_is_an_attempt_and_a_launch() -> None:
    queued = make_job(workers=2)
    step = lifecycle.start(queued, placed(2), NOW)
    assert step.do == (LaunchAttempt(queued.id, 1),)
    assert step.job.state is JobState.STARTING
    assert step.job.reason == "Starts on n0 and n1."
    assert step.job.placement == placed(2)


def test_it_runs_once_every_worker_does() -> None:
    job = starting(2)
    assert ended(job, "runs", None).state is JobState.STARTING
    both = ended(job, "runs", "runs", at=NOW + 2)
    assert both.state is JobState.RUNNING
    assert both.attempts[-1].started == NOW + 2


def test_ends_are_never_before_starts_though_the_clock_is_set_back() -> None:
    job = lifecycle.start(make_job(), placed(1), NOW).job
    back = NOW - 3600
    job = lifecycle.observe(job, workers(job, "runs", at=back), back).job
    job = lifecycle.observe(job, workers(job, 0, at=back + 1), back + 1).job
    attempt = job.attempts[-1]
    assert (attempt.created, attempt.started, attempt.ended, job.ended) == (NOW, NOW, NOW, NOW)
    assert job.state is JobState.SUCCEEDED


def test_it_has_succeeded_once_every_worker_has() -> None:
    job = running(2)
    one = ended(job, 0, "runs")
    assert (one.state, one.attempts[-1].exit_codes) == (JobState.RUNNING, (0, None))
    both = ended(one, 0, 0)
    assert (both.state, both.reason) == (JobState.SUCCEEDED, "Succeeded.")
    assert both.placement == ()
    assert both.attempts[-1].ending is Ending.SUCCEEDED


def test_a_worker_that_ends_at_once_was_started() -> None:
    done = ended(starting(), 0)
    assert done.state is JobState.SUCCEEDED
    assert done.attempts[-1].started is not None


# -- gangs end as a whole ---------------------------------------------------------------------------------------


def test_a_worker_that_fails_ends_its_gang() -> None:
    job = running(3, grace=7.0)
    step = lifecycle.observe(job, workers(job, "runs", 3, "runs"), NOW + 5)
    assert step.do == (StopAttempt(job.id, 1, 7.0),)
    assert (step.job.state, step.job.reason) == (
        JobState.STOPPING,
        "Worker 2 of 3 (rank 1) ended with exit code 3.",
    )
    failed = ended(step.job, -15, 3, 0, at=NOW + 6)
    assert (failed.state, failed.reason) == (JobState.FAILED, "Worker 2 of 3 (rank 1) ended with exit code 3.")
    assert failed.attempts[-1].exit_codes == (-15, 3, 0)


def test_the_first_failed_worker_is_named() -> None:
    job = running(3)
    stands = workers(job, "runs", 1, -9)
    stands[2] = replace(stands[2], at=NOW + 2)
    assert lifecycle.observe(job, stands, NOW + 5).job.reason == "Worker 3 of 3 (rank 2) was killed by SIGKILL."


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (1, "It ended with exit code 1."),
        (-11, "It was killed by SIGSEGV."),
        (-40, "It was killed by signal 40."),
    ],
)
def test_the_reason_says_how_it_failed(code: int, reason: str) -> None:
    assert ended(running(), code).reason == reason


@pytest.mark.parametrize(
    ("said", "alone", "in_a_gang"),
    [
        (
            "it ended with exit code 3",
            "It ended with exit code 3.",
            "Worker 1 of 2 (rank 0) ended with exit code 3.",
        ),
        (
            "its supervisor was killed",
            "Its supervisor was killed.",
            "Worker 1 of 2 (rank 0): its supervisor was killed.",
        ),
        (
            "There is no program 'trian'.",
            "There is no program 'trian'.",
            "Worker 1 of 2 (rank 0): There is no program 'trian'.",
        ),
    ],
)
def test_what_the_engine_says_becomes_the_reason(said: str, alone: str, in_a_gang: str) -> None:
    for size, reason in ((1, alone), (2, in_a_gang)):
        job = running(size)
        stands = workers(job, 127, *["runs"] * (size - 1))
        stands[0] = replace(stands[0], reason=said)
        assert lifecycle.observe(job, stands, NOW + 5).job.reason == reason


def test_it_holds_its_gpus_until_the_last_worker_is_gone() -> None:
    job = running(2)
    job = ended(job, 1, "runs")
    assert job.placement == placed(2)
    assert ended(job, 1, -9).placement == ()


# -- retries and losses -----------------------------------------------------------------------------------------


def test_a_failed_attempt_is_tried_again_as_often_as_was_asked() -> None:
    job = make_job(retries=2)
    for number in (1, 2):
        job = ended(lifecycle.start(job, placed(1), NOW).job, 1)
        assert job.state is JobState.QUEUED
        assert job.reason == f"Retrying (attempt {number + 1} of 3): It ended with exit code 1."
    job = ended(lifecycle.start(job, placed(1), NOW).job, 1)
    assert (job.state, len(job.attempts)) == (JobState.FAILED, 3)


def test_losses_are_retried_a_limited_number_of_times() -> None:
    job = make_job()
    for _ in range(LOSSES - 1):
        job = ended(lifecycle.start(job, placed(1), NOW).job, "lost")
        assert job.state is JobState.QUEUED
        assert job.reason == "Queued again, not counted as a failure: It was lost."
    assert ended(lifecycle.start(job, placed(1), NOW).job, "lost").state is JobState.FAILED


def test_failed_starts_are_retried_after_growing_pauses() -> None:
    job = make_job()
    for number in range(2 * LOSSES):
        job = lifecycle.start(job, placed(1), NOW).job
        job = lifecycle.refused(job, "The disk is full.", NOW + 1, Fault.ENGINE).job
        assert job.state is JobState.QUEUED
        assert retries.again_at(job) == (None if number == 0 else NOW + 1 + min(600, 10 * 2 ** (number - 1)))


def test_losses_count_only_in_a_row() -> None:
    job = make_job(retries=1)
    ends: list[int | str] = [*["lost"] * (LOSSES - 1), 1, *["lost"] * (LOSSES - 1)]
    for how in ends:
        job = ended(lifecycle.start(job, placed(1), NOW).job, how)
        assert job.state is JobState.QUEUED


def test_a_lost_worker_stops_the_rest_of_its_attempt() -> None:
    job = running(2)
    step = lifecycle.observe(job, workers(job, "runs", "lost"), NOW + 5)
    assert (step.job.state, step.do) == (JobState.STOPPING, (StopAttempt(job.id, 1, 30.0),))
    assert ended(step.job, -15, "lost").state is JobState.QUEUED


def test_a_refused_launch_fails_unless_another_node_may_work() -> None:
    failed = lifecycle.refused(starting(), "There is no such bundle.", NOW, Fault.JOB).job
    assert (failed.state, failed.reason) == (JobState.FAILED, "There is no such bundle.")
    queued = lifecycle.refused(starting(), "Node n0 is gone.", NOW, Fault.ENGINE).job
    assert queued.state is JobState.QUEUED
    assert "Node n0 is gone." in queued.reason


def test_a_launch_that_is_refused_while_it_is_cancelled_is_cancelled() -> None:
    cancelled = lifecycle.cancel(starting(), NOW).job
    assert lifecycle.refused(cancelled, "No.", NOW, Fault.JOB).job.state is JobState.CANCELLED


# -- starting, and the party at fault ---------------------------------------------------------------------------


def standing(job: Job, *workers: WorkerState, reason: str = "", fault: Fault | None = None) -> Job:
    """The job after these worker states are reported; the last one has this reason and fault."""
    found = {rank: WorkerStatus(job.id, len(job.attempts), rank, state, NOW + 5) for rank, state in enumerate(workers)}
    last = len(workers) - 1
    found[last] = replace(found[last], reason=reason, fault=fault)
    return lifecycle.observe(job, found, NOW + 5).job


PENDING, PULLING, RUNNING = WorkerState.PENDING, WorkerState.PULLING, WorkerState.RUNNING


@pytest.mark.parametrize(
    ("stands", "said", "reason"),
    [
        ((PENDING, PENDING), "", "Starts on n0 and n1: its node has not started it yet."),
        ((PENDING, PULLING), "", "Starts on n0 and n1: its image is being pulled."),
        (
            (RUNNING, PULLING),
            "the image a/b is being pulled",
            "Starts on n0 and n1: the image a/b is being pulled.",
        ),
        ((RUNNING,), "", "Starts on n0 and n1."),
    ],
)
def test_a_job_starts_until_the_last_of_its_workers_runs(
    stands: tuple[WorkerState, ...], said: str, reason: str
) -> None:
    job = standing(starting(2), *stands, reason=said)
    assert (job.state, job.reason, job.attempts[-1].started) == (JobState.STARTING, reason, None)
    assert standing(job, RUNNING, RUNNING).reason == "Runs on n0 and n1."


def test_the_jobs_own_fault_fails_it() -> None:
    job = standing(starting(), WorkerState.EXITED, reason="There is no image a/b", fault=Fault.JOB)
    assert (job.state, job.reason) == (JobState.FAILED, "There is no image a/b.")


def test_a_node_that_cannot_run_a_job_is_avoided_for_a_while() -> None:
    """However often it happens, and also while it runs: the job is not given up."""
    job = make_job()
    for _ in range(2 * LOSSES):
        job = lifecycle.start(job, placed(1), NOW).job
        job = standing(standing(job, RUNNING), WorkerState.LOST, reason="it was evicted", fault=Fault.PLACE)
        assert job.state is JobState.QUEUED
        assert job.reason == "Queued again, avoiding n0 for a while: It was evicted."
        assert retries.again_at(job) is None
    assert job.avoids == (Avoided(NodeName("n0"), NOW + 5 + lifecycle.AVOIDED),)
    assert lifecycle.forgive(job, NOW + lifecycle.AVOIDED).job.avoids == job.avoids
    assert lifecycle.forgive(job, NOW + 5 + lifecycle.AVOIDED).job.avoids == ()


def test_every_node_that_could_not_run_a_gang_is_avoided() -> None:
    job = starting(3)
    lost = {
        rank: WorkerStatus(job.id, 1, rank, WorkerState.LOST, NOW + rank, reason="no room", fault=fault)
        for rank, fault in enumerate((Fault.PLACE, None, Fault.PLACE))
    }
    stopping = lifecycle.observe(job, {0: lost[0]}, NOW).job
    assert (stopping.state, [avoided.node for avoided in stopping.avoids]) == (JobState.STOPPING, ["n0"])
    again = lifecycle.observe(stopping, lost, NOW + 1).job
    assert (again.state, [avoided.node for avoided in again.avoids]) == (JobState.QUEUED, ["n0", "n2"])


def test_engine_faults_are_retried_after_growing_pauses() -> None:
    job = make_job()
    for number in range(2 * LOSSES):
        job = lifecycle.start(job, placed(1), NOW).job
        job = standing(job, WorkerState.LOST, reason="the API server does not answer", fault=Fault.ENGINE)
        assert (job.state, job.avoids) == (JobState.QUEUED, ())
        assert retries.again_at(job) == (None if number == 0 else NOW + 5 + min(600, 10 * 2 ** (number - 1)))


def test_an_attempt_that_never_started_without_a_stop_is_lost() -> None:
    assert standing(starting(), WorkerState.EXITED).state is JobState.QUEUED


# -- stopping ---------------------------------------------------------------------------------------------------


def test_a_preempted_job_is_queued_again_with_its_age_and_the_reason() -> None:
    before = running()
    step = lifecycle.preempt(before, "Paused for *speech*, which took its guarantee back.", NOW + 1)
    assert step.do == (StopAttempt(before.id, 1, 30.0),)
    after = ended(step.job, -15)
    assert (after.state, after.reason) == (JobState.QUEUED, step.job.reason)
    assert after.workload().submitted == before.workload().submitted
    assert after.workload().preempted == NOW + 1


def test_a_stopped_worker_that_exits_with_0_has_work_left() -> None:
    assert ended(stopping(), 0).state is JobState.QUEUED


def test_a_worker_that_exits_with_0_before_the_stop_has_succeeded() -> None:
    assert ended(stopping(), 0, at=NOW + 0.5).state is JobState.SUCCEEDED


def test_exceeding_max_runtime_is_a_failure_without_retry() -> None:
    job = running(max_runtime=90.0, retries=5)
    step = lifecycle.overran(job, NOW + 90)
    assert step.do == (StopAttempt(job.id, 1, 30.0),)
    failed = ended(step.job, 0, at=NOW + 91)
    assert (failed.state, failed.reason) == (
        JobState.FAILED,
        "Exceeded its maximum run time of 1 min 30 s.",
    )


def test_exceeding_idle_timeout_is_a_failure_without_retry() -> None:
    job = running(idle_timeout=1800.0, retries=5)
    step = lifecycle.idled(job, NOW + 90)
    assert step.do == (StopAttempt(job.id, 1, 30.0),)
    failed = ended(step.job, 0, at=NOW + 91)
    assert (failed.state, failed.reason) == (JobState.FAILED, "Its GPUs were idle for 30 min.")
    assert lifecycle.idled(running(), NOW).do == ()


def test_nothing_is_stopped_twice() -> None:
    job = stopping()
    for again in (
        lifecycle.preempt(job, "Again.", NOW + 2),
        lifecycle.overran(job, NOW + 2),
        lifecycle.cancel(job, NOW + 2),
        lifecycle.pause(job, NOW + 2),
        lifecycle.observe(job, workers(job, "runs"), NOW + 2),
    ):
        assert again.do == ()


# -- requests of an owner, in every state -----------------------------------------------------------------------


def of(state: JobState) -> Job:
    match state:
        case JobState.QUEUED:
            return make_job()
        case JobState.STARTING:
            return starting()
        case JobState.RUNNING:
            return running()
        case JobState.STOPPING:
            return stopping()
        case JobState.PAUSED:
            return lifecycle.pause(make_job(), NOW).job
        case JobState.SUCCEEDED:
            return ended(running(), 0)
        case JobState.FAILED:
            return ended(running(), 1)
        case JobState.CANCELLED:
            return lifecycle.cancel(make_job(), NOW).job


S = JobState
NOT = None

MATRIX = [
    # state        cancel → then              pause → then             resume → then
    (S.QUEUED, (S.CANCELLED, S.CANCELLED), (S.PAUSED, S.PAUSED), (S.QUEUED, S.QUEUED)),
    (S.STARTING, (S.STOPPING, S.CANCELLED), (S.STOPPING, S.PAUSED), (S.STARTING, S.FAILED)),
    (S.RUNNING, (S.STOPPING, S.CANCELLED), (S.STOPPING, S.PAUSED), (S.RUNNING, S.FAILED)),
    (S.STOPPING, (S.STOPPING, S.CANCELLED), (S.STOPPING, S.PAUSED), (S.STOPPING, S.QUEUED)),
    (S.PAUSED, (S.CANCELLED, S.CANCELLED), (S.PAUSED, S.PAUSED), (S.QUEUED, S.QUEUED)),
    (S.SUCCEEDED, NOT, NOT, NOT),
    (S.FAILED, NOT, NOT, NOT),
    (S.CANCELLED, (S.CANCELLED, S.CANCELLED), NOT, NOT),
]
"""The job's state after a verb, and after its workers (if any) then end by SIGTERM."""


@pytest.mark.parametrize(
    ("state", "verb", "expected"),
    [
        (state, verb, expected)
        for state, *row in MATRIX
        for verb, expected in zip((lifecycle.cancel, lifecycle.pause, lifecycle.resume), row, strict=True)
    ],
)
def test_requests_of_the_owner(
    state: JobState,
    verb: Callable[[Job, float], lifecycle.Step],
    expected: tuple[JobState, JobState] | None,
) -> None:
    job = of(state)
    if expected is None:
        with pytest.raises(Conflict, match=job.id):
            verb(job, NOW + 2)
        return
    now, then = expected
    asked = verb(job, NOW + 2).job
    assert asked.state is now
    assert verb(asked, NOW + 3).job == asked, "asked twice is asked once"
    assert ended(asked, -15).state is then
    assert asked.reason


def test_a_job_that_is_being_cancelled_is_cancelled() -> None:
    job = lifecycle.cancel(running(), NOW).job
    for verb in (lifecycle.pause, lifecycle.resume):
        with pytest.raises(Conflict, match="is being cancelled"):
            verb(job, NOW)


def test_one_that_is_resumed_while_it_pauses_is_queued_again() -> None:
    job = lifecycle.resume(lifecycle.pause(running(), NOW).job, NOW + 1).job
    assert job.state is JobState.STOPPING
    assert ended(job, -15).state is JobState.QUEUED


def test_a_resumed_job_queues_behind_waiting_ones() -> None:
    job = lifecycle.resume(lifecycle.pause(make_job(), NOW).job, NOW + 50).job
    assert job.workload().submitted == NOW + 50


def test_pausing_does_not_reset_failures() -> None:
    job = running(2)
    failing = ended(job, 1, "runs")
    assert ended(lifecycle.pause(failing, NOW + 6).job, 1, -15).state is JobState.FAILED
    again = running(2, retries=1)
    assert ended(lifecycle.pause(ended(again, 1, "runs"), NOW + 6).job, 1, -15).state is JobState.PAUSED


# -- after a restart --------------------------------------------------------------------------------------------


def test_an_attempt_that_was_never_launched_is_launched_unless_stopping() -> None:
    job = starting()
    assert lifecycle.never_launched(job, NOW) == lifecycle.Step(job, (LaunchAttempt(job.id, 1),))
    assert lifecycle.never_launched(lifecycle.cancel(job, NOW).job, NOW).job.state is JobState.CANCELLED
    preempted = lifecycle.preempt(job, "Paused for speech.", NOW).job
    assert lifecycle.never_launched(preempted, NOW).job.state is JobState.QUEUED
    assert lifecycle.never_launched(running(), NOW).job.state is JobState.QUEUED


@pytest.mark.parametrize("codes", [("runs", "runs"), ("runs", 1), (0, 0), ("lost", "runs"), (-9, 1)])
@pytest.mark.parametrize("make", [starting, running, stopping])
def test_a_repeated_event_changes_nothing(make: Callable[[int], Job], codes: tuple[int | str, ...]) -> None:
    job = make(2)
    once = lifecycle.observe(job, workers(job, *codes), NOW + 5).job
    assert lifecycle.observe(once, workers(once, *codes), NOW + 9) == lifecycle.Step(once)


# -- sentences --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "words"),
    [(1, "n0"), (2, "n0 and n1"), (3, "n0, n1 and 1 more node"), (8, "n0, n1 and 6 more nodes")],
)
def test_where(nodes: int, words: str) -> None:
    assert sentences.where(placed(nodes)) == words


# -- growing, shrinking, moving ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "nomination", "ending", "reason"),
    [
        (2, 4, Ending.RESIZED, "Grew from 2 to 4 workers: Project a reclaims GPUs."),
        (4, 1, Ending.RESIZED, "Released 3 of 4 workers: project a reclaims GPUs."),
        (2, 2, Ending.MOVED, "Moved to n0 and n1: project a reclaims GPUs."),
    ],
)
def test_it_ends_to_go_on_where_it_is_nominated(size: int, nomination: int, ending: Ending, reason: str) -> None:
    change = lifecycle.move if ending is Ending.MOVED else lifecycle.resize
    step = change(running(size, grace=7.0), placed(nomination), "Project a reclaims GPUs.", NOW + 1)
    assert step.do == (StopAttempt(step.job.id, 1, 7.0),)
    assert (step.job.state, step.job.nomination) == (JobState.STOPPING, placed(nomination))
    assert change(step.job, placed(3), "", NOW + 2) == lifecycle.Step(step.job), "The same again changes nothing."
    queued = ended(step.job, *[-15] * size)
    assert (queued.state, queued.reason, queued.nomination) == (JobState.QUEUED, reason, placed(nomination))
    assert (queued.attempts[0].ending, queued.workload().preempted) == (ending, None)
    assert lifecycle.start(queued, placed(nomination), NOW + 9).job.nomination == ()


@pytest.mark.parametrize("verb", [lifecycle.pause, lifecycle.cancel])
def test_the_owners_request_overrides_a_nomination(verb: Callable[[Job, float], lifecycle.Step]) -> None:
    job = verb(lifecycle.resize(running(), placed(2), "", NOW + 1).job, NOW + 2).job
    assert (job.state, job.nomination) == (JobState.STOPPING, ())
    assert ended(job, -15).state in (JobState.PAUSED, JobState.CANCELLED)


def test_a_failure_during_a_stop_is_retried() -> None:
    job = lifecycle.resize(running(2, retries=0), placed(4), "", NOW + 1).job
    assert ended(job, 1, "lost").state is JobState.QUEUED


def test_a_job_that_lost_its_nomination_waits_in_the_queue() -> None:
    job = lifecycle.resize(running(), placed(2), "", NOW + 1).job
    assert ended(lifecycle.drop_nomination(job).job, -15).reason == "Waiting for its turn."
    assert (
        lifecycle.drop_nomination(ended(job, -15)).job.reason
        == "Its reserved GPUs are no longer available. Waiting for its turn."
    )


@pytest.mark.parametrize(("who", "by"), [("root", " by root"), (None, "")])
def test_a_request_of_another_user_names_them(who: str | None, by: str) -> None:
    waiting = make_job(state=JobState.QUEUED)
    assert lifecycle.cancel(waiting, NOW, who).job.reason == f"Cancelled{by}."
    assert ended(lifecycle.cancel(running(), NOW, who).job, 143).reason == f"Cancelled{by}."
    paused = ended(lifecycle.pause(running(), NOW, who).job, 143)
    assert paused.reason == f"Paused{by}; resume it to queue it again."
    assert lifecycle.pause(waiting, NOW, who).job.reason == paused.reason
    assert lifecycle.resume(paused, NOW, who).job.reason == f"Resumed{by}; waiting for its turn."


# -- gangs with a leader ----------------------------------------------------------------------------------------


def led(*leads: bool) -> Job:
    """A running gang with one worker in each group."""
    groups = tuple(WorkerGroup(f"g{n}", 1, Shape(), leader) for n, leader in enumerate(leads))
    return running(len(leads), groups=groups)


def test_when_its_leaders_succeed_the_job_succeeds_and_others_are_stopped() -> None:
    job = led(False, True, True)
    assert ended(job, "runs", 0, "runs").state is JobState.RUNNING
    step = lifecycle.observe(job, workers(job, "runs", 0, 0), NOW + 5)
    assert (step.job.state, step.do) == (JobState.STOPPING, (StopAttempt(job.id, 1, 30.0),))
    done = ended(step.job, -15, 0, 0, at=NOW + 6)
    assert (done.state, done.reason) == (JobState.SUCCEEDED, "Succeeded.")
    assert done.attempts[-1].ending is Ending.SUCCEEDED


def test_failures_after_the_leaders_end_do_not_count() -> None:
    job = led(True, False)
    stands = workers(job, 0, 1)
    late = {**stands, 1: replace(stands[1], at=NOW + 6)}
    assert lifecycle.observe(job, late, NOW + 7).job.state is JobState.SUCCEEDED
    early = {**stands, 1: replace(stands[1], at=NOW + 4)}
    assert lifecycle.observe(job, early, NOW + 7).job.state is JobState.FAILED


def test_a_failed_or_stopped_leader_has_not_succeeded() -> None:
    assert ended(led(True, False), 3, "runs").reason == "Worker 1 of 2 (rank 0) ended with exit code 3."
    stopped = lifecycle.preempt(led(True, False), "Paused for speech.", NOW + 1).job
    assert ended(stopped, 0, 0).state is JobState.QUEUED


def test_followers_may_end_before_their_leader() -> None:
    assert ended(led(True, False), "runs", 0).state is JobState.RUNNING
