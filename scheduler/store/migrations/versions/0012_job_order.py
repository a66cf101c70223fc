"""Jobs are listed by start, GPUs and priority, and the priority of a job can change."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

SOME = 1000
"""Jobs that are read at a time."""


def upgrade() -> None:
    op.add_column("jobs", sa.Column("started", sa.Double()))
    op.add_column("jobs", sa.Column("gpus", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("jobs", sa.Column("priority", sa.Integer(), nullable=False, server_default="0"))
    op.execute(
        "UPDATE jobs SET started = (SELECT started FROM attempts WHERE attempts.job = jobs.id AND attempts.number = 1)"
    )
    connection = op.get_bind()
    read = sa.text("SELECT id, request FROM jobs WHERE id > :last ORDER BY id LIMIT :some")
    write = sa.text("UPDATE jobs SET gpus = :gpus, priority = :priority WHERE id = :id")
    last = ""
    while found := connection.execute(read, {"last": last, "some": SOME}).all():
        connection.execute(write, [{"id": id, **_columns(json.loads(request))} for id, request in found])
        last = found[-1].id


def _columns(request: dict[str, Any]) -> dict[str, int]:
    groups = request.get("groups") or [request]
    gpus = sum(group.get("workers", 1) * group["shape"]["gpus"] for group in groups)
    return {"gpus": gpus, "priority": request.get("priority", 50)}
