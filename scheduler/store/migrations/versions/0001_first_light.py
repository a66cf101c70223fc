"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    unfinished = sa.text("ended IS NULL")
    op.create_table(
        "jobs",
        sa.Column("id", name, primary_key=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("wanted", sa.Text()),
        sa.Column("submitted", sa.Double(), nullable=False),
        sa.Column("queued", sa.Double(), nullable=False),
        sa.Column("checkpointed", sa.Double()),
        sa.Column("ended", sa.Double()),
        sa.Column("idempotency_key", sa.Text()),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("program", sa.Text(), nullable=False),
        sa.UniqueConstraint("user", "idempotency_key", name="jobs_once"),
    )
    op.create_index("jobs_newest", "jobs", ["submitted", "id"])
    op.create_index("jobs_by_project", "jobs", ["project", "submitted", "id"])
    op.create_index("jobs_by_user", "jobs", ["user", "submitted", "id"])
    op.create_index("jobs_unfinished", "jobs", ["id"], sqlite_where=unfinished, postgresql_where=unfinished)
    op.create_table(
        "attempts",
        sa.Column("job", name, sa.ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("number", sa.Integer(), primary_key=True),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("started", sa.Double()),
        sa.Column("stopping", sa.Double()),
        sa.Column("ended", sa.Double()),
        sa.Column("ending", sa.Text()),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("exit_codes", sa.Text(), nullable=False),
        sa.Column("placement", sa.Text(), nullable=False),
    )
    op.create_table(
        "sessions",
        sa.Column("id", name, primary_key=True),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("requested", sa.Double(), nullable=False),
        sa.Column("started", sa.Double()),
        sa.Column("ended", sa.Double()),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("placement", sa.Text(), nullable=False),
    )
    op.create_index("sessions_open", "sessions", ["id"], sqlite_where=unfinished, postgresql_where=unfinished)
    op.create_table(
        "pool",
        sa.Column("only", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("pool", sa.Text(), nullable=False),
    )
    op.create_table(
        "events",
        sa.Column("id", number, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("user", sa.Text()),
        sa.Column("project", sa.Text()),
        sa.Column("data", sa.Text()),
    )
