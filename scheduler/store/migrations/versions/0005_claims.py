"""Where a job that was resized or moved is to go on."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("claim", sa.Text(), nullable=False, server_default="[]"))
