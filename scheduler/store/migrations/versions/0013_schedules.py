"""Schedules, and the jobs that are their runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "schedules",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("schedule", sa.Text(), nullable=False),
    )
    op.add_column("jobs", sa.Column("schedule", _ID))
    runs = sa.text("schedule IS NOT NULL")
    op.create_index(
        "jobs_by_schedule", "jobs", ["schedule", "submitted", "id"], sqlite_where=runs, postgresql_where=runs
    )
