"""Notices that users have chosen, those that wait for delivery, and the event up to which notices were made."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.create_table(
        "notice_boxes",
        sa.Column("user", sa.Text(), primary_key=True),
        sa.Column("box", sa.Text(), nullable=False),
    )
    op.create_table(
        "noticed",
        sa.Column("only", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("event", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
    )
