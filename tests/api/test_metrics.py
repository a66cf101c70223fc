"""The metrics for Prometheus, and the dashboard that uses them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from scheduler.model import GpuKey, JobState
from scheduler.telemetry import GpuSample, Throttle
from tests.api.conftest import Service

DASHBOARD = Path(__file__).parents[2] / "deploy" / "grafana" / "dashboard.json"


async def families(service: Service) -> dict[str, Any]:
    text = (await service.http["admin"].get(f"{service.url}metrics")).text
    return {family.name: family for family in text_string_to_metric_families(text)}


def values(family: Any) -> dict[tuple[str, ...], float]:
    """By the values of the labels, in alphabetical order of their names."""
    return {tuple(value for _, value in sorted(sample.labels.items())): sample.value for sample in family.samples}


async def test_metrics_are_labelled_by_gpu_and_project(service: Service) -> None:
    job = await service.submit(gpus=2)
    await service.until(job["id"], JobState.RUNNING)
    found = await families(service)
    assert sum(values(found["runai_gpu_allocated"]).values()) == 2
    assert set(values(found["runai_gpu_allocated"]).values()) == {0, 1}
    gpus = values(found["runai_project_gpus"])
    assert (gpus["allocated", "vision"], gpus["guaranteed", "vision"], gpus["allocated", "speech"]) == (2, 2, 0)
    jobs = values(found["runai_project_jobs"])
    assert (jobs["vision", "running"], jobs["vision", "queued"]) == (1, 0)


def measure(service: Service, monkeypatch: pytest.MonkeyPatch, sample: GpuSample) -> None:
    """Let the first GPU of the pool report this, and fail."""
    (first, *others) = service.controller.book.nodes
    inventory = service.inventory
    monkeypatch.setattr(inventory, "samples", lambda nodes: {GpuKey((first.name, 0)): sample})
    monkeypatch.setattr(inventory, "nodes", lambda pool: (replace(first, failing=((0, "It fails."),)), *others))
    service.controller.refresh()


SAMPLE = GpuSample(0.5, 1024, 2048, 250.0, 61, Throttle.POWER_CAP | Throttle.IDLE, corrected=3, uncorrected=1)


async def test_what_a_gpu_reports_is_exported(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    assert values((await families(service))["runai_gpu_power_watts"]) == {}, "declared GPUs have no made-up figures"
    measure(service, monkeypatch, SAMPLE)
    found = await families(service)
    node = service.controller.book.nodes[0].name
    assert values(found["runai_gpu_power_watts"]) == {("0", node): 250}
    assert values(found["runai_gpu_temperature_celsius"]) == {("0", node): 61}
    assert values(found["runai_gpu_memory_bytes"]) == {("0", node): 2048 * 2**20}
    assert values(found["runai_gpu_memory_errors"]) == {("0", "corrected", node): 3, ("0", "uncorrected", node): 1}
    throttled = values(found["runai_gpu_throttled"])
    assert [reason for (_, _, reason), value in throttled.items() if value] == ["power_cap"]
    assert ("0", node, "idle") not in throttled
    assert values(found["runai_gpu_failing"]) == {("0", node): 1}
    assert values(found["runai_gpu_processes"]) == {("0", node): 0}


async def test_every_metric_of_the_dashboard_is_exported_with_its_labels(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure(service, monkeypatch, SAMPLE)
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
