"""What Alembic runs: on the connection that the store hands over, or on a URL while a migration is being written."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection, create_engine

from scheduler.store.tables import metadata


def migrate(connection: Connection) -> None:
    # SQLite, too, can roll back the making of a table; a migration that is killed leaves nothing behind.
    context.configure(connection=connection, target_metadata=metadata, transactional_ddl=True)
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    migrate(given)
else:
    with create_engine(context.config.get_main_option("sqlalchemy.url") or "").connect() as opened:
        migrate(opened)
