"""Uploads the files of a job: the archive, and the parts of large files, several at once.

What must hold: the bytes that are hashed are those that are sent, though the owner may change the file meanwhile; what
the scheduler has is not sent again.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduler.client.calls import digest_of
from scheduler.files.bundle import PART, Bundle, Large
from scheduler.schema import FileSubmit

if TYPE_CHECKING:
    from scheduler.client.sync import Client

CONNECTIONS = 3


@dataclass(frozen=True, slots=True)
class Uploaded:
    """The fields of a submission for its files, and how many bytes of large files did not have to be sent."""

    bundle: str
    files: list[FileSubmit]
    unchanged: int

    @property
    def fields(self) -> dict[str, Any]:
        return {"bundle": self.bundle, **({"files": self.files} if self.files else {})}


def upload(client: Client, bundle: Bundle) -> Uploaded:
    """Upload what the scheduler does not have yet."""
    unchanged = 0
    blobs: dict[str, list[str]] = {large.entry.path: [] for large in bundle.large}
    pool = ThreadPoolExecutor(CONNECTIONS)
    try:
        archive = pool.submit(client.upload_bundle, bundle.data)
        parts = list(_parts(bundle))
        for (large, start), (digest, sent) in zip(
            parts, pool.map(lambda part: _put(client, *part), parts), strict=True
        ):
            blobs[large.entry.path].append(digest)
            unchanged += 0 if sent else min(PART, large.entry.size - start)
        digest = archive.result()
    finally:
        pool.shutdown(cancel_futures=True)
    files = [
        FileSubmit(path=large.entry.path, blobs=blobs[large.entry.path], executable=large.entry.executable)
        for large in bundle.large
    ]
    return Uploaded(digest, files, unchanged)


def _parts(bundle: Bundle) -> Iterator[tuple[Large, int]]:
    for large in bundle.large:
        for start in range(0, large.entry.size, PART):
            yield large, start


def _put(client: Client, large: Large, start: int) -> tuple[str, bool]:
    """The digest of a part, and whether it had to be sent."""
    part = large.part(start)
    digest = digest_of(part)
    known = client.has_bundle(digest)
    if not known:
        client.put_bundle(digest, part)
    return digest, not known
