"""Whose fault an attempt's end was, and which nodes a job avoids because they could not run it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("avoids", sa.Text(), nullable=False, server_default="[]"))
    op.add_column("attempts", sa.Column("fault", sa.Text()))
