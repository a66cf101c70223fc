"""An ended job is deleted by its owner, with all its files; unreferenced blobs are deleted automatically."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from scheduler.model import JobState
from scheduler.service.retention import SPARED, Retention
from tests.api.test_bundles import packed


@pytest.fixture
def retention(service: Any) -> Retention:
    api = service.app.settings["api"]
    return Retention(service.controller, service.store, api.blobs, api.owners)


async def with_bundle(service: Any, content: str, command: list[str], **job: Any) -> tuple[str, str]:
    """Put a bundle, date it back, and submit a job with it."""
    bundle, digest = packed(a=content)
    assert (await service.http["owner"].put(f"blobs/{digest}", content=bundle)).status_code == 200
    found = await service.submit(command=command, bundle=digest, **job)
    long_ago = time.time() - 2 * SPARED
    os.utime(service.app.settings["api"].blobs.path(digest), (long_ago, long_ago))
    return found["id"], digest


async def test_a_deleted_job_leaves_nothing_for_any_caller(service: Any) -> None:
    job = (await service.submit(command=["sh", "-c", "echo said; echo left > $RUNAI_OUTPUT_DIR/file"], gpus=0))["id"]
    await service.until(job, JobState.SUCCEEDED)
    assert (await service.http["mate"].delete(f"jobs/{job}")).status_code == 403
    assert (await service.http["stranger"].delete(f"jobs/{job}")).status_code == 404
    assert (await service.http["owner"].get(f"jobs/{job}/outputs")).json()["files"]
    assert (await service.http["owner"].delete(f"jobs/{job}")).status_code == 204
    for path in ("", "/logs", "/outputs", "/outputs/file", "/metrics", "/explain"):
        assert (await service.http["owner"].get(f"jobs/{job}{path}")).status_code == 404
    assert (await service.http["owner"].get("jobs")).json()["jobs"] == []
    assert (await service.http["owner"].delete(f"jobs/{job}")).status_code == 404
    assert not list((service.state_dir / "jobs").iterdir())


async def test_an_administrator_deletes_any(service: Any) -> None:
    job = (await service.submit(command=["true"], gpus=0))["id"]
    await service.until(job, JobState.SUCCEEDED)
    assert (await service.http["admin"].delete(f"jobs/{job}")).status_code == 204


async def test_an_upload_is_kept_as_long_as_a_job_refers_to_it(service: Any, retention: Retention) -> None:
    done, shared = await with_bundle(service, "1", ["true"], gpus=0)
    await service.until(done, JobState.SUCCEEDED)
    waiting, same = await with_bundle(service, "1", ["sleep", "60"], gpus=0)
    assert shared == same
    gone, alone = await with_bundle(service, "2", ["true"], gpus=0)
    await service.until(gone, JobState.SUCCEEDED)
    assert await retention.sweep() == 0
    for job in (done, gone):
        assert (await service.http["owner"].delete(f"jobs/{job}")).status_code == 204
    assert await retention.sweep() == 1
    owner = service.http["owner"]
    assert (await owner.head(f"blobs/{alone}")).status_code == 404
    assert (await owner.head(f"blobs/{shared}")).status_code == 200
    refused = await owner.post("jobs", json={"command": ["true"], "bundle": alone})
    assert (refused.status_code, refused.json()["field"]) == (422, "bundle")
    await service.controller.cancel(waiting)


async def test_an_upload_that_was_just_looked_up_is_kept(service: Any, retention: Retention) -> None:
    gone, digest = await with_bundle(service, "1", ["true"], gpus=0)
    await service.until(gone, JobState.SUCCEEDED)
    await service.http["owner"].delete(f"jobs/{gone}")
    assert (await service.http["owner"].head(f"blobs/{digest}")).status_code == 200
    assert await retention.sweep() == 0
    again = await service.submit(command=["true"], bundle=digest, gpus=0)
    await service.until(again["id"], JobState.SUCCEEDED)
