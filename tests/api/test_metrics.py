"""What Prometheus scrapes, and the dashboard that is made of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from scheduler.model import JobState
from tests.api.conftest import Service

DASHBOARD = Path(__file__).parents[2] / "deploy" / "grafana" / "dashboard.json"


async def families(service: Service) -> dict[str, Any]:
    text = (await service.http["admin"].get(f"{service.url}metrics")).text
    return {family.name: family for family in text_string_to_metric_families(text)}


def values(family: Any) -> dict[tuple[str, ...], float]:
    """By the values of the labels, whose names are in their alphabet's order."""
    return {tuple(value for _, value in sorted(sample.labels.items())): sample.value for sample in family.samples}


async def test_gpus_and_projects_are_told_apart(service: Service) -> None:
    job = await service.submit(gpus=2)
    await service.until(job["id"], JobState.RUNNING)
    found = await families(service)
    assert sum(values(found["runai_gpu_allocated"]).values()) == 2
    assert set(values(found["runai_gpu_allocated"]).values()) == {0, 1}
    gpus = values(found["runai_project_gpus"])
    assert (gpus["allocated", "vision"], gpus["guaranteed", "vision"], gpus["allocated", "speech"]) == (2, 2, 0)
    jobs = values(found["runai_project_jobs"])
    assert (jobs["vision", "running"], jobs["vision", "queued"]) == (1, 0)


async def test_every_metric_of_the_dashboard_is_exported_with_its_labels(service: Service) -> None:
    found = await families(service)
    board = json.loads(DASHBOARD.read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert expressions
    for expression in expressions:
        names = re.findall(r"runai_[a-z_]+", expression)
        assert names, expression
        for name in names:
            assert re.sub("_(bucket|total)$", "", name) in found, name
        for name, label in re.findall(r"(runai_[a-z_]+)\{([a-z]+)=", expression):
            assert all(label in sample.labels for sample in found[name].samples), expression
