"""The GPUs that an idle session lends, since when it has been placed as it is, and its user's groups."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.add_column("sessions", sa.Column("placed", sa.Double()))
    op.add_column("sessions", sa.Column("claim", sa.Text(), nullable=False, server_default="[]"))
    op.add_column("sessions", sa.Column("recalled", sa.Double()))
    op.add_column("sessions", sa.Column("groups", sa.Text(), nullable=False, server_default="[]"))
