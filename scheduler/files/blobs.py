"""Bundles and parts of large files, stored by the SHA-256 of their bytes under `blobs/` of the state folder, and
unpacked into the working directories of jobs.

What must hold:
- A bundle is complete or absent, durable once it is acknowledged, and its bytes match its digest.
- A bundle is untrusted: it never writes outside its target folder, creates only files, folders and links within it, and
  fills neither the disk nor the memory.
- A job gets copies: its changes never affect the blobs.
- A blob that was just uploaded or looked up for a submission is not deleted.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gzip
import hashlib
import os
import re
import shutil
import tarfile
import tempfile
import threading
import zlib
from collections.abc import Container, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import BinaryIO, Self, cast

from scheduler.errors import Invalid, NotFound, TooLarge, Unavailable
from scheduler.files.bundle import in_words
from scheduler.files.direct import DirectFile
from scheduler.files.durable import sync
from scheduler.files.removal import remove_tree
from scheduler.model import LargeFile

MAX_BYTES = 256 * 2**20
"""The largest bundle that is accepted, in packed bytes."""
MAX_UNPACKED = 16 * 2**30
MAX_MEMBERS = 50_000

_LARGEST_READ = 2**20  # a header is read in one piece, a file's content in small ones
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Blobs:
    """The bundles of one state folder. Every path is built from a verified digest."""

    def __init__(self, state_dir: Path) -> None:
        self._folder = Path(state_dir) / "blobs"
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._incoming = self._folder / "incoming"
        self._incoming.mkdir(mode=0o700, exist_ok=True)
        self._changing = threading.Lock()
        self._intact = set[str]()

    def discard_incoming(self) -> None:
        """Delete the incomplete uploads of a scheduler that was killed. Only for the holder of the state folder's
        lock."""
        for path in self._incoming.iterdir():
            path.unlink()

    def path(self, digest: str) -> Path:
        """The path of a bundle, whether it exists or not."""
        if not _DIGEST.fullmatch(digest):
            raise Invalid("The name of a bundle is its SHA-256: 64 hexadecimal digits.", field="digest")
        return self._folder / digest[:2] / digest

    def exists(self, digest: str) -> bool:
        return self.path(digest).is_file()

    def touch(self, digest: str) -> bool:
        """Whether a bundle exists; if so, it is not deleted for a while, as it is about to be needed."""
        with self._changing:
            try:
                os.utime(self.path(digest))
            except FileNotFoundError:
                return False
            return True

    def sweep(self, needed: Container[str], before: float) -> int:
        """Delete the blobs that are not needed and were not uploaded or touched since `before`; returns their
        number."""
        count = 0
        for path in self._folder.glob("[0-9a-f][0-9a-f]/*"):
            if path.name in needed:
                continue
            with self._changing:
                if path.stat().st_mtime < before:
                    path.unlink()
                    count += 1
        return count

    def size(self, digest: str) -> int:
        """Bytes of a bundle. Raises `NotFound`."""
        try:
            return self.path(digest).stat().st_size
        except FileNotFoundError:
            raise _missing(digest) from None

    def receive(self, digest: str, max_bytes: int = MAX_BYTES) -> Incoming:
        """Start to receive a bundle, piece by piece."""
        return Incoming(self.path(digest), digest, self._incoming, max_bytes, self._changing)

    async def unpack(
        self,
        digest: str | None,
        target: Path,
        files: Sequence[LargeFile] = (),
        *,
        max_bytes: int = MAX_UNPACKED,
        max_members: int = MAX_MEMBERS,
    ) -> None:
        """Create the folder `target` from a bundle and large files, completely or not at all; an existing one is not
        changed.

        Raises `TooLarge`, or `Invalid` for a missing blob, for one that is not a tar.gz and for forbidden content. A
        blob that the disk has damaged is deleted, so that it can be uploaded again.
        """
        parts = {blob: self.path(blob) for file in files for blob in file.blobs}
        if digest is not None:
            parts[digest] = self.path(digest)
        if not all(path.is_file() for path in parts.values()):
            raise _lost()
        check = _Check(max_bytes, max_members)
        bundle = None if digest is None else parts[digest]
        await asyncio.to_thread(self._unpack, bundle, files, parts, target, check)

    def _unpack(
        self,
        bundle: Path | None,
        files: Sequence[LargeFile],
        parts: Mapping[str, Path],
        target: Path,
        check: _Check,
    ) -> None:
        if target.exists():
            return
        for digest in parts.keys() - self._intact:
            self._check(digest, parts[digest])
        unpack(bundle, files, parts, target, check)

    def _check(self, digest: str, path: Path) -> None:
        """Check that a blob is undamaged, before this process first uses it."""
        with path.open("rb") as file:
            intact = hashlib.file_digest(file, "sha256").hexdigest() == digest
        if not intact:
            with self._changing:
                path.unlink(missing_ok=True)
            raise _lost()
        self._intact.add(digest)


class Incoming:
    """A bundle that is being received. Leaving the context without `commit` discards it."""

    def __init__(self, target: Path, digest: str, folder: Path, max_bytes: int, changing: threading.Lock) -> None:
        self._target = target
        self._digest = digest
        self._max_bytes = max_bytes
        self._changing = changing
        self._hash = hashlib.sha256()
        self.size = 0
        descriptor, name = tempfile.mkstemp(prefix=f"{digest[:16]}-", dir=folder)
        self._name = Path(name)
        self._file = DirectFile(descriptor)

    def write(self, piece: bytes | bytearray) -> None:
        """Write the next piece. Raises `TooLarge`."""
        self.size += len(piece)
        if self.size > self._max_bytes:
            raise TooLarge(f"A bundle may be at most {in_words(self._max_bytes)}; send less with the job.")
        self._hash.update(piece)
        self._file.write(piece)

    async def commit(self) -> int:
        """Check the digest and store the bundle durably; returns its size in bytes. Raises `Invalid` where the digest
        differs."""
        if self._hash.hexdigest() != self._digest:
            raise Invalid(
                f"The received data has the SHA-256 {self._hash.hexdigest()}; it was damaged in transit. Send it "
                f"again.",
                field="digest",
            )
        await asyncio.to_thread(self._keep)
        return self.size

    def abort(self) -> None:
        """Discard what has arrived; does nothing after `commit`."""
        self._file.close()
        self._name.unlink(missing_ok=True)

    def _keep(self) -> None:
        self._file.close_durably()
        new = not self._target.parent.exists()
        self._target.parent.mkdir(mode=0o700, exist_ok=True)
        with self._changing:
            os.replace(self._name, self._target)
        sync(self._target.parent)
        if new:
            sync(self._target.parent.parent)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()


# -- unpacking ----------------------------------------------------------------------------------------------


def unpack(
    bundle: Path | None, files: Sequence[LargeFile], parts: Mapping[str, Path], target: Path, check: _Check
) -> None:
    """Unpack next to `target`, sync everything to the disk and rename, so that `target` is always complete."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f"{target.name}.tmp-", dir=target.parent))
    try:
        made = [] if bundle is None else _extract(bundle, beside, check)
        for file in files:
            made += _assemble(file, parts, beside, check)
        with ThreadPoolExecutor(8) as pool:  # parallel syncs share the file system's commits
            list(pool.map(sync, made))
        os.chmod(beside, 0o700)
        sync(beside)
        try:
            os.rename(beside, target)
        except OSError:
            if not target.exists():
                raise
        sync(target.parent)
    finally:
        with contextlib.suppress(OSError):
            remove_tree(beside)


