"""Bundles over HTTP: whole or not at all, by digest, and private to each user."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from scheduler.api import bundles
from scheduler.api.owners import Owners
from scheduler.model import JobState


def packed(**files: str) -> tuple[bytes, str]:
    """A tar.gz of these files, and its digest: the same for the same files at any time."""
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="w", mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as archive,
    ):
        for name, text in files.items():
            info = tarfile.TarInfo(name.replace("__", "."))
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue(), hashlib.sha256(buffer.getvalue()).hexdigest()


async def test_a_bundle_is_the_working_directory_of_a_job(service: Any) -> None:
    owner = service.http["owner"]
    bundle, digest = packed(train__py="print('trained')")
    assert (await owner.head(f"blobs/{digest}")).status_code == 404
    put = await owner.put(f"blobs/{digest}", content=bundle)
    assert put.json() == {"digest": digest, "size": len(bundle)}
    head = await owner.head(f"blobs/{digest}")
    assert (head.status_code, head.headers["Content-Length"]) == (200, str(len(bundle)))
    job = await service.submit(command=["python3", "train.py"], bundle=digest, gpus=0)
    await service.until(job["id"], JobState.SUCCEEDED)
    assert (await owner.get(f"jobs/{job['id']}/logs")).content == b"trained\n"


async def test_a_digest_gives_no_access_without_an_upload_of_its_bytes(service: Any) -> None:
    bundle, digest = packed(secret__py="print('secret')")
    await service.http["owner"].put(f"blobs/{digest}", content=bundle)
    mate = service.http["mate"]
    assert (await mate.head(f"blobs/{digest}")).status_code == 404
    submit = await mate.post("jobs", json={"command": ["cat", "secret.py"], "bundle": digest})
    assert (submit.status_code, submit.json()["field"]) == (422, "bundle")
    await mate.put(f"blobs/{digest}", content=bundle)
    assert (await mate.head(f"blobs/{digest}")).status_code == 200


async def test_a_digest_of_a_part_gives_no_access_either(service: Any) -> None:
    part = b"half of a secret"
    digest = hashlib.sha256(part).hexdigest()
    await service.http["owner"].put(f"blobs/{digest}", content=part)
    sent = {"command": ["cat", "x"], "gpus": 0, "files": [{"path": "x", "blobs": [digest, digest]}]}
    refused = await service.http["mate"].post("jobs", json=sent)
    assert (refused.status_code, refused.json()["field"]) == (422, "files")
    job = await service.submit(**sent)
    await service.until(job["id"], JobState.SUCCEEDED)
    assert (await service.http["owner"].get(f"jobs/{job['id']}/logs")).content == 2 * part


@pytest.mark.parametrize("path", ["/etc/x", "../x", "a/../../x", ".", "a\0b", ""])
async def test_a_large_file_is_below_the_working_directory(service: Any, path: str) -> None:
    sent = {"command": ["true"], "gpus": 0, "files": [{"path": path, "blobs": []}]}
    refused = await service.http["owner"].post("jobs", json=sent)
    assert (refused.status_code, refused.json()["field"]) == (422, "files[0].path")


async def test_bytes_of_another_digest_are_refused_and_not_kept(service: Any) -> None:
    owner = service.http["owner"]
    bundle, digest = packed(a="1")
    answer = await owner.put(f"blobs/{digest}", content=bundle[:-1] + b"x")
    assert (answer.status_code, answer.json()["field"]) == (422, "digest")
    assert (await owner.head(f"blobs/{digest}")).status_code == 404
    assert not kept(service)


@pytest.mark.parametrize("name", ["abc", "A" * 64, "..%2f" * 10, "g" * 64])
async def test_a_path_must_be_a_digest(service: Any, name: str) -> None:
    assert (await service.http["owner"].put(f"blobs/{name}", content=b"x")).status_code == 404


async def test_a_bundle_over_the_bound_is_refused_also_in_pieces(start: Any) -> None:
    service = await start(max_blob=100_000)
    owner = service.http["owner"]
    content = os.urandom(200_000)
    digest = hashlib.sha256(content).hexdigest()

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(content), 10_000):
            yield content[at : at + 10_000]

    for sent in (content, pieces()):
        answer = await owner.put(f"blobs/{digest}", content=sent)
        assert answer.status_code == 413, answer.text
        assert not kept(service)


async def test_a_users_uploads_are_limited(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stored bundles count once each, and uploads in progress count; each user has a separate limit."""
    monkeypatch.setattr(bundles, "GIB", 1000)
    await service.controller.apply(replace(service.controller.book.pool, max_upload_gib_per_user=200))
    first, second, third = (os.urandom(80_000) for _ in range(3))

    async def put(who: str, content: bytes, **sent: Any) -> Any:
        path = f"blobs/{hashlib.sha256(content).hexdigest()}"
        return await service.http[who].put(path, **(sent or {"content": content}))

    for content in (first, first, second):
        assert (await put("owner", content)).status_code == 200
    refused = await put("owner", third)
    assert refused.status_code == 429
    assert refused.json()["detail"].startswith(
        "You may upload 195 KiB for your jobs and have uploaded 156 KiB. Delete jobs"
    )
    assert (await put("mate", third)).status_code == 200
    answers = await asyncio.gather(*(put("stranger", os.urandom(80_000)) for _ in range(8)))
    assert sorted(answer.status_code for answer in answers) == [200, 200, *[429] * 6]
    service.app.settings["api"].owners.sweep(lambda digest: False)
    for who in ("owner", "stranger"):  # refused uploads are no longer counted
        for _ in range(2):
            assert (await put(who, os.urandom(80_000))).status_code == 200


async def test_an_interrupted_upload_leaves_nothing(service: Any, eventually: Any) -> None:
    content = os.urandom(300_000)
    digest = hashlib.sha256(content).hexdigest()
    port = int(service.url.rsplit(":", 1)[1].rstrip("/"))
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        f"PUT /api/v1/blobs/{digest} HTTP/1.1\r\n"
        "Host: x\r\nAuthorization: token owner\r\nContent-Length: 300000\r\n\r\n"
    )
    writer.write(head.encode() + content[:200_000])
    await writer.drain()
    await eventually(lambda: kept(service))
    writer.close()
    await eventually(lambda: not kept(service))
    assert (await service.http["owner"].head(f"blobs/{digest}")).status_code == 404


async def test_the_uploader_of_a_bundle_is_known_after_a_restart(service: Any) -> None:
    bundle, digest = packed(a="1")
    await service.http["owner"].put(f"blobs/{digest}", content=bundle)

    owners = Owners(service.state_dir / "blobs" / "owners", lambda digest: 1)
    assert owners.has("ann", digest)
    assert not owners.has("ben", digest)


def kept(service: Any) -> list[str]:
    """The files of bundles, whole or being uploaded."""
    found = (service.state_dir / "blobs").rglob("*")
    return [str(path) for path in found if path.is_file() and "owners" not in path.parts]
