"""The words of the field: a dependency is `afterany`, an array's limit `max_parallel`, a claim a nomination."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"

RENAMED = {"whatever": "afterany", "at_once": "max_parallel"}
"""Keys of the documents in `jobs.request`, none of which has keys that people choose."""


def upgrade() -> None:
    op.execute("ALTER TABLE attempts RENAME COLUMN said TO error_excerpt")
    op.execute("ALTER TABLE jobs RENAME COLUMN claim TO nomination")
    for before, after in RENAMED.items():
        op.execute(
            f"""UPDATE jobs SET request = replace(request, '"{before}":', '"{after}":')"""
            f""" WHERE request LIKE '%"{before}":%'"""
        )
