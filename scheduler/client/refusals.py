"""The error that an answer of the scheduler stands for, or no answer."""

from __future__ import annotations

import httpx

from scheduler.errors import BY_STATUS, NotFound, RunaiError, Unavailable
from scheduler.schema import Problem


def error_of(response: httpx.Response, url: str) -> RunaiError:
    """The error for a response with a status of 300 or above. Its body must have been read.

    A hub's proxy that was just started does not know the scheduler yet: then the hub answers, and redirects to its own
    pages.
    """
    kind = BY_STATUS.get(response.status_code, RunaiError)
    try:
        problem = Problem.model_validate_json(response.content)
    except ValueError:
        if response.is_redirect or response.status_code in (502, 503, 504):
            return unreachable(url)
        if response.status_code == 404 and response.request.method != "HEAD":
            return NotFound(f"{url} is not the address of a scheduler (404); check RUNAI_URL.")
        return kind(f"The scheduler at {url} answered {response.status_code} {response.reason_phrase}.")
    return kind(problem.detail, field=problem.field)


def unreachable(url: str) -> Unavailable:
    return Unavailable(
        f"The scheduler at {url} does not answer. Running jobs continue; start it with `jupyter runai serve`, or ask "
        "whoever runs your hub."
    )
