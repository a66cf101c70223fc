"""The form of all responses: problems with one sentence, security headers, bounded bodies and pages."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from scheduler.controller import sessionline
from scheduler.controller.accounting import waited
from scheduler.model import Attempt, Job, JobId, JobKind, JobState, Program, ProjectName, Request
from scheduler.schema import DryRunView, JobPage, JobView, Me, PoolFile, PoolView, Problem, ProjectList


async def refused(service: Any, status: int, method: str, path: str, who: str = "owner", **sent: Any) -> Problem:
    answer = await service.http[who].request(method, path, **sent)
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    problem = Problem.model_validate_json(answer.content)
    assert problem.status == status
    assert problem.detail.endswith((".", "?"))
    return problem


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        (b"{", None, "This is not valid JSON: "),
        (b"", "command", "missing"),
        (b"[]", None, "This should be an object."),
        (b'{"command": ["x"], "gpu": 1}', "gpu", "did you mean 'gpus'"),
        (b'{"command": []}', "command", "at least 1"),
        (b'{"command": ["x"], "gpus": "1"}', "gpus", "number"),
        (b'{"command": ["x"], "gpus": 1.5}', "gpus", "Ask for 1 or 2"),
        (b'{"command": ["x"], "gpus": 0.0001}', "gpus", "0.001"),
        (b'{"command": ["x"], "gpus": NaN}', "gpus", "finite"),
        (b'{"command": ["x"], "workers": 0}', "workers", "greater"),
        (b'{"command": ["x"], "env": {"A B": "1"}}', "env.A B", "not a valid variable name"),
        (b'{"command": ["x"], "bundle": "abc"}', "bundle", "match"),
        (b'{"command": ["x"], "user": "root"}', "user", "no key"),
        (b'{"command": ["x"], "project": "nowhere"}', "project", "nowhere"),
        (b'{"command": ["x"], "gpus": 64}', "gpus", "GPUs"),
        (b'{"command": ["\xff"]}', None, ""),
    ],
)
async def test_bad_input_gets_one_sentence_and_its_field(
    service: Any, body: bytes, field: str | None, words: str
) -> None:
    problem = await refused(service, 422, "POST", "jobs", content=body)
    if field is not None:
        assert problem.field == field
    assert words in problem.detail
    for path in ("jobs/check", "jobs/dry-run"):
        assert await refused(service, 422, "POST", path, content=body) == problem
    assert (await service.http["owner"].get("jobs")).json()["jobs"] == []


async def test_a_check_accepts_a_valid_job_without_queueing_it(service: Any) -> None:
    owner = service.http["owner"]
    answer = await owner.post("jobs/check", json={"command": ["x"], "gpus": 1, "kind": "cell"})
    assert (answer.status_code, answer.content) == (204, b"")
    assert (await owner.get("jobs")).json()["jobs"] == []


async def test_a_dry_run_predicts_the_submission(service: Any) -> None:
    owner = service.http["owner"]
    pool = (await owner.get("pool")).json()
    train = pool["train"]["gpus"]

    async def dry_run(**job: Any) -> DryRunView:
        answer = await owner.post("jobs/dry-run", json={"command": ["x"], "project": "vision", **job})
        assert answer.status_code == 200, answer.text
        return DryRunView.model_validate_json(answer.content)

    assert (await dry_run(gpus=1)).model_dump(include={"starts", "after", "over_quota"}) == {
        "starts": True,
        "after": 0,
        "over_quota": False,
    }
    assert (await dry_run(gpus=train)).over_quota
    first = await service.submit(gpus=train, name="first", expected_runtime=3600)
    await service.until(first["id"], JobState.RUNNING)
    found = await dry_run(gpus=1)
    started = (await owner.get(f"jobs/{first['id']}")).json()["started"]
    assert not found.starts
    assert found.estimated_start == pytest.approx(started + 3600, abs=60)
    second = await service.submit(gpus=1)
    await service.controller.settle()  # until it is planned, it only waits for its turn
    assert found.reason == (await owner.get(f"jobs/{second['id']}")).json()["reason"]
    after = await dry_run(gpus=1, after=["first"])
    assert (after.starts, after.estimated_start, after.reason) == (False, None, "Waits for job first to succeed.")
    assert (await service.http["admin"].get("jobs")).json()["jobs"][0]["id"] == second["id"]  # and no more


async def test_a_foreign_project_is_refused_with_the_names_of_the_callers_own(service: Any) -> None:
    problem = await refused(service, 403, "POST", "jobs", json={"command": ["x"], "project": "speech"})
    assert problem.field == "project"
    assert "vision" in problem.detail


async def test_a_bundle_that_was_never_uploaded_is_refused(service: Any) -> None:
    problem = await refused(service, 422, "POST", "jobs", json={"command": ["x"], "bundle": "a" * 64})
    assert problem.field == "bundle"


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("jobs?limit=501", "limit"),
        ("jobs?limit=0", "limit"),
        ("jobs?state=asleep", "state[0]"),
        ("jobs?nme=x", "nme"),
        ("jobs?after=x", "after"),
        ("events?after=-1", "after"),
    ],
)
async def test_a_bad_query_names_its_parameter(service: Any, path: str, field: str) -> None:
    assert (await refused(service, 422, "GET", path)).field == field


async def test_a_bad_last_event_id_is_refused(service: Any) -> None:
    await refused(service, 422, "GET", "events", headers={"Last-Event-ID": "yesterday"})


async def test_a_large_body_is_refused_before_it_is_stored(service: Any) -> None:
    body = json.dumps({"command": ["x" * 2_000_000]}).encode()
    await refused(service, 413, "POST", "jobs", content=body)

    async def in_pieces() -> Any:
        for _ in range(40):
            yield b"x" * 65536

    await refused(service, 413, "POST", "jobs", content=in_pieces())


async def test_an_unknown_caller_is_refused_before_the_body_is_read(service: Any) -> None:
    await refused(service, 401, "POST", "jobs", who="nobody", content=b"{" * 2_000_000)


async def test_unknown_paths_and_wrong_methods_are_problems_too(service: Any) -> None:
    await refused(service, 404, "GET", "nothing")
    await refused(service, 404, "GET", "../../etc/passwd")
    await refused(service, 405, "PATCH", "jobs")
    await refused(service, 405, "OPTIONS", "jobs", who="nobody")
    await refused(service, 404, "GET", "jobs/j-nothing")


@pytest.mark.parametrize("path", ["me", "pool", "jobs", "nothing", "openapi.json"])
async def test_every_answer_has_strict_headers(service: Any, path: str) -> None:
    for who in ("owner", "nobody"):
        headers = (await service.http[who].get(path)).headers
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        assert "Server" not in headers
        assert "Access-Control-Allow-Origin" not in headers
        assert "Set-Cookie" not in headers


async def test_answers_match_their_types(service: Any) -> None:
    owner, admin = service.http["owner"], service.http["admin"]
    job = await service.submit(name="train", gpus=2)
    assert Me.model_validate_json((await owner.get("me")).content).projects == ["vision"]
    pool = PoolView.model_validate_json((await owner.get("pool")).content)
    assert pool.declared
    assert pool.build.gpus + pool.train.gpus == 8
    projects = ProjectList.model_validate_json((await owner.get("projects")).content).projects
    assert [project.name for project in projects] == ["vision", "speech", "spare"]
    page = JobPage.model_validate_json((await owner.get("jobs")).content)
    assert [one.id for one in page.jobs] == [job["id"]]
    assert JobView.model_validate_json((await owner.get(f"jobs/{job['id']}")).content).gpus == 2
    assert PoolFile.model_validate_json((await admin.get("pool/file")).content).projects[0].name == "vision"


async def test_control_characters_in_a_reason_are_escaped(service: Any) -> None:
    """A job's name, command and output are untrusted text."""
    job = await service.submit(command=["\x1b[31mnone\x9b1m\u202e"], gpus=0)
    await service.until(job["id"], JobState.FAILED)
    for who in ("owner", "mate"):
        told = (await service.http[who].get(f"jobs/{job['id']}")).json()
        assert "31mnone" in told["reason"]
        assert told["reason"].isprintable()
        assert told["attempts"][0]["reason"].isprintable()
    events = (await service.http["owner"].get(f"jobs/{job['id']}/explain")).json()
    assert events["reason"].isprintable()
    shown = await service.submit(command=["sh", "-c", "printf 'Error: \x9b31m\x1b]0;x\x07 \u202e'; exit 1"], gpus=0)
    await service.until(shown["id"], JobState.FAILED)
    assert (await service.http["owner"].get(f"jobs/{shown['id']}")).json()["reason"].isprintable()


