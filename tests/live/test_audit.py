"""Every change of the pool is recorded: who, when, from what to what."""

from __future__ import annotations

from typing import Any

from tests.live.conftest import Live, Open

TRAIN = [{"name": "train", "environment": "train"}]


async def audit(live: Live, **query: Any) -> list[tuple[Any, ...]]:
    answer = await live.service.http["admin"].get("audit", params=query)
    keys = "user", "action", "kind", "name"
    return [tuple(entry[key] for key in keys) for entry in answer.json()["entries"]]


async def test_it_records_the_author_and_both_values_of_a_change(open_pool: Open) -> None:
    live = await open_pool(node_pools=TRAIN, projects=[{"name": "nlp", "members": ["*"]}])
    first = await audit(live)
    admin = live.service.http["admin"]
    await admin.put("projects/nlp", json={"name": "nlp", "guaranteed": 2, "members": ["*"]})
    await admin.put("projects/nlp", json={"name": "nlp", "guaranteed": 2, "members": ["*"]})  # changes nothing
    await admin.put("projects/speech", json={"name": "speech"})
    await admin.delete("projects/speech")
    await admin.post("pool/preview", json={"name": "nlp", "guaranteed": 8})
    await admin.put("projects/below", json={"name": "below", "parent": "nowhere"})  # is refused
    assert (await audit(live))[: -len(first)] == [
        ("root", "remove", "project", "speech"),
        ("root", "add", "project", "speech"),
        ("root", "change", "project", "nlp"),
    ]
    newest = (await live.get("audit?name=nlp&limit=1"))["entries"][0]
    assert (newest["before"], newest["after"]) == ({"guaranteed": 0.0}, {"guaranteed": 2.0})
    assert newest["at"] > 0


async def test_an_applied_pool_file_is_a_record_for_each_thing_that_it_changes(open_pool: Open) -> None:
    live = await open_pool(node_pools=TRAIN, projects=[{"name": "nlp", "members": ["*"]}])
    await live.apply(
        node_pools=TRAIN,
        projects=[{"name": "nlp", "members": ["ann"]}],
        users=[{"name": "ann", "build_quota": 0}],
        settings={"lending": True},
    )
    assert sorted((await audit(live))[:3]) == [
        ("root", "add", "user", "ann"),
        ("root", "change", "project", "nlp"),
        ("root", "change", "settings", "settings"),
    ]


async def test_it_is_read_page_by_page_and_by_who_and_what(open_pool: Open) -> None:
    live = await open_pool(node_pools=TRAIN, projects=[{"name": "nlp", "members": ["*"]}])
    for n in range(5):
        await live.service.http["admin"].put("projects/nlp", json={"name": "nlp", "guaranteed": n + 1})
    everything, found, after = await live.get("audit"), [], ""
    while after is not None:
        page = await live.get(f"audit?limit=2{after and f'&after={after}'}")
        found += page["entries"]
        after = page["next"]
    assert found == everything["entries"]
    assert len(await audit(live, kind="project", name="nlp", user="root")) >= 5
    assert await audit(live, user="ann") == []


async def test_administrators_verbs_on_others_jobs_and_sessions_are_recorded(open_pool: Open) -> None:
    live = await open_pool(projects=[{"name": "nlp", "members": ["*"]}])
    before = await audit(live)
    job = await live.submit(project="nlp", name="train.py", gpus=1)
    assert await live.runs(job) == [job]
    owner, admin = live.service.http["owner"], live.service.http["admin"]
    for verb in ("pause", "resume", "cancel", "cancel"):
        assert (await admin.post(f"jobs/{job}/{verb}")).status_code == 200
        await live.bench.settled()
    assert (await admin.delete(f"jobs/{job}")).status_code == 204
    session = (await owner.post("sessions", json={"user": "ann", "gpus": 1})).json()["id"]
    assert (await admin.delete(f"sessions/{session}")).status_code == 200
    assert (await audit(live))[: -len(before)] == [
        ("root", "remove", "session", session),
        ("root", "remove", "job", job),
        ("root", "change", "job", job),
        ("root", "change", "job", job),
        ("root", "change", "job", job),
    ]
    (cancelled, resumed, paused) = (await live.get(f"audit?name={job}"))["entries"][1:]
    assert [each["after"]["state"] for each in (paused, resumed, cancelled)] == ["paused", "queued", "cancelled"]
    assert paused["before"] == {"state": "running", "owner": "ann", "name": "train.py"}


async def test_verbs_on_ones_own_jobs_are_not_recorded(open_pool: Open) -> None:
    live = await open_pool(projects=[{"name": "nlp", "members": ["*"]}])
    before = await audit(live)
    job = await live.submit(project="nlp", gpus=1)
    owner, admin = live.service.http["owner"], live.service.http["admin"]
    assert (await owner.post(f"jobs/{job}/cancel")).status_code == 200
    session = (await owner.post("sessions", json={"user": "ann", "gpus": 1})).json()["id"]
    assert (await owner.delete(f"sessions/{session}")).status_code == 200
    own = (await admin.post("jobs", json={"command": ["train"], "project": "nlp"})).json()["id"]
    assert (await admin.post(f"jobs/{own}/cancel")).status_code == 200
    assert await audit(live) == before
