"""The running service reports use and the cost of reclaims."""

from __future__ import annotations

from typing import Any

from tests.live.conftest import Open

TRAIN = [{"name": "train", "environment": "train"}]
EVERYBODY = {"members": ["*"]}


async def test_a_reclaim_is_recorded_for_the_project_that_lost_gpus(open_pool: Open) -> None:
    live = await open_pool(
        node_pools=TRAIN,
        projects=[{"name": "a", **EVERYBODY}, {"name": "b", "guaranteed": 8, **EVERYBODY}],
    )
    victim = await live.submit(project="a", gpus=4, workers=2)
    assert await live.runs(victim) == [victim]
    claim = await live.submit("mate", project="b", gpus=4)
    assert await live.runs(claim) == [claim]

    async def used(**query: Any) -> dict[str, tuple[int, int]]:
        words = "&".join(f"{name}={value}" for name, value in query.items())
        found = await live.get(f"usage?by=project&{words}")
        return {row["project"]: (row["starts"], row["reclaims"]) for row in found["rows"]}

    assert await used() == {"a": (1, 1), "b": (1, 0)}
    assert await used(user="ben") == {"b": (1, 0)}
    metrics = (await live.service.http["admin"].get(f"{live.service.url}metrics")).text
    assert 'runai_reclaims_total{project="a"} 1.0' in metrics