async def test_the_use_of_others_is_shown_without_their_names(service: Any) -> None:
    job = await service.submit(name="secret-plan", gpus=1)
    await service.until(job["id"], JobState.RUNNING)

    async def occupant(who: str) -> dict[str, Any]:
        pool = (await service.http[who].get("pool")).json()
        (found,) = [one for node in pool["nodes"] for gpu in node["gpus"] for one in gpu["occupants"]]
        return dict(found)

    for who in ("owner", "mate", "reader", "admin"):
        assert (await occupant(who))["name"] == "secret-plan"
    hidden = await occupant("stranger")
    assert (hidden["kind"], hidden["project"], hidden["share"]) == ("job", "vision", 1)
    assert (hidden["id"], hidden["name"], hidden["user"]) == (None, None, None)


async def test_members_are_shown_to_members(service: Any) -> None:
    assert (await service.http["owner"].get("projects/vision")).json()["members"] == ["ann", "ben", "rex"]
    assert (await service.http["stranger"].get("projects/vision")).json()["members"] == []


async def test_the_same_key_gives_the_same_job(service: Any) -> None:
    async def submit(who: str, key: str) -> str:
        body = {"command": ["sleep", "60"], "gpus": 0}
        answer = await service.http[who].post("jobs", json=body, headers={"Idempotency-Key": key})
        assert answer.status_code == 201
        return str(answer.json()["id"])

    first, again = await asyncio.gather(submit("owner", "k1"), submit("owner", "k1"))
    assert first == again
    assert await submit("owner", "k2") != first
    assert await submit("mate", "k1") != first


