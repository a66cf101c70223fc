"""The program options of a job take effect where it runs: real processes of the local engine, sent over HTTP."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from scheduler.model import JobState
from tests.api.conftest import Service
from tests.api.test_bundles import packed


async def said(service: Service, *, rank: int = 0, **job: Any) -> str:
    """The output of a job."""
    sent = await service.submit(**{"gpus": 0, **job})
    await service.until(sent["id"], JobState.SUCCEEDED)
    return (await service.http["owner"].get(f"jobs/{sent['id']}/logs", params={"rank": rank})).text


async def test_its_command_runs_with_its_env_and_its_parameters(service: Service) -> None:
    command = ["sh", "-c", "echo $GREETING $RUNAI_PARAMETERS $RUNAI_JOB_NAME"]
    told = await said(service, command=command, env={"GREETING": "hello"}, parameters={"lr": 0.1}, name="try")
    assert told == 'hello {"lr": 0.1} try\n'


async def test_its_working_directory_is_its_bundle_and_its_files(service: Service) -> None:
    """A large file is at its `path`, assembled from its `blobs`, and executable if `executable`."""
    owner = service.http["owner"]
    bundle, digest = packed(data__txt="of the bundle")
    parts = [b"#!/bin/sh\n", b"cat data.txt; echo; echo of the file\n"]
    blobs = [hashlib.sha256(part).hexdigest() for part in parts]
    for name, content in [(digest, bundle), *zip(blobs, parts, strict=True)]:
        assert (await owner.put(f"blobs/{name}", content=content)).is_success
    files = [{"path": "bin/tool", "blobs": blobs, "executable": True}]
    assert await said(service, command=["bin/tool"], bundle=digest, files=files) == "of the bundle\nof the file\n"
    files[0]["executable"] = False
    job = await service.submit(command=["bin/tool"], bundle=digest, files=files, gpus=0)
    await service.until(job["id"], JobState.FAILED)


@pytest.mark.parametrize(("framework", "told"), [("torch", "2\n"), ("none", "\n")])
async def test_workers_find_each_other_as_their_framework_has_it(service: Service, framework: str, told: str) -> None:
    command = ["sh", "-c", "echo $WORLD_SIZE"]
    assert await said(service, rank=1, command=command, workers=2, framework=framework) == told
