"""What a preview says is what then happens."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import httpx

from scheduler.model import Node, NodeName
from tests.live.conftest import Live, Open

NODES = Node(NodeName("n1"), gpus=4), Node(NodeName("n2"), gpus=4)
TRAIN = [{"name": "train", "environment": "train"}]
REPLAYS = 8


async def preview(live: Live, **project: Any) -> dict[str, Any]:
    answer = await live.service.http["admin"].post("pool/preview", json=project)
    assert answer.is_success, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def put(live: Live, **project: Any) -> httpx.Response:
    return await live.service.http["admin"].put(f"projects/{project['name']}", json=project)


async def running(live: Live) -> dict[str, Any]:
    """The places of the jobs that run once nothing more happens by itself."""
    await live.bench.settled()
    jobs = (await live.get("jobs?limit=500"))["jobs"]
    return {job["id"]: job["attempts"][-1]["workers"] for job in jobs if job["state"] == "running"}


async def test_it_names_who_would_stop_and_who_would_start_and_what_cannot_be_promised(open_pool: Open) -> None:
    projects = [{"name": "nlp", "guaranteed": 2, "members": ["*"]}, {"name": "vision", "members": ["*"]}]
    live = await open_pool(*NODES, node_pools=TRAIN, projects=projects)
    await live.submit_all(*[{"project": "nlp", "gpus": 2}] * 4)
    await live.submit_all(*[{"project": "vision", "gpus": 2}] * 3)
    before = await running(live)
    found = await preview(live, name="vision", guaranteed=40, members=["*"])
    assert found["preview"] is True
    assert [(c["name"], c["before"], c["after"]) for c in found["changes"]] == [
        ("vision", {"guaranteed": 0.0}, {"guaranteed": 40.0})
    ]
    assert "there are 8 GPUs for training; the guarantees cannot all be met" in found["warnings"][0]
    assert len(found["warnings"]) == 1
    stop, start = sorted(found["effects"], key=lambda effect: effect["action"] != "stop")
    assert (stop["action"], stop["project"], start["action"], start["project"]) == ("stop", "nlp", "start", "vision")
    assert set(await running(live)) == set(before), "a preview changes nothing"
    await put(live, name="vision", guaranteed=40, members=["*"])
    after = await running(live)
    assert {id for id in before if id not in after} == set(stop["ids"])
    assert {id for id in after if id not in before} == set(start["ids"])
    assert (stop["jobs"], stop["gpus"]) == (len(stop["ids"]), 2.0 * len(stop["ids"]))


async def test_what_would_be_refused_is_refused_in_the_preview(open_pool: Open) -> None:
    live = await open_pool(*NODES, node_pools=TRAIN, projects=[{"name": "nlp", "members": ["*"]}])
    await live.submit()
    below = {"name": "below", "parent": "nlp"}
    refused = await live.service.http["admin"].post("pool/preview", json=below)
    assert refused.status_code == 409
    assert refused.json()["detail"] == (await put(live, **below)).json()["detail"]


async def test_random_changes_do_what_their_previews_say(open_pool: Open) -> None:
    rng = random.Random(7)
    names = "nlp", "vision", "speech"
    pool_file = {"node_pools": TRAIN, "projects": [{"name": name, "members": ["*"]} for name in names]}
    live = await open_pool(*NODES)
    said: Counter[str] = Counter()
    for _ in range(REPLAYS):
        await live.apply(**pool_file)
        for _ in range(rng.randint(4, 10)):
            await live.submit(
                project=rng.choice(names),
                gpus=rng.choice([0.5, 1, 1, 2, 4]),
                workers=rng.choice([1, 1, 2]),
                priority=rng.choice([40, 50, 60]),
            )
        before = await running(live)
        entry = {"name": rng.choice(names), "members": ["*"], rng.choice(["guaranteed", "limit"]): rng.randint(0, 6)}
        found = await preview(live, **entry)
        assert (await put(live, **entry)).is_success
        after = await running(live)
        seen = {
            "stop": {id for id in before if id not in after},
            "start": {id for id in after if id not in before},
            "move": {id for id in before if id in after and before[id] != after[id]},
        }
        for action, ids in seen.items():
            assert {id for effect in found["effects"] if effect["action"] == action for id in effect["ids"]} == ids
            said[action] += len(ids)
        for job in (await live.get("jobs?limit=500"))["jobs"]:
            await live.service.http["admin"].post(f"jobs/{job['id']}/cancel")
        await live.bench.settled()
    assert min(said["stop"], said["start"]) > 0


async def test_a_removal_is_previewed(open_pool: Open) -> None:
    projects = [{"name": "nlp", "guaranteed": 8, "members": ["*"]}, {"name": "vision", "members": ["*"]}]
    live = await open_pool(*NODES, node_pools=TRAIN, projects=projects)
    admin = live.service.http["admin"]
    found = (await admin.post("pool/preview", params={"remove": "true"}, json={"name": "nlp"})).json()
    assert [(change["action"], change["name"]) for change in found["changes"]] == [("remove", "nlp")]
    job = await live.submit(project="nlp")
    refused = await admin.post("pool/preview", params={"remove": "true"}, json={"name": "nlp"})
    assert refused.json()["detail"] == (await admin.delete("projects/nlp")).json()["detail"]
    assert job in refused.json()["detail"]


async def test_a_change_of_a_project_that_is_no_longer_as_it_was_seen_is_refused(open_pool: Open) -> None:
    live = await open_pool(*NODES, node_pools=TRAIN, projects=[{"name": "nlp", "members": ["*"]}])
    admin = live.service.http["admin"]
    seen = (await admin.get("projects/nlp")).headers["ETag"]
    await live.submit(project="nlp")
    assert (await admin.get("projects/nlp")).headers["ETag"] == seen, "how it stands is not what is declared of it"

    mine, theirs = {"name": "nlp", "guaranteed": 2}, {"name": "nlp", "limit": 4}
    changed = await admin.put("projects/nlp", json=theirs, headers={"If-Match": seen})
    assert changed.is_success
    for refused in (
        await admin.put("projects/nlp", json=mine, headers={"If-Match": seen}),
        await admin.delete("projects/nlp", headers={"If-Match": seen}),
    ):
        assert refused.status_code == 412
        assert refused.json()["detail"].startswith("Project 'nlp' has been changed meanwhile; ")
    assert (await live.get("projects/nlp"))["limit"] == 4
    again = await admin.put("projects/nlp", json=mine, headers={"If-Match": changed.headers["ETag"]})
    assert again.json()["guaranteed"] == 2


async def test_a_project_is_added_only_where_there_is_none(open_pool: Open) -> None:
    live = await open_pool(*NODES, node_pools=TRAIN, projects=[{"name": "nlp", "members": ["*"]}])
    admin, anew = live.service.http["admin"], {"If-None-Match": "*"}
    assert (await admin.put("projects/speech", json={"name": "speech"}, headers=anew)).is_success
    twice = await admin.put("projects/speech", json={"name": "speech", "limit": 1}, headers=anew)
    assert (twice.status_code, twice.json()["field"]) == (412, "name")
    gone = await admin.put("projects/gone", json={"name": "gone"}, headers={"If-Match": '"seen"'})
    assert gone.status_code == 412
