"""The reference page that says who may do what, made from the table that `test_authorisation` tests cell by cell.

python -m tests.api.permissions_page    writes docs/reference/permissions.md
"""

from __future__ import annotations

from pathlib import Path

from scheduler.api.app import ROUTES
from tests.api.test_authorisation import CASES

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "permissions.md"

ROLES = {
    "reader": "may read",
    "owner": "owner",
    "mate": "same project",
    "stranger": "other user",
    "admin": "administrator",
    "worker": "a job's worker",
    "job": "a job that may submit",
}

OPENING = """# Who may do what

JupyterHub gives users their permissions as scopes: `custom:runai:read`, `custom:runai:submit` and `custom:runai:admin`,
of which each includes the one before. `hub_spawner.configure` gives all users `custom:runai:submit`, and the hub's
administrators `custom:runai:admin`. Without a login, or without `access:services!service=runai`, every request is
refused except for the schema (`openapi.json`), `/healthz` and `/readyz`.

The rows are the requests of the HTTP API, which the page, JupyterLab and the command line use. *Owner* is the user
whose job, session, schedule or file it is; *same project* is another member of the job's project, and *may read* a
member with the read scope only. A *worker* has the token of its attempt, and *a job that may submit* that of a job with
`--may-submit`. Every cell of this table is a test (`tests/api/test_authorisation.py`), and the table is made from it.

**yes**: allowed. **no**: refused. **hidden**: for this user, it does not exist.

"""


def render() -> str:
    summaries = {
        (method, path): endpoint.summary for path, handler in ROUTES for method, endpoint in handler.endpoints.items()
    }
    lines = [["what", "request", *ROLES.values()], ["---"] * (2 + len(ROLES))]
    for (method, path), statuses in CASES.items():
        cells = [_cell(statuses[role]) for role in ROLES]
        lines.append([summaries[method, path], f"`{method} {path}`", *cells])
    return OPENING + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _cell(status: int) -> str:
    if status == 404:
        return "hidden"
    return "no" if status in (401, 403) else "yes"


if __name__ == "__main__":
    PAGE.write_text(render())
