"""How much of the pool was used in each period, and how long its queue was. Of earlier periods the use is known from
the record of each consumer."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.create_table(
        "pool_history",
        sa.Column("start", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("seconds", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("observed", sa.Double(), nullable=False),
        sa.Column("held", sa.Double(), nullable=False),
        sa.Column("measured", sa.Double(), nullable=False),
        sa.Column("idle", sa.Double(), nullable=False),
        sa.Column("queued", sa.Double()),
        sa.Column("starts", sa.Integer(), nullable=False),
        sa.Column("wait", sa.Double(), nullable=False),
        sa.Column("longest_wait", sa.Double(), nullable=False),
    )
    # The latest hour is not over: it is left out.
    op.execute(
        """
        INSERT INTO pool_history
            (start, seconds, observed, held, measured, idle, queued, starts, wait, longest_wait)
        SELECT start, seconds, seconds, SUM(held), SUM(measured), SUM(idle), NULL,
            SUM(CASE WHEN environment = 'train' THEN starts ELSE 0 END),
            SUM(CASE WHEN environment = 'train' THEN wait ELSE 0 END),
            MAX(CASE WHEN environment = 'train' THEN longest_wait ELSE 0 END)
        FROM accounting
        WHERE start < (SELECT MAX(start) FROM accounting)
        GROUP BY start, seconds
        """
    )
