"""An id of the store: events count from 1 in each, so who resumes says of which they speak."""

from __future__ import annotations

from uuid import uuid4

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    identity = op.create_table("identity", sa.Column("id", sa.Text(), primary_key=True))
    op.bulk_insert(identity, [{"id": uuid4().hex[:16]}])
