"""`/blobs`: bundles and parts of large files, uploaded under the SHA-256 of their bytes before a job names them.

What must hold: a digest alone grants no access. A user can name a bundle in a submission, or ask whether it exists,
only after uploading its bytes. Other users' bundles do not exist for them, though equal bytes are stored once.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from scheduler.api.access import Scope
from scheduler.api.base import ApiHandler
from scheduler.api.endpoint import BYTES, endpoint
from scheduler.api.exchange import DISCARDED
from scheduler.errors import Invalid, NotFound, RunaiError, TooLarge, TooMany
from scheduler.schema import BlobView

if TYPE_CHECKING:
    from scheduler.files.blobs import Incoming

PIECE = 1024 * 1024

GIB = 2**30

SLOWEST = 100_000
"""The lowest rate, in bytes a second, at which the largest bundle arrives in time."""


class BlobHandler(ApiHandler):
    """Uploads are hashed and written in threads, piece by piece, so that other requests are answered meanwhile."""

    _incoming: Incoming | None = None
    _expected = 0
    _failed: Exception | None = None

    def body_limit(self) -> int:
        return self.api.max_blob

    async def prepare(self) -> None:
        await super().prepare()
        if self.request.method == "PUT":
            self.limit_body(self.api.max_blob + DISCARDED)
            self.request.connection.set_body_timeout(self.api.max_blob / SLOWEST)  # type: ignore[union-attr]
            await self._expect()
            self._incoming = self.api.blobs.receive(self.path_kwargs["digest"], self.api.max_blob)
            self._piece = bytearray()

    async def _expect(self) -> None:
        """Reserve space within the user's limit; a body of unknown length counts as one of the largest size."""
        length = self.request.headers.get("Content-Length", "")
        size = int(length) if length.isdecimal() else self.api.max_blob
        most = self.api.book.pool.max_upload_gib_per_user
        room = None if most is None else most * GIB
        await asyncio.to_thread(self.api.owners.expect, self.caller.name, size, room)
        self._expected = size

    async def data_received(self, chunk: bytes) -> None:
        """Write to the disk. An error is kept for `put` to report; the rest of the body is discarded."""
        if self._incoming is None or self._failed is not None:
            return
        self._piece += chunk
        if len(self._piece) >= PIECE:
            await self._keep()

    async def _keep(self) -> None:
        assert self._incoming is not None
        piece, self._piece = self._piece, bytearray()
        try:
            await asyncio.to_thread(self._incoming.write, piece)
        except (RunaiError, OSError, ValueError) as error:  # ValueError: closed, as the caller has gone
            self._failed = error

    @endpoint("Whether the caller has uploaded this bundle", Scope.SUBMIT, media=BYTES, refuses=(NotFound,))
    async def head(self, digest: str) -> None:
        if not self._there(digest):
            raise NotFound(f"You have not uploaded the bundle {digest}.")
        self.set_header("Content-Length", str(self.api.blobs.size(digest)))
        self.finish()

    @endpoint(
        "Upload a bundle (a tar.gz) or a part of a large file under the SHA-256 of its bytes",
        Scope.SUBMIT,
        takes=BYTES,
        answer=BlobView,
        refuses=(Invalid, TooLarge, TooMany),
    )
    async def put(self, digest: str) -> None:
        incoming = self._incoming
        assert incoming is not None
        if self._failed is None:
            await self._keep()
        if self._failed is not None:
            raise self._failed
        size = await incoming.commit()
        await asyncio.to_thread(self.api.owners.add, self.caller.name, digest)
        self.answer(BlobView(digest=digest, size=size))

    def _there(self, digest: str) -> bool:
        return self.api.owners.has(self.caller.name, digest) and self.api.blobs.touch(digest)

    def on_finish(self) -> None:
        super().on_finish()
        self._abort()

    def on_connection_close(self) -> None:
        super().on_connection_close()
        self._abort()

    def _abort(self) -> None:
        if self._expected:
            self.api.owners.received(self.caller.name, self._expected)
            self._expected = 0
        if self._incoming is not None:
            with contextlib.suppress(OSError):
                self._incoming.abort()