async def test_pages_have_no_gaps_or_repetitions(service: Any) -> None:
    ids = [(await service.submit(gpus=0, command=["true"]))["id"] for _ in range(7)]
    found: list[str] = []
    after: str | None = None
    while True:
        page = (
            await service.http["owner"].get("jobs", params={"limit": 3, **({"after": after} if after else {})})
        ).json()
        assert len(page["jobs"]) <= 3
        found += [job["id"] for job in page["jobs"]]
        after = page["next"]
        if after is None:
            break
    assert found == ids[::-1]


async def test_lists_show_the_callers_projects_and_apply_filters(service: Any) -> None:
    mine = (await service.submit("owner"))["id"]
    mates = (await service.submit("mate"))["id"]
    theirs = (await service.submit("stranger"))["id"]

    async def listed(who: str, **params: str) -> set[str]:
        return {job["id"] for job in (await service.http[who].get("jobs", params=params)).json()["jobs"]}

    assert await listed("owner") == {mine, mates}
    assert await listed("owner", mine="true") == {mine}
    assert await listed("stranger") == {theirs}
    assert await listed("stranger", project="vision") == set()
    assert await listed("admin") == {mine, mates, theirs}
    assert await listed("admin", project="speech") == {theirs}
    assert await listed("admin", state="succeeded") == set()
    assert await listed("admin", user="ann") == {mine}
    assert await listed("owner", user="zoe") == set()
    assert await listed("owner", find="ANN vision") == {mine}

    async def counted(who: str) -> tuple[int, int]:
        me = (await service.http[who].get("me")).json()
        return sum(me["jobs"].values()), sum(me["team_jobs"].values())

    assert await counted("owner") == (1, 2)
    assert await counted("stranger") == (1, 1)
    assert (await counted("admin"))[1] == 3
    assert await listed("stranger", find="ann") == set()
    assert await listed("admin", find=theirs[2:]) == {theirs}