def _assemble(file: LargeFile, parts: Mapping[str, Path], folder: Path, check: _Check) -> list[Path]:
    """Write a large file; returns it and its parent folders."""
    path = check.file(file.path, sum(parts[blob].stat().st_size for blob in file.blobs))
    try:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        with (folder / path).open("xb") as out:
            os.fchmod(out.fileno(), 0o755 if file.executable else 0o644)
            for blob in file.blobs:
                with parts[blob].open("rb") as content:
                    shutil.copyfileobj(content, out, 2**20)
    except (FileExistsError, NotADirectoryError) as error:
        raise Invalid(f"The job has two files {file.path!r}; send it once.", field="files") from error
    except OSError as error:
        raise _no_room(folder, error) from error
    return [folder / path, *(folder / parent for parent in path.parents)]


def _extract(bundle: Path, folder: Path, check: _Check) -> list[Path]:
    """Unpack every member; returns the files and folders that were made."""
    made: dict[Path, None] = {}
    try:
        with (
            _Bounded(bundle, check.max_bytes + 2048 * check.max_members) as content,
            tarfile.open(fileobj=cast(BinaryIO, content), mode="r:", errorlevel=1) as archive,
        ):
            for member in archive:
                path = check(member, str(folder))
                archive.extract(member, folder, filter="data")
                if not member.issym():
                    made[folder / path] = None
                    made.update(dict.fromkeys(folder / parent for parent in path.parents))
    except (tarfile.TarError, EOFError, zlib.error, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _no_room(folder, error) from error
        raise Invalid(f"The bundle cannot be unpacked ({error}); pack it again.", field="bundle") from error
    return list(made)


def _no_room(folder: Path, error: OSError) -> Unavailable:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Unavailable(f"There is no space left under {folder.parent}; free some.")
    return Unavailable(f"The job's files could not be written ({error.strerror}).")


class _Check:
    """Checks each file to be written, in addition to tarfile's `data` filter."""

    def __init__(self, max_bytes: int, max_members: int) -> None:
        self.max_bytes = max_bytes
        self.max_members = max_members
        self._bytes = 0
        self._members = 0
        self._files: set[PurePosixPath] = set()
        self._links: set[PurePosixPath] = set()

    def __call__(self, member: tarfile.TarInfo, folder: str) -> PurePosixPath:
        path = self.file(member.name, member.size)
        if member.issym():
            self._links.add(path)
            self._files.discard(path)
        elif member.islnk():
            if PurePosixPath(os.path.normpath(member.linkname)) not in self._files:
                raise Invalid(
                    f"The bundle links {member.name!r} to {member.linkname!r}, which is not a file in it.",
                    field="bundle",
                )
        elif member.isreg():
            self._files.add(path)
        elif not member.isdir():
            raise Invalid(f"The bundle holds {member.name!r}, which is a device or a pipe.", field="bundle")
        return path

    def file(self, name: str, size: int) -> PurePosixPath:
        """The path below the folder for a file of this name and size."""
        self._members += 1
        self._bytes += size
        if self._members > self.max_members:
            raise TooLarge(f"A bundle may hold {self.max_members:,} files; send less with the job.")
        if self._bytes > self.max_bytes:
            raise TooLarge(f"A bundle may unpack to {in_words(self.max_bytes)}; send less with the job.")
        path = PurePosixPath(os.path.normpath(name))
        if path.is_absolute() or ".." in path.parts:
            raise Invalid(f"The bundle holds {name!r}, which is outside the job's folder.", field="bundle")
        # Nothing is written through a link, so that no chain of links leads out of the folder.
        if path in self._links or not self._links.isdisjoint(path.parents):
            raise Invalid(f"The bundle writes {name!r} through a link.", field="bundle")
        return path


class _Bounded(gzip.GzipFile):
    """A gzip file that stops before it has filled the memory (one huge header) or the disk."""

    def __init__(self, bundle: Path, max_bytes: int) -> None:
        super().__init__(bundle, "rb")
        self._max_bytes = max_bytes

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0 or size > _LARGEST_READ:
            raise Invalid("The bundle contains an unexpected header; pack it again.", field="bundle")
        data = super().read(size)
        if self.tell() > self._max_bytes:
            raise TooLarge("The bundle is larger than allowed when unpacked; send less with the job.")
        return data


def _lost() -> Invalid:
    return Invalid(
        "A file of the job is damaged or missing on the scheduler's disk; submit the job again.",
        field="bundle",
    )


def _missing(digest: str) -> NotFound:
    return NotFound(f"There is no bundle {digest}; send it first.", field="bundle")
