"""The store as an SQLite file: created atomically, written durably, and checked for damage.

What must hold: what SQLite has committed survives a power cut (`synchronous=FULL`), and a database that has lost data
is never mistaken for a complete one, nor for a new one.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError

from scheduler.errors import Unavailable
from scheduler.files.durable import sync

LAST = ".last"
"""The suffix of the file that has the number of the last event."""

_SMALLEST_PAGE = 512
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


def make_engine(url: URL) -> Engine:
    engine = create_engine(url)

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _: object) -> None:
        connection.isolation_level = None  # we send BEGIN ourselves: the driver omits it before DDL and reads
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=10000"):
            connection.execute(f"PRAGMA {pragma}").close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine


def prepare(file: Path) -> None:
    """Create an empty database where there is none, readable only by its owner. Raises `Unavailable` for an empty file,
    and for one with several names: SQLite keeps a log beside each name, and loses what is in the other logs.

    It is complete and on the disk before it gets its name: an empty file with that name has lost its content. What can
    be read of an existing one is on the disk, too.
    """
    if file.exists():
        if file.stat().st_nlink > 1:
            raise Unavailable(
                f"The database {file} has several names (hard links), so two schedulers could open it and destroy it. "
                f"Delete the other names. To find them: find / -xdev -samefile {file}"
            )
        with contextlib.suppress(OSError):  # SQLite will report the error
            file.chmod(0o600)
        if file.stat().st_size < _SMALLEST_PAGE:  # SQLite would treat it as new
            raise damaged(file, "it is empty or cut short")
        with contextlib.suppress(FileNotFoundError):  # what a killed scheduler wrote last may not be on the disk yet
            sync(file.with_name(f"{file.name}-wal"))
        return
    fresh = file.with_name(f"{file.name}.new")
    fresh.unlink(missing_ok=True)
    os.close(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    with contextlib.closing(sqlite3.connect(fresh)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")  # writes the first page, and waits for the disk
    for beside in ("-wal", "-shm", LAST):  # of a database that was removed
        file.with_name(f"{file.name}{beside}").unlink(missing_ok=True)
    fresh.replace(file)
    sync(file.parent)


class LastEvent:
    """The number of the last event, in a file next to the database: SQLite does not notice that a write-ahead log is
    missing.

    It is written once the event is durable, without waiting for the disk: it may be too low, and never too high.
    """

    def __init__(self, database: Path) -> None:
        self._database = database
        self._file = database.with_name(f"{database.name}{LAST}")

    def note(self, event: int) -> None:
        with contextlib.suppress(OSError):  # it only helps to detect damage
            file = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.pwrite(file, b"%20d\n" % event, 0)
            finally:
                os.close(file)

    def check(self, present: int | None) -> None:
        """Raises `Unavailable` where the database has lost events. `present` is its last one, `None` without any."""
        try:
            noted = self._file.read_bytes().strip()
        except OSError:
            return
        if noted.isdigit() and len(noted) < 20 and (present is None or int(noted) > present):
            name = self._database.name
            lost = "all changes" if present is None else f"the last {int(noted) - present} changes"
            raise Unavailable(
                f"The database {self._database} has lost {lost}; {name}-wal is damaged or missing. Restore both from a "
                f"backup. To continue without these changes, delete {self._file.name}."
            )


def check(connection: Connection) -> str | None:
    """What is wrong with the structure of a database; `None` where nothing is."""
    found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
    return None if found == "ok" else str(found).partition("\n")[0]


def is_damage(error: DBAPIError) -> bool:
    """Whether an error means that the file is damaged."""
    code = getattr(error.orig, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in _DAMAGED


def damaged(file: Path, cause: object) -> Unavailable:
    return Unavailable(
        f"The database {file} is damaged ({cause}). Restore {file.name} from a backup, or move it, {file.name}-wal and "
        f"{file.name}-shm to another folder to start with an empty pool; the files of jobs stay where they are."
    )