async def test_a_job_says_why_it_waits(service: Any, eventually: Any) -> None:
    train = (await service.http["owner"].get("pool")).json()["train"]["gpus"]
    first = await service.submit(gpus=train)
    await service.until(first["id"], JobState.RUNNING)
    second = await service.submit(gpus=train)

    async def explained() -> dict[str, Any]:
        return dict((await service.http["owner"].get(f"jobs/{second['id']}/explain")).json())

    async def blocked() -> bool:
        return bool((await explained())["blocked_by"])

    await eventually(blocked)
    answer = await explained()
    assert answer["action"] == "wait"
    assert answer["reason"]
    seen = (await service.http["owner"].get(f"jobs/{second['id']}")).json()
    assert seen["reason"] == answer["reason"]
    assert seen["position"] == 1


async def test_a_pool_file_is_previewed_applied_and_idempotent(service: Any) -> None:
    admin = service.http["admin"]
    file = (await admin.get("pool/file")).json()
    file["projects"].append({"name": "audio", "guaranteed": 1})
    preview = (await admin.post("pool/apply?preview=true", json=file)).json()
    assert [(change["action"], change["name"]) for change in preview["changes"]] == [("add", "audio")]
    assert (await admin.get("projects/audio")).status_code == 404
    applied = (await admin.post("pool/apply", json=file)).json()
    assert applied["changes"] == preview["changes"]
    assert (await admin.get("projects/audio")).status_code == 200
    assert (await admin.post("pool/apply", json=file)).json()["changes"] == []


async def test_a_project_with_jobs_is_not_removed(service: Any) -> None:
    await service.submit()
    problem = await refused(service, 409, "DELETE", "projects/vision", who="admin")
    assert "cancel" in problem.detail


async def test_changes_of_projects_at_the_same_time_are_all_kept(service: Any) -> None:
    names = [f"p{number}" for number in range(8)]
    answers = await asyncio.gather(
        *(service.http["admin"].put(f"projects/{name}", json={"name": name}) for name in names)
    )
    assert {answer.status_code for answer in answers} == {200}
    found = {project["name"] for project in (await service.http["admin"].get("projects")).json()["projects"]}
    assert found >= set(names)


async def test_a_session_gives_its_gpus_to_the_server(service: Any) -> None:
    answer = await service.http["owner"].post("sessions", json={"user": "ann", "gpus": 1})
    assert answer.status_code == 201, answer.text
    session = answer.json()
    assert session["state"] == "leased"
    assert session["env"]["CUDA_VISIBLE_DEVICES"] == session["env"]["RUNAI_GPUS"] != ""
    again = await service.http["owner"].post("sessions", json={"user": "ann", "gpus": 1})
    assert again.json()["id"] == session["id"]
    too_many = await refused(service, 409, "POST", "sessions", json={"user": "ann", "server": "b", "gpus": 1})
    assert "1" in too_many.detail


async def test_a_server_waits_in_line_for_gpus(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessionline, "HOLD", 0.05)
    owner, admin = service.http["owner"], service.http["admin"]
    build = int((await owner.get("pool")).json()["build"]["gpus"])
    for n in range(build):
        assert (await admin.post("sessions", json={"user": f"user-{n}", "gpus": 1})).status_code == 201
    asked = {"user": "ann", "gpus": 1, "wait": True}
    answer = await owner.post("sessions", json=asked)
    mine = answer.json()
    assert (mine["state"], mine["position"], mine["estimated_start"]) == ("requested", 1, None)
    later = await admin.post("sessions", json={"user": "zoe", "gpus": 1, "wait": True})
    assert later.json()["position"] == 2
    assert [view["id"] for view in (await owner.get("sessions")).json()["line"]] == [mine["id"]]
    assert [view["user"] for view in (await admin.get("sessions")).json()["line"]] == ["ann", "zoe"]
    early = await refused(service, 403, "POST", "sessions", json={**asked, "since": 0})
    assert early.field == "since"
    await refused(service, 404, "DELETE", f"sessions/{mine['id']}", who="stranger")
    assert (await owner.delete(f"sessions/{mine['id']}")).json()["state"] == "ended"
    assert [view["position"] for view in (await admin.get("sessions")).json()["line"]] == [1]
    earliest = await admin.post("sessions", json={**asked, "since": 1.0})
    assert earliest.json()["position"] == 1


