"""A preview predicts what then happens."""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Any

import httpx

from scheduler.model import Node, NodeName
from tests.live.conftest import Live, Open

NODES = Node(NodeName("n1"), gpus=4), Node(NodeName("n2"), gpus=4)
TRAIN = [{"name": "train", "environment": "train"}]
REPLAYS, SEED = 8, int(os.environ.get("RUNAI_SEED", 7))


async def preview(live: Live, **project: Any) -> dict[str, Any]:
    answer = await live.service.http["admin"].post("pool/preview", json=project)
    assert answer.is_success, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def put(live: Live, **project: Any) -> httpx.Response:
    return await live.service.http["admin"].put(f"projects/{project['name']}", json=project)


async def running(live: Live) -> dict[str, Any]:
    """The places of the jobs that run once nothing changes by itself."""
    await live.bench.settled()
    jobs = (await live.get("jobs?limit=20"))["jobs"]
    return {job["id"]: job["attempts"][-1]["workers"] for job in jobs if job["state"] == "running"}


async def test_it_names_jobs_that_would_stop_or_start_and_broken_guarantees(open_pool: Open) -> None:
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


async def test_a_change_that_would_be_refused_is_refused_in_the_preview(open_pool: Open) -> None:
    live = await open_pool(*NODES, node_pools=TRAIN, projects=[{"name": "nlp", "members": ["*"]}])
    await live.submit()
    below = {"name": "below", "parent": "nlp"}
    refused = await live.service.http["admin"].post("pool/preview", json=below)
    assert refused.status_code == 409
    assert refused.json()["detail"] == (await put(live, **below)).json()["detail"]


async def test_random_changes_have_their_previewed_effects(open_pool: Open) -> None:
    """`RUNAI_REPLAYS=2000 pytest tests/live/test_previews.py -k random` is the long form, `RUNAI_SEED` others."""
    rng, replays = random.Random(SEED), int(os.environ.get("RUNAI_REPLAYS", REPLAYS))
    live = await open_pool(*NODES)
    said: Counter[str] = Counter()
    differ = [found for _ in range(replays) if (found := await replayed(live, rng, said)) is not None]
    print(f"{replays - len(differ)} of {replays} previews were what happened, of {dict(said)}")
    assert len(differ) <= replays / 100, differ
    assert min(said["stop"], said["start"]) > 0


async def replayed(live: Live, rng: random.Random, said: Counter[str]) -> dict[str, Any] | None:
    """Fill a pool and change a project at random: returns the preview and the result where they differ."""
    names = "nlp", "vision", "speech"
    await live.apply(node_pools=TRAIN, projects=[{"name": name, "members": ["*"]} for name in names])
    for _ in range(rng.randint(4, 10)):
        workers = rng.choice([1, 1, 2])
        await live.submit(
            project=rng.choice(names),
            gpus=rng.choice([0.5, 1, 1, 2, 4]),
            workers=workers,
            min_workers=rng.randint(1, workers),
            priority=rng.choice([40, 50, 60]),
        )
    before = await running(live)
    change = {rng.choice(["guaranteed", "limit", "weight"]): rng.randint(0, 6)}
    entry = {"name": rng.choice(names), "members": ["*"], **change}
    found = await preview(live, **entry)
    assert (await put(live, **entry)).is_success
    after = await running(live)
    seen = {
        "stop": {id for id in before if id not in after},
        "start": {id for id in after if id not in before},
        "resize": {id for id in before if id in after and len(before[id]) != len(after[id])},
        "move": {id for id in before if id in after and len(before[id]) == len(after[id]) and before[id] != after[id]},
    }
    told = {action: {id for e in found["effects"] if e["action"] == action for id in e["ids"]} for action in seen}
    said.update({action: len(ids) for action, ids in seen.items()})
    for job in [job for job in (await live.get("jobs?limit=20"))["jobs"] if job["ended"] is None]:
        await live.service.http["admin"].post(f"jobs/{job['id']}/cancel")
    await live.bench.settled()
    return None if told == seen else {"change": entry, "told": told, "seen": seen}


async def test_gpus_that_a_stopped_job_still_holds_are_promised_to_others(open_pool: Open) -> None:
    """The stopped job would be next, for all its GPUs; while it is stopping it is not, and a small job starts."""
    live = await open_pool(*NODES)
    names = "nlp", "vision", "speech"
    await live.apply(node_pools=TRAIN, projects=[{"name": name, "members": ["*"]} for name in names])
    jobs: list[dict[str, Any]] = [
        {"project": "nlp", "gpus": 4, "priority": 40},
        {"project": "vision", "gpus": 1, "priority": 50},
        {"project": "speech", "gpus": 1, "workers": 2, "min_workers": 2, "priority": 40},
        {"project": "nlp", "gpus": 1, "priority": 40},
        {"project": "vision", "gpus": 0.5, "workers": 2, "min_workers": 1, "priority": 40},
        {"project": "speech", "gpus": 2, "priority": 50},
        {"project": "speech", "gpus": 4, "priority": 40},
    ]
    for job in jobs:
        await live.submit(**job)
        await live.bench.settled()  # planned before the next one comes, so that the same jobs run each time
    before = await running(live)
    found = await preview(live, name="nlp", weight=0, members=["*"])
    starts = {id for effect in found["effects"] if effect["action"] == "start" for id in effect["ids"]}
    await put(live, name="nlp", weight=0, members=["*"])
    after = await running(live)
    assert {id for id in after if id not in before} == starts
    assert len(starts) == 2
