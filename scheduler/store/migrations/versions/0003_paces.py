"""How fast an attempt ran, and on which type of GPU."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("attempts", sa.Column("gpu_type", sa.Text()))
    op.add_column("attempts", sa.Column("throughput", sa.Double()))
