"""The errors, each with one sentence that says what to do.

Every interface reports them alike: the API as `application/problem+json`, the command line on standard error, the magic
as a usage error, the panel as a notification.
"""

from __future__ import annotations

import errno
import re

PROBLEM_TYPE = "urn:jupyter-runai:problem:"
"""What the `type` of every problem begins with; the `slug` of the error follows."""

_UNPRINTABLE = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]")


def printable(sentence: str) -> str:
    """A sentence that may quote untrusted text, with control characters escaped."""
    return _UNPRINTABLE.sub(lambda found: ascii(found[0])[1:-1], sentence)


class RunaiError(Exception):
    """A refusal. `sentence` is for people; `field` names the part of the input at fault (`jobs[3].project`)."""

    status = 500
    slug = "error"

    def __init__(self, sentence: str, *, field: str | None = None) -> None:
        self.sentence = printable(sentence)
        super().__init__(self.sentence)
        self.field = field

    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of a traceback."""
        return [self.sentence]


class Invalid(RunaiError):
    """The input is malformed or asks for something impossible."""

    status = 422
    slug = "invalid"


class Misused(Invalid):
    """The command line was misused: it ends with status 2, whereas other errors give 1."""


class Forbidden(RunaiError):
    """The caller is not allowed to do this."""

    status = 403
    slug = "forbidden"


class Unauthenticated(RunaiError):
    """The caller is not authenticated."""

    status = 401
    slug = "unauthenticated"


class NotFound(RunaiError):
    """It does not exist, or it belongs to another user."""

    status = 404
    slug = "not-found"


class Conflict(RunaiError):
    """Its current state does not allow this."""

    status = 409
    slug = "conflict"


class Changed(RunaiError):
    """It has changed since the caller read it."""

    status = 412
    slug = "changed"


class TooLarge(RunaiError):
    """A body or a file is too large."""

    status = 413
    slug = "too-large"


class TooMany(RunaiError):
    """The caller has reached a limit."""

    status = 429
    slug = "too-many"


class Unavailable(RunaiError):
    """The scheduler is down, starting or has no space left; try again later."""

    status = 503
    slug = "unavailable"


BY_STATUS: dict[int, type[RunaiError]] = {
    kind.status: kind
    for kind in (Invalid, Forbidden, Unauthenticated, NotFound, Conflict, Changed, TooLarge, TooMany, Unavailable)
}


_SHORTAGES = {
    errno.ENOSPC: "The scheduler's disk is full; free some space on it.",
    errno.EDQUOT: "The scheduler's disk quota is used up; free some space.",
    errno.EROFS: "The scheduler's disk is read-only; mount it for writing.",
    errno.EMFILE: "The scheduler has too many open files; try again in a moment, or raise its limit (ulimit -n).",
    errno.ENFILE: "The scheduler's machine has too many open files; try again in a moment.",
    errno.ENOMEM: "The scheduler's machine has no memory left; try again in a moment.",
    errno.EIO: "The scheduler's disk fails (input/output error); an administrator should look at it.",
}


def shortage(error: BaseException | None) -> Unavailable | None:
    """What the machine has run out of, where that is why something failed; another try may work later."""
    if isinstance(error, OSError) and error.errno in _SHORTAGES:
        return Unavailable(_SHORTAGES[error.errno])
    if isinstance(error, MemoryError):
        return Unavailable(_SHORTAGES[errno.ENOMEM])
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return Unavailable("The scheduler's machine has no threads left; try again in a moment.")
    return None
