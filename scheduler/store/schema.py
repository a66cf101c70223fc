"""Upgrades a database to the schema of this version, or refuses to open it."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from scheduler.errors import Conflict


def upgrade(connection: Connection) -> None:
    """Run the migrations that are missing. Raises `Conflict` for a database that a newer version has written."""
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")).replace("%", "%%"))
    scripts = ScriptDirectory.from_config(config)
    known = {script.revision for script in scripts.walk_revisions()}
    present = set(MigrationContext.configure(connection).get_current_heads())
    if present - known:
        raise Conflict(
            f"The state was written by a newer version of jupyter-runai (its schema is {', '.join(sorted(present))}); "
            "install that version, or name another folder for the state."
        )
    if present != set(scripts.get_heads()):
        command.upgrade(config, "head")
