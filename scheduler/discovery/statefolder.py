"""The state folder: its path, its lock, and how others find the scheduler that holds it.

What must hold:
- The folder belongs to one user and is closed to others: 0700, or 0711 where jobs run as their owners and need access
  to their own folders. Its token and addresses are always 0600.
- Two schedulers never share a folder: the lock lives exactly as long as the process that holds it.
- `endpoint.json` is written atomically, and is valid only while its writer holds the lock: after a crash another
  process may listen on that port, and would be sent the token.
- Files here are durable before they are used, and damaged ones are treated as absent.

Standard library only (the client and the command line start with it), so `jupyter_data_dir` is imported when it is
needed.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from scheduler.errors import Conflict, Invalid
from scheduler.files.durable import sync
from scheduler.files.locks import FileLock, Held, holder_of

_DIGEST = re.compile("[0-9a-f]{64}")
_SECRET = re.compile("[!-~]{32,}")


def default_state_dir() -> Path:
    """`RUNAI_STATE_DIR`, or `runai` in Jupyter's data folder."""
    given = os.environ.get("RUNAI_STATE_DIR")
    if given:
        return Path(given).expanduser().absolute()
    from jupyter_core.paths import jupyter_data_dir

    return Path(jupyter_data_dir()) / "runai"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a running scheduler with the base path, and its process."""

    url: str
    pid: int
    started: float


class StateFolder:
    """One scheduler's folder. Reading needs no lock; `open` creates the folder and closes it to others."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = FileLock(self.path / "lock")

    def open(self) -> None:
        """Create the folder where there is none. Raises `Invalid` where it cannot belong to this user."""
        try:
            new = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            for folder in new:
                sync(folder.parent)
            about = self.path.stat()
            if about.st_uid != os.geteuid():
                raise Invalid(f"The state folder {self.path} belongs to another user; choose another with --state-dir.")
            if about.st_mode & 0o066:
                self.path.chmod(0o700)
        except OSError as error:
            raise Invalid(
                f"{self.path} cannot be the state folder ({error.strerror}); choose another with --state-dir."
            ) from error

    # -- the lock -------------------------------------------------------------------------------------------

    def lock(self) -> None:
        """Lock the folder until `unlock` or the end of this process. Raises `Conflict`, which names the holder."""
        try:
            self._lock.take()
        except Held as held:
            raise Conflict(
                f"Another scheduler{held.named} holds the state folder {self.path}; "
                "stop it first, or choose another folder with --state-dir."
            ) from None

    def holder(self) -> int | None:
        """The process that holds the folder now; `None` where none does."""
        return holder_of(self._lock.path)

    def unlock(self) -> None:
        self._lock.release()

    # -- the token ------------------------------------------------------------------------------------------

    def token(self) -> str:
        """The token of a scheduler without a hub."""
        return self.secret("token")

    def secret(self, name: str) -> str:
        """A secret of the scheduler, generated when it is first needed."""
        found = read_secret(self.path / name)
        if found is None:
            found = secrets.token_hex(32)
            write_durably(self.path / name, found)
        return found

    def read_token(self) -> str | None:
        return read_secret(self.path / "token")

    # -- the endpoint ---------------------------------------------------------------------------------------

    def write_endpoint(self, url: str, clock: Callable[[], float] = time.time) -> Endpoint:
        endpoint = Endpoint(url, os.getpid(), clock())
        write_durably(self.path / "endpoint.json", json.dumps(asdict(endpoint)))
        return endpoint

    def endpoint(self) -> Endpoint | None:
        """The address of the scheduler that holds the folder; `None` where there is none or it is not ready yet."""
        found = self.last_endpoint()
        return found if found is not None and self.holder() == found.pid else None

    def last_endpoint(self) -> Endpoint | None:
        """The address of the last scheduler of this folder, running or not; `None` where there was none."""
        try:
            content = json.loads((self.path / "endpoint.json").read_text("utf-8"))
            return Endpoint(str(content["url"]), int(content["pid"]), float(content["started"]))
        except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError, ArithmeticError):
            return None

    # -- the pool file --------------------------------------------------------------------------------------

    def applied_pool_file(self) -> str | None:
        """The SHA-256 of the pool file that was last applied at a start. Raises `Invalid` where it cannot be read."""
        path = self.path / "pool-file"
        try:
            found = path.read_text("ascii", errors="replace")
        except FileNotFoundError:
            return None
        if not _DIGEST.fullmatch(found):
            raise Invalid(f"The file {path} is damaged.")
        return found

    def remember_pool_file(self, digest: str) -> None:
        write_durably(self.path / "pool-file", digest)


# -- files --------------------------------------------------------------------------------------------------


def write_durably(path: Path, content: str) -> None:
    """Replace a file atomically and durably, readable only by this user."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    sync(path.parent)


def read_secret(path: Path) -> str | None:
    """A token; `None` where it is missing or damaged."""
    try:
        found = path.read_text("ascii", errors="replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found if _SECRET.fullmatch(found) else None
