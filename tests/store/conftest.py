"""Real databases: a SQLite file, and a PostgreSQL server started for the tests where it is installed."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from scheduler.store import Store


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """The address of a server, without a database name."""
    with running_postgresql() as address:
        yield address


@contextmanager
def running_postgresql() -> Iterator[str]:
    """Skips where PostgreSQL is missing."""
    pytest.importorskip("psycopg", reason="needs psycopg, PostgreSQL's driver")
    programs = [Path(found).parent for found in glob("/usr/lib/postgresql/*/bin/initdb")]
    if on_path := shutil.which("initdb"):
        programs.append(Path(on_path).resolve().parent)
    if not programs:
        pytest.skip("needs a PostgreSQL server, which this machine does not have")
    folder = tempfile.mkdtemp(prefix="runai-postgresql-")
    as_user: dict[str, Any] = {}
    if os.geteuid() == 0:  # the server refuses to run as root
        try:
            owner = pwd.getpwnam("postgres")
        except KeyError:
            owner = pwd.getpwnam("nobody")
        os.chown(folder, owner.pw_uid, owner.pw_gid)
        as_user = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}

    def run(program: str, *arguments: str) -> None:
        command = [str(programs[-1] / program), "-D", f"{folder}/data", *arguments]
        subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL, **as_user)

    try:
        run("initdb", "-A", "trust", "-U", "runai", "--no-sync", "-E", "UTF8")
        run("pg_ctl", "-w", "-l", f"{folder}/log", "-o", f"-k {folder} -c listen_addresses= -F", "start")
        try:
            yield f"postgresql+psycopg://runai@/{{}}?host={folder}"
        finally:
            run("pg_ctl", "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgresql_url(postgresql_server: str) -> str:
    """An empty database."""
    name = f"runai_{uuid.uuid4().hex}"
    engine = sqlalchemy.create_engine(postgresql_server.format("postgres"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    engine.dispose()
    return postgresql_server.format(name)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/runai.sqlite"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    address: str = request.getfixturevalue(f"{request.param}_url")
    return address


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = Store(url)
    opened.open()
    yield opened
    opened.close()