@pytest.mark.parametrize("user", ["", "\x1b[2J", "x" * 256])
async def test_a_session_has_a_user(service: Any, user: str) -> None:
    problem = await refused(service, 422, "POST", "sessions", who="admin", json={"user": user, "gpus": 1})
    assert problem.field == "user"
    assert (await service.http["admin"].get("pool/snapshot")).status_code == 200


async def test_a_users_unfinished_jobs_are_limited(service: Any) -> None:
    await service.controller.apply(replace(service.controller.book.pool, max_jobs_per_user=3))
    owner, body = service.http["owner"], {"command": ["sleep", "60"], "gpus": 0}
    first = await service.submit(gpus=0)
    members = [{"index": 1}, {"index": 2}, {"index": 3}]
    await refused(service, 429, "POST", "arrays", json={"job": body, "members": members})
    sent = {"job": body, "members": members[:2]}
    assert (await owner.post("arrays", json=sent)).status_code == 201
    for path in ("jobs", "jobs/check"):
        problem = await refused(service, 429, "POST", path, json=body)
        assert problem.detail == (
            "ann may have 3 unfinished jobs and has 3. Wait until some have ended, or cancel some."
        )
    await service.submit("mate", gpus=0)
    await owner.post(f"jobs/{first['id']}/cancel")
    await service.until(first["id"], JobState.CANCELLED)
    await service.submit(gpus=0)


async def test_metrics_are_for_administrators_and_the_scrape_token(service: Any) -> None:
    await service.submit(gpus=0)
    text = (await service.http["admin"].get(f"{service.url}metrics")).text
    assert 'runai_gpus{environment="train",state="free"}' in text
    assert "runai_jobs{" in text
    assert 'runai_http_requests_total{handler="JobsHandler",method="POST",status="201"} 1.0' in text
    assert "runai_plan_seconds_count" in text
    assert "runai_queue_wait_seconds_count" in text
    scrape = {"Authorization": "Bearer only-for-metrics"}
    assert (await service.http["nobody"].get(f"{service.url}metrics", headers=scrape)).status_code == 200
    assert (await service.http["nobody"].get("me", headers=scrape)).status_code == 401


async def test_queue_waits_and_plans_are_measured(service: Any) -> None:
    job = await service.submit(gpus=1)
    await service.until(job["id"], JobState.RUNNING)
    measured = await figures(service)
    assert measured["runai_queue_wait_seconds_count"] == 1
    assert 0 <= measured["runai_queue_wait_seconds_sum"] < time.time()
    assert measured["runai_plan_seconds_count"] >= 1


async def figures(service: Any) -> dict[str, float]:
    text = (await service.http["admin"].get(f"{service.url}metrics")).text
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


async def test_a_plan_reads_only_what_has_changed(service: Any, eventually: Any) -> None:
    job = {"command": ["sleep", "60"], "gpus": 4}
    members = [{"index": index} for index in range(300)]
    assert (await service.http["owner"].post("arrays", json={"job": job, "members": members})).is_success

    async def planned(job_id: str) -> bool:
        return (await service.http["owner"].get(f"jobs/{job_id}")).json()["position"] is not None

    before = await figures(service)
    for _ in range(10):
        waiting = await service.submit(gpus=4)
        await eventually(partial(planned, waiting["id"]))
    after = await figures(service)
    assert after["runai_plan_seconds_count"] - before["runai_plan_seconds_count"] >= 10
    read = after["runai_plan_workloads_read_total"] - before["runai_plan_workloads_read_total"]
    assert 10 <= read < 10 * len(members)


# -- jobs that wait for jobs --------------------------------------------------------------------------------


