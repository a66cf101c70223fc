"""How much each project has used recently."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_table(
        "project_usage",
        sa.Column("project", sa.Text(), primary_key=True),
        sa.Column("average", sa.Double(), nullable=False),
        sa.Column("held", sa.Integer(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
    )
