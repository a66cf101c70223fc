"""What the log of the worker that failed first ends with, beside the reason why an attempt ended."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("attempts", sa.Column("said", sa.Text(), nullable=False, server_default=""))