async def test_an_array_is_stored_completely_or_not_at_all(service: Any) -> None:
    owner = service.http["owner"]
    job = {
        "command": ["sh", "-c", "echo $RUNAI_ARRAY_INDEX of $RUNAI_ARRAY_SIZE $RUNAI_PARAMETERS"],
        "gpus": 0,
    }
    members = [
        {"index": 7, "parameters": {"lr": 0.1, "on": True}},
        {"index": 3, "command": ["sh", "-c", "exit 1"]},
    ]
    sent = {"job": {**job, "name": "try"}, "members": members, "max_parallel": 2}
    created = await owner.post("arrays", json=sent, headers={"Idempotency-Key": "k"})
    assert created.status_code == 201, created.text
    array = created.json()
    assert [view["name"] for view in array["jobs"]] == ["try-7", "try-3"]
    again = await owner.post("arrays", json=sent, headers={"Idempotency-Key": "k"})
    assert {view["id"] for view in again.json()["jobs"]} == {view["id"] for view in array["jobs"]}
    seven, three = (view["id"] for view in array["jobs"])
    await service.until(three, JobState.FAILED)
    await service.until(seven, JobState.SUCCEEDED)
    assert (await owner.get(f"jobs/{seven}/logs")).text == '7 of 2 {"lr": 0.1, "on": true}\n'
    listed = (await owner.get("jobs", params={"array": array["id"]})).json()["jobs"]
    assert {(view["index"], view["array"]) for view in listed} == {(3, array["id"]), (7, array["id"])}
    for wrong, field in (
        ({**sent, "members": [{"index": 1}, {"index": 1}]}, "members"),
        ({**sent, "members": [{"index": 1}, {"index": 2, "command": [""]}]}, "members[1].command[0]"),
        ({**sent, "members": []}, "members"),
        ({**sent, "job": {**job, "gpus": 64}}, "gpus"),
    ):
        refusal = await refused(service, 422, "POST", "arrays", json=wrong)
        assert refusal.field == field
    assert len((await owner.get("jobs")).json()["jobs"]) == 2


@pytest.mark.parametrize("name", ["max_parallel", "at_once"])
async def test_max_parallel_limits_the_running_jobs_of_an_array(service: Any, name: str) -> None:
    """By the current name of the limit, and by its former one."""
    sent = {"job": {"command": ["sleep", "60"], "gpus": 0}, "members": [{"index": 0}, {"index": 1}], name: 1}
    created = await service.http["owner"].post("arrays", json=sent)
    first, second = (view["id"] for view in created.json()["jobs"])
    await service.until(first, JobState.RUNNING)
    waiting = (await service.http["owner"].get(f"jobs/{second}")).json()
    assert waiting["blocked_by"] == {
        "kind": "array",
        "array": waiting["array"],
        "max_parallel": 1,
        "at_once": 1,
    }


async def test_only_the_owner_reads_a_jobs_parameters(service: Any) -> None:
    job = await service.submit(gpus=0, parameters={"secret": 7})
    assert job["parameters"] == {"secret": 7}
    for who in ("mate", "admin"):
        seen = (await service.http[who].get(f"jobs/{job['id']}")).json()
        assert (seen["id"], seen["parameters"]) == (job["id"], {})


async def test_a_job_cannot_depend_on_one_that_its_owner_may_not_see(service: Any) -> None:
    job = await service.submit(command=["sleep", "60"], gpus=0, grace=0)
    sent = {"command": ["true"], "gpus": 0, "after": [job["id"]]}
    unseen = await refused(service, 422, "POST", "jobs", who="stranger", json=sent)
    unknown = await refused(service, 422, "POST", "jobs", who="stranger", json={**sent, "after": ["j-none"]})
    assert (unseen.field, unseen.detail.replace(job["id"], "j-none")) == ("after", unknown.detail)
    follower = await service.submit(command=["true"], gpus=0, after=[job["id"]])
    why = (await service.http["owner"].get(f"jobs/{follower['id']}/explain")).json()
    assert follower["after"] == [job["id"]]
    assert why["state"] == "queued"
    await service.http["owner"].post(f"jobs/{job['id']}/cancel")
    await service.until(follower["id"], JobState.CANCELLED)
    late = await service.http["owner"].post("jobs", json=sent)
    assert (late.status_code, late.json()["field"]) == (409, "after")
    assert "has been cancelled already" in late.json()["detail"]


def test_an_attempt_has_waited_since_the_one_before_ended() -> None:
    first = Attempt(1, (), created=1005.0, ended=1060.0)
    again = Attempt(2, (), created=1062.0)
    job = Job(JobId("j"), "j", Request(ProjectName("vision")), Program(JobKind.COMMAND, ("x",)), submitted=1000.0)
    assert waited(replace(job, attempts=(first,))) == 5
    assert waited(replace(job, attempts=(first, again))) == 2
    assert waited(replace(job, attempts=(first, again), queued=1061.0)) == 1
