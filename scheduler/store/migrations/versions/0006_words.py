"""Requests call their parts as Slurm does: a dependency is `afterany`, an array's limit `max_parallel`."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"

RENAMED = {"whatever": "afterany", "at_once": "max_parallel"}
"""Keys of the documents in `jobs.request`, none of which has keys that people choose."""


def upgrade() -> None:
    for before, after in RENAMED.items():
        op.execute(
            f"""UPDATE jobs SET request = replace(request, '"{before}":', '"{after}":')"""
            f""" WHERE request LIKE '%"{before}":%'"""
        )
