"""How much each consumer has used in each period."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.create_table(
        "accounting",
        sa.Column("start", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("seconds", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("environment", sa.Text(), primary_key=True),
        sa.Column("project", sa.Text(), primary_key=True),
        sa.Column("user", sa.Text(), primary_key=True),
        sa.Column("gpu_type", sa.Text(), primary_key=True),
        sa.Column("held", sa.Double(), nullable=False),
        sa.Column("measured", sa.Double(), nullable=False),
        sa.Column("idle", sa.Double(), nullable=False),
        sa.Column("starts", sa.Integer(), nullable=False),
        sa.Column("wait", sa.Double(), nullable=False),
        sa.Column("longest_wait", sa.Double(), nullable=False),
        sa.Column("reclaims", sa.Integer(), nullable=False),
        sa.Column("lost", sa.Double(), nullable=False),
    )
    op.create_table(
        "accounted",
        sa.Column("only", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("until", sa.Double(), nullable=False),
    )
