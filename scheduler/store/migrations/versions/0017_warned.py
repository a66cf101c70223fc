"""Users who are told that a job of theirs is paused are also told that it will be."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    connection = op.get_bind()
    write = sa.text('UPDATE notice_boxes SET box = :box WHERE "user" = :user')
    for user, text in connection.execute(sa.text('SELECT "user", box FROM notice_boxes')).all():
        box = json.loads(text)
        events = box["choice"]["events"]
        if "paused" in events:
            events.insert(events.index("paused"), "warned")
            connection.execute(write, {"user": user, "box": json.dumps(box)})
