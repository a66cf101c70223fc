"""What was told of a job is found, so that it can be deleted with the job."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_index("events_by_subject", "events", ["subject"])
