"""Migrations create the schema that the code expects, completely or not at all; a newer state is left unchanged."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from scheduler.errors import Conflict
from scheduler.store import Store, tables


def test_the_migrations_make_the_tables_that_the_code_uses(store: Store, url: str) -> None:
    engine = sqlalchemy.create_engine(url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, tables.metadata) == []
    engine.dispose()


def test_opening_again_changes_nothing(store: Store, url: str) -> None:
    for _ in range(2):
        store.close()
        store = Store(url)
        store.open()
    store.close()


def test_a_newer_state_is_refused_and_left_as_it_is(store: Store, url: str) -> None:
    store.close()
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(Conflict, match="newer version of jupyter-runai"):
        Store(url).open()
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar() == "9999"
    engine.dispose()


def test_users_who_are_told_of_pauses_are_warned_of_them_too(store: Store, url: str) -> None:
    store.close()
    old = {
        "ann": '{"user": "ann", "since": 0, "choice": {"events": ["failed", "paused", "resumed"]}}',
        "ben": '{"user": "ben", "since": 0, "choice": {"events": ["failed"]}}',
    }
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0016'")
        connection.exec_driver_sql("DROP TABLE pool_history")  # of a later migration
        insert = sqlalchemy.text('INSERT INTO notice_boxes ("user", box) VALUES (:user, :box)')
        connection.execute(insert, [{"user": user, "box": box} for user, box in old.items()])
    store = Store(url)
    store.open()
    store.close()
    with engine.connect() as connection:
        boxes = connection.scalars(sqlalchemy.select(tables.notice_boxes.c.box)).all()
    assert {box.user: [kind.value for kind in box.choice.events] for box in boxes} == {
        "ann": ["failed", "warned", "paused", "resumed"],
        "ben": ["failed"],
    }
    engine.dispose()


KILLED_WHILE_MIGRATING = """
import os, signal, sys
from alembic.operations import Operations
from scheduler.store import Store

made = Operations.create_table
def create_table(self, name, *columns, **options):
    table = made(self, name, *columns, **options)
    if name == "sessions":
        os.kill(os.getpid(), signal.SIGKILL)
    return table
import alembic.op
alembic.op.create_table = lambda *a, **o: create_table(alembic.op._proxy, *a, **o)
Store(sys.argv[1]).open()
"""


def test_a_migration_that_is_killed_leaves_nothing_behind(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runai.sqlite"
    killed = subprocess.run([sys.executable, "-c", KILLED_WHILE_MIGRATING, url], capture_output=True, text=True)
    assert killed.returncode == -9, killed.stderr
    with sqlite3.connect(tmp_path / "runai.sqlite") as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == []
    connection.close()
    store = Store(url)
    store.open()
    store.close()
