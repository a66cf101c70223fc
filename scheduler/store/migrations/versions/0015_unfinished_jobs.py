"""Unfinished jobs are listed, newest first, without a look at those that have ended."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    unfinished = sa.text("ended IS NULL")
    op.drop_index("jobs_unfinished", "jobs")
    op.create_index(
        "jobs_unfinished", "jobs", ["submitted", "id"], sqlite_where=unfinished, postgresql_where=unfinished
    )
