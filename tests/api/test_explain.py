"""Why a job waits: who holds its resources, when it will start, what would help; and who may see what."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given

from scheduler.api.access import Access, Caller, Scope
from scheduler.api.explain import SHOWN, explanation
from scheduler.api.remedies import Means, remedies
from scheduler.api.views import job_view
from scheduler.cli.explain import show
from scheduler.cli.jobs import why
from scheduler.cli.text import Screen
from scheduler.controller import Book
from scheduler.model import (
    ONE,
    TRAIN_POOL,
    After,
    ArrayId,
    ArrayPlace,
    Attempt,
    Environment,
    GpuType,
    Job,
    JobId,
    JobKind,
    JobState,
    Maxima,
    Node,
    NodeName,
    NodePool,
    NodePoolName,
    Pool,
    Program,
    Project,
    ProjectName,
    ProjectRules,
    ProjectUsage,
    Request,
    Settings,
    Shape,
    UserName,
    WorkerPlacement,
)
from scheduler.policy import Action, Forecast, Snapshot, decide, forecast
from scheduler.scenario import read
from scheduler.schema import HIGHEST_PRIORITY, Explanation
from scheduler.store import ChangeSet
from tests.policy.pools import snapshots

BIG = NodePoolName("big")

NOW = 1_000_000.0
POOL = Pool(
    node_pools=(NodePool(TRAIN_POOL, Environment.TRAIN), NodePool(BIG, Environment.TRAIN)),
    projects=(
        Project(ProjectName("vision"), guaranteed=2 * ONE, members=frozenset({UserName("ann")})),
        Project(ProjectName("speech"), guaranteed=2 * ONE, members=frozenset({UserName("zoe")})),
        Project(ProjectName("small"), limit=2 * ONE, members=frozenset({UserName("ann")})),
    ),
)
NODES = (
    Node(NodeName("n1"), gpus=4, gpu_type=GpuType("A100")),
    Node(NodeName("n2"), gpus=2, gpu_type=GpuType("H100"), node_pool=BIG),
)
ids = iter(f"j-{n:012}" for n in range(1000, 10_000))


def a_job(
    project: str,
    user: str = "ann",
    *,
    on: tuple[tuple[str, int], ...] = (),
    name: str = "train",
    **request: Any,
) -> Job:
    """A one-worker job that waits, or has held the GPUs `on` since 100 s."""
    gpus = request.pop("gpus", len(on) or 1)
    placement = (WorkerPlacement(NodeName(on[0][0]), tuple(gpu for _, gpu in on)),) if on else ()
    attempts = (Attempt(1, placement, created=NOW - 100, started=NOW - 100),) if on else ()
    return Job(
        JobId(next(ids)), name, Request(ProjectName(project), UserName(user), shape=Shape(gpus * ONE), **request),
        Program(JobKind.COMMAND, ("train",)), submitted=NOW - 200, reason="Runs on n1." if on else "Waits.",
        state=JobState.RUNNING if on else JobState.QUEUED, attempts=attempts,
    )  # fmt: skip


def planned(*jobs: Job) -> Book:
    """A book with these jobs, a plan for them, and the forecast."""
    book = Book(POOL, NODES)
    book.put(ChangeSet(jobs=jobs))
    snapshot = Snapshot(NOW, POOL, NODES, tuple(book.workloads.values()))
    book.plan, book.forecast = decide(snapshot), forecast(snapshot)
    return book


def caller(name: str, *scopes: Scope) -> Access:
    return Access(Caller.of(UserName(name), frozenset(scopes or {Scope.SUBMIT})), POOL)


def four(project: str, user: str, **request: Any) -> list[Job]:
    """Jobs of one GPU that hold all of n1."""
    return [a_job(project, user, on=(("n1", gpu),), name=f"{project}-{gpu}", **request) for gpu in range(4)]


def test_hidden_jobs_are_summed_by_project() -> None:
    waiting = a_job("speech", "zoe", gpus=4)
    jobs = [*four("vision", "ann", preemptible=False), waiting]
    book = planned(*jobs)
    (mine,) = explanation(waiting, book, caller("zoe"), NOW).holders
    assert (mine.project, mine.gpus, mine.jobs) == ("vision", 4.0, [])
    (all_of_them,) = explanation(waiting, book, caller("root", Scope.ADMIN), NOW).holders
    assert [job.name for job in all_of_them.jobs] == [f"vision-{n}" for n in range(4)]
    told = explanation(waiting, book, caller("zoe"), NOW).model_dump_json()
    assert not any(job.id in told or job.name in told for job in jobs[:4])


def test_only_holders_of_gpus_that_it_may_use_are_named() -> None:
    elsewhere = a_job("vision", on=(("n2", 0), ("n2", 1)))
    waiting = a_job("vision", gpus=4, node_pools=("train",))
    found = explanation(waiting, planned(elsewhere, *four("speech", "zoe"), waiting), caller("ann"), NOW)
    assert [holder.project for holder in found.holders] == ["speech"]
    assert found.free == 0
    by_type = a_job("vision", gpus=2, gpu_types=("H100",))
    found = explanation(by_type, planned(elsewhere, by_type), caller("ann"), NOW)
    assert [job.id for holder in found.holders for job in holder.jobs] == [elsewhere.id]


def test_a_job_at_the_limit_waits_for_jobs_of_its_own_project() -> None:
    holding = a_job("small", on=(("n1", 0), ("n1", 1)))
    waiting = a_job("small")
    found = explanation(waiting, planned(holding, a_job("speech", "zoe", on=(("n1", 2),)), waiting), caller("ann"), NOW)
    assert found.blocked_by is not None
    assert found.blocked_by["kind"] == "limit"
    assert [holder.project for holder in found.holders] == ["small"]
    assert found.would_help == [
        f"Your job {holding.name} ends; it holds 2 GPUs.",
        "Submit it again in project vision, whose guarantee has room for it.",
        "Jobs of project small release 1 GPU.",
        "An administrator raises the limit of project small from 2 GPUs to 3 GPUs.",
    ]


def actions(job: Job, book: Book, access: Access) -> list[tuple[str, str, dict[str, str]]]:
    """What the caller is offered to do for a job: the kind, the job that it is done to, and the options."""
    found = [remedy.action for remedy in explanation(job, book, access, NOW).remedies]
    return [(action.kind, action.job, action.options) for action in found if action is not None]


def test_a_remedy_in_the_callers_hands_says_what_to_do() -> None:
    holding, waiting = a_job("small", on=(("n1", 0), ("n1", 1))), a_job("small")
    book = planned(holding, waiting)
    mine = [("cancel", holding.id, {}), ("clone", waiting.id, {"project": "vision"})]
    assert actions(waiting, book, caller("ann")) == mine
    for stranger in (caller("zoe"), caller("root", Scope.ADMIN), caller("ann", Scope.READ)):
        assert actions(waiting, book, stranger) == []


def test_a_job_behind_others_may_get_a_higher_priority_and_then_is_the_first() -> None:
    running = four("vision", "ann", priority=60)
    first, second = a_job("vision", gpus=4), replace(a_job("vision", gpus=4), submitted=NOW)
    book = planned(*running, first, second)
    assert actions(first, book, caller("ann")) == []
    for access in (caller("ann"), caller("root", Scope.ADMIN)):
        assert ("priority", second.id, {}) in actions(second, book, access)
    assert actions(second, book, caller("ann", Scope.READ)) == []
    raised = replace(second, request=replace(second.request, priority=51))
    decision = planned(*running, first, raised).decision(raised.id)
    assert decision is not None
    assert decision.position == 1
    top = replace(second, request=replace(second.request, priority=HIGHEST_PRIORITY))
    ahead = replace(first, request=top.request)
    assert actions(top, planned(*running, ahead, top), caller("ann")) == []


def test_a_project_with_a_maximum_priority_offers_none_above_it() -> None:
    first, second = a_job("vision", gpus=4), replace(a_job("vision", gpus=4), submitted=NOW)
    book = planned(*four("vision", "ann", priority=60), first, second)
    book.pool = replace(POOL, policy=ProjectRules(maxima=Maxima(priority=50)))
    assert actions(second, book, caller("ann")) == []


def test_a_requirement_can_be_dropped_in_a_clone_by_the_owner_alone() -> None:
    typed = a_job("vision", gpu_types=("V100",))
    book = planned(typed)
    assert actions(typed, book, caller("ann")) == [("clone", typed.id, {"gpu_types": ""})]
    assert actions(typed, book, caller("root", Scope.ADMIN)) == []
    kept = a_job("vision", gpus=4, preemptible=False)
    assert ("clone", kept.id, {"preemptible": ""}) in actions(kept, planned(kept), caller("ann"))
    large = a_job("vision", gpus=2, workers=3, min_workers=3, require="node")
    assert actions(large, planned(large), caller("ann")) == [("clone", large.id, {"require": "", "prefer": "node"})]


def test_a_paused_job_is_resumed_by_those_who_may() -> None:
    paused = replace(a_job("vision"), state=JobState.PAUSED)
    book = planned(paused)
    for access in (caller("ann"), caller("root", Scope.ADMIN)):
        assert actions(paused, book, access) == [("resume", paused.id, {})]
    for access in (caller("zoe"), caller("ann", Scope.READ)):
        assert actions(paused, book, access) == []


def test_the_job_to_cancel_is_the_smallest_that_is_enough() -> None:
    small = a_job("vision", on=(("n1", 0),), preemptible=False)
    large = a_job("vision", on=(("n1", 1), ("n1", 2)), preemptible=False)
    other = a_job("speech", "zoe", on=(("n1", 3),), preemptible=False)
    one, two = a_job("small", node_pools=("train",)), a_job("vision", gpus=2, node_pools=("train",))
    assert ("cancel", small.id, {}) in actions(one, planned(small, large, other, one), caller("ann"))
    assert ("cancel", large.id, {}) in actions(two, planned(small, large, other, two), caller("ann"))
    assert all(kind != "cancel" for kind, _, _ in actions(one, planned(small, large, other, one), caller("zoe")))


def test_position_and_estimate_are_given_with_their_basis() -> None:
    running = a_job("vision", on=(("n1", 0), ("n1", 1), ("n1", 2), ("n1", 3)), expected_runtime=400.0)
    first = a_job("vision", gpus=4, expected_runtime=50.0)
    second = replace(a_job("vision", gpus=4), submitted=NOW)
    book = planned(running, first, second)
    found = explanation(second, book, caller("ann"), NOW)
    assert (found.position, found.waiting, found.estimated_start) == (2, 2, NOW + 350)
    assert "declared by their owners (1)" in found.estimate
    assert found.holders[0].jobs[0].expected_end == NOW + 300
    assert (found.expected_runtime, found.runtime_source) == (None, None)
    assert explanation(first, book, caller("ann"), NOW).runtime_source == "declared"


def test_a_forecast_that_ends_before_the_start_says_when_it_ended() -> None:
    waiting = a_job("vision", gpus=4)
    book = planned(*four("vision", "ann"), waiting)
    book.forecast = Forecast(until=NOW + 7200)
    found = explanation(waiting, book, caller("ann"), NOW)
    assert (found.estimated_start, found.not_before) == (None, NOW + 7200)
    out = io.StringIO()
    show(Screen(out), found, NOW)
    assert "Not before " in out.getvalue()


def test_an_unknown_start_is_explained() -> None:
    waiting = a_job("vision", gpus=4)
    found = explanation(waiting, planned(*four("vision", "ann"), waiting), caller("ann"), NOW)
    assert found.estimated_start is None
    assert "jobs that hold what it needs (4 of 4) declare no run time" in found.estimate
    never = a_job("vision", gpus=8)
    found = explanation(never, planned(never), caller("ann"), NOW)
    assert found.estimate == "It can never start on the current pool."
    assert found.would_help


def test_a_running_job_waits_for_nothing() -> None:
    running, paused = a_job("vision", on=(("n1", 0),)), replace(a_job("vision"), state=JobState.PAUSED)
    book = planned(running, paused)
    found = explanation(running, book, caller("ann"), NOW)
    assert (found.action, found.reason, found.holders, found.would_help) == ("keep", "Runs on n1.", [], [])
    assert explanation(paused, book, caller("ann"), NOW).would_help == ["Resume it."]
    ended = explanation(replace(running, state=JobState.SUCCEEDED), book, caller("ann"), NOW)
    assert (ended.action, ended.estimated_start, ended.would_help) == (None, None, [])


@pytest.mark.parametrize(
    ("has", "saved", "said"),
    [
        (4, None, "Runs with all of its 4 workers."),
        (1, None, "Runs with 1 of 4 workers. It gets more when there are idle GPUs that nobody else can use and it has "
         "saved its state, which it has not done yet."),
        (2, NOW, "Runs with 2 of 4 workers. It gets more when there are idle GPUs that nobody else can use, 5 min "
         "after its latest start, at the earliest."),
    ],
)  # fmt: skip
def test_an_elastic_job_is_told_when_it_may_grow(has: int, saved: float | None, said: str) -> None:
    job = replace(a_job("vision", on=(("n1", 0),), gpus=1, workers=4, min_workers=1), checkpointed=saved)
    placement = tuple(WorkerPlacement(NodeName("n1"), (gpu,)) for gpu in range(has))
    job = job.with_attempt(replace(job.attempts[0], placement=placement))
    assert explanation(job, planned(job), caller("ann"), NOW).size == said
    fixed = a_job("vision", on=(("n1", 0),))
    assert explanation(fixed, planned(fixed), caller("ann"), NOW).size == ""


def test_a_project_with_many_jobs_shows_those_that_would_be_stopped_first() -> None:
    """The job with a single GPU loses least; of the others, the last in the order is not shown."""
    nodes = tuple(Node(NodeName(f"m{n}"), gpus=2) for n in range(SHOWN + 5))
    jobs = [a_job("vision", on=((node.name, 0), (node.name, 1))) for node in nodes[1:]]
    small, waiting = a_job("vision", on=((nodes[0].name, 0),)), a_job("vision", gpus=2)
    book = Book(POOL, nodes)
    book.put(ChangeSet(jobs=(small, *jobs, waiting)))
    book.plan = decide(Snapshot(NOW, POOL, nodes, tuple(book.workloads.values())))
    (holder,) = explanation(waiting, book, caller("ann"), NOW).holders
    assert len(holder.jobs) == SHOWN
    assert holder.jobs[0].id == small.id
    assert {job.id for job in holder.jobs[1:]} < {job.id for job in jobs}
    assert holder.gpus == 2 * len(jobs) + 1


@pytest.mark.parametrize(("who", "sees"), [("zoe", True), ("ann", False)])
def test_a_reason_names_the_jobs_that_its_reader_may_see_and_no_other(who: str, sees: bool) -> None:
    """A member of vision who is also in speech, and one who is not."""
    newcomer = a_job("speech", "zoe", name="asr")
    stopped = replace(a_job("vision", who), reason=f"Project speech reclaims GPUs for {newcomer.id}.")
    stopped = replace(stopped, state=JobState.PAUSED)
    reason = job_view(stopped, planned(newcomer, stopped), caller(who)).reason
    said = "asr" if sees else "a job of project speech"
    assert reason == f"Project speech reclaims GPUs for {said}."


def test_a_deleted_job_is_not_named() -> None:
    job = replace(a_job("vision"), state=JobState.PAUSED, reason="Made room for j-0123456789ab and s-0123456789ab.")
    job = replace(job, reason=f"{job.reason} Its folder: jobs/{job.id}.")
    reason = job_view(job, planned(job), caller("ann")).reason
    assert reason == f"Made room for another job and a session. Its folder: jobs/{job.id}."


async def test_a_job_that_waits_for_another_job_waits_for_no_gpus(service: Any, eventually: Any) -> None:
    first = await service.submit(name="first")
    await service.until(first["id"], JobState.RUNNING)
    second = await service.submit(after=[first["id"]])

    async def explained() -> Explanation:
        answer = await service.http["owner"].get(f"jobs/{second['id']}/explain")
        return Explanation.model_validate_json(answer.content)

    async def held_back() -> bool:
        return bool((await explained()).blocked_by)

    await eventually(held_back)
    found = await explained()
    assert found.blocked_by == {"kind": "after", "jobs": [first["id"]]}
    assert found.reason == "Waits for job first to succeed."
    assert (found.holders, found.estimated_start) == ([], None)
    assert found.would_help == ["The jobs that it depends on end as required."]


@given(snapshots())
def test_for_whatever_a_job_waits_something_would_help(snapshot: Snapshot) -> None:
    plan = decide(snapshot)
    program = Program(JobKind.COMMAND, ("train",))
    for workload in snapshot.workloads:
        decision = plan.decisions[workload.id]
        if decision.action is Action.WAIT and workload.request.environment is Environment.TRAIN:
            job = Job(JobId(workload.id), "train", workload.request, program, submitted=workload.submitted)
            found = remedies(job, decision, Means(others=True))
            assert found, decision.blocked_by
            assert all(remedy.sentence.endswith(".") for remedy in found)


def test_the_command_line_shows_the_whole_explanation() -> None:
    running = a_job("vision", on=(("n1", 0), ("n1", 1), ("n1", 2), ("n1", 3)), expected_runtime=400.0)
    waiting = a_job("vision", gpus=4, expected_runtime=3600.0)
    out = io.StringIO()
    show(Screen(out), explanation(waiting, planned(running, waiting), caller("ann"), NOW), NOW)
    text = out.getvalue()
    for part in (
        "in line   number 1 of 1 in project vision", "start     In about 5 min, at ", "runs      1 h, as declared",
        "Who holds what it waits for", "4 GPUs (4 over quota)", "What would help",
    ):  # fmt: skip
        assert part in text, text


def test_an_uncertain_start_is_given_with_a_range() -> None:
    running, waiting = a_job("vision", on=(("n1", 0),)), a_job("vision", gpus=4)
    similar = [ended_after(waiting, 60.0 * minutes) for minutes in range(10, 21)]
    book = planned(running, waiting)
    for job in similar:
        book.run_times.learn(job)
    book.forecast = Forecast({waiting.id: NOW + 600}, ranges={waiting.id: (NOW + 300, NOW + 1800)})
    found = explanation(waiting, book, caller("ann"), NOW)
    assert (found.earliest_start, found.estimated_start, found.latest_start) == (NOW + 300, NOW + 600, NOW + 1800)
    assert (found.shortest_runtime, found.longest_runtime, found.similar_runs) == (660, 1140, 11)
    out = io.StringIO()
    show(Screen(out), found, NOW)
    early, late = (f"{datetime.fromtimestamp(NOW + after):%H:%M}" for after in (300, 1800))
    assert f"In about 10 min, at {datetime.fromtimestamp(NOW + 600):%H:%M}" in out.getvalue()
    assert f"likely between {early} and {late}" in " ".join(out.getvalue().split())
    assert "8 in 10 of 11 similar jobs ran 11 min to 19 min" in " ".join(out.getvalue().split())
    view = job_view(waiting, book, caller("ann"))
    assert (view.earliest_start, view.latest_start) == (NOW + 300, NOW + 1800)
    assert why(view, NOW).endswith("starts in about 10 min (5 min to 30 min)")


def ended_after(job: Job, seconds: float) -> Job:
    attempt = Attempt(1, (), created=NOW, started=NOW, ended=NOW + seconds)
    return replace(job, state=JobState.SUCCEEDED, attempts=(attempt,))


async def test_over_http_only_the_owner_gets_the_explanation(service: Any, eventually: Any) -> None:
    train = (await service.http["owner"].get("pool")).json()["train"]["gpus"]
    first = await service.submit(gpus=train, name="first", expected_runtime=3600)
    await service.until(first["id"], JobState.RUNNING)
    second = await service.submit(gpus=train, name="second")

    async def found() -> Explanation:
        answer = await service.http["owner"].get(f"jobs/{second['id']}/explain")
        return Explanation.model_validate_json(answer.content)

    async def foretold() -> bool:
        return (await found()).estimated_start is not None

    await eventually(foretold)
    told = await found()
    started = (await service.http["owner"].get(f"jobs/{first['id']}")).json()["started"]
    assert told.estimated_start == pytest.approx(started + 3600, abs=60)
    assert [job.name for holder in told.holders for job in holder.jobs] == ["first"]
    seen = (await service.http["owner"].get(f"jobs/{second['id']}")).json()
    assert seen["estimated_start"] == told.estimated_start
    assert (await service.http["stranger"].get(f"jobs/{second['id']}/explain")).status_code == 404


async def test_a_preempted_owner_does_not_learn_whose_job_preempted_theirs(service: Any) -> None:
    train = (await service.http["owner"].get("pool")).json()["train"]["gpus"]
    mine = await service.submit(gpus=train, grace=1)
    await service.until(mine["id"], JobState.RUNNING)
    theirs = await service.submit("stranger", gpus=2, name="secret")
    await service.until(mine["id"], JobState.QUEUED)
    await service.until(theirs["id"], JobState.RUNNING)
    for path in (f"jobs/{mine['id']}", f"jobs/{mine['id']}/explain", "jobs", "pool"):
        text = (await service.http["owner"].get(path)).text
        assert "secret" not in text
        assert theirs["id"] not in text
    async with service.http["owner"].stream("GET", "events", params={"after": 0}) as stream:
        async for line in stream.aiter_lines():
            assert theirs["id"] not in line
            if f'"subject":"{mine["id"]}"' in line and '"state":"queued","reason":"Project speech' in line:
                break


async def test_a_scenario_of_a_live_pool_gives_the_same_plan(service: Any) -> None:
    train = (await service.http["owner"].get("pool")).json()["train"]["gpus"]
    first = await service.submit(gpus=train, max_runtime=3600)
    await service.until(first["id"], JobState.RUNNING)
    second = await service.submit(gpus=train)
    answer = await service.http["admin"].get("pool/snapshot")
    (snapshot,) = read(answer.text)
    running, waiting = snapshot.workloads
    assert (running.id, waiting.id) == (first["id"], second["id"])
    assert running.started is not None
    assert -60 < running.started <= 0
    assert running.request.expected_runtime == 3600
    plan = decide(snapshot)
    assert plan.decisions[second["id"]].action is Action.WAIT
    job = (await service.http["owner"].get(f"jobs/{second['id']}/explain")).json()
    assert job["action"] in (None, "wait")
    assert snapshot.pool.settings == service.controller.book.pool.settings


def test_an_array_that_a_job_waits_for_is_named() -> None:
    array = ArrayId("a-0123456789ab")
    member = replace(a_job("vision", name="trial-3"), id=JobId(f"{array}-3"))
    member = replace(member, request=replace(member.request, array=ArrayPlace(array, 3, 4)))
    job = replace(a_job("vision"), state=JobState.PAUSED, reason=f"Waits for job {array} to succeed.")
    job = replace(job, request=replace(job.request, after=(After(JobId(array)),)))
    reasons = {who: job_view(job, planned(member, job), caller(who)).reason for who in ("ann", "zoe")}
    assert reasons == {"ann": "Waits for job trial to succeed.", "zoe": f"Waits for job {array} to succeed."}
    assert job_view(job, planned(job), caller("ann")).reason == f"Waits for job {array} to succeed."


def test_a_starting_job_is_not_shown_as_running() -> None:
    """The plan uses changes that are not yet durable; the public book does not."""
    running = a_job("vision", on=(("n1", 0),))
    book = planned(running)
    book.put(ChangeSet(jobs=(replace(running, state=JobState.QUEUED, reason="Waiting for its turn.", attempts=()),)))
    assert job_view(book.jobs[running.id], book, caller("ann")).reason == "Waiting for its turn."


def test_recent_use_is_shown_where_it_counts() -> None:
    waiting = a_job("vision", gpus=4)
    book = planned(*four("vision", "ann"), waiting)
    assert explanation(waiting, book, caller("ann"), NOW).recent_use == ""
    book.pool = replace(book.pool, settings=Settings(time_aware=1.0, usage_half_life=600))
    book.usage[ProjectName("vision")] = ProjectUsage(ProjectName("vision"), average=2000.0, at=NOW - 600)
    told = explanation(waiting, book, caller("ann"), NOW).recent_use
    assert told.startswith("Project vision has used 1 GPU on average recently, 17% of the pool.")


class OneByOne(Mapping[str, Job]):
    """Jobs that can only be found by id."""

    def __init__(self, jobs: Mapping[str, Job]) -> None:
        self._jobs = jobs

    def __getitem__(self, job_id: str) -> Job:
        return self._jobs[job_id]

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("this goes through all jobs")

    def __len__(self) -> int:
        return len(self._jobs)


def test_no_answer_scans_all_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = a_job("vision", gpus=4)
    book = planned(*four("speech", "zoe"), waiting)
    everything = explanation(waiting, book, caller("ann"), NOW)
    jobs = vars(Book)["jobs"].fget
    monkeypatch.setattr(Book, "jobs", property(lambda book: OneByOne(jobs(book))))
    with pytest.raises(AssertionError, match="through all jobs"):
        list(book.jobs.values())
    assert explanation(waiting, book, caller("ann"), NOW) == everything
    assert everything.holders
    assert everything.waiting == 1
