"""What can be refused, each with one sentence that says what to do.

Every door says the same: the API as `application/problem+json`, the command line on standard error, the magic as
a usage error, the panel as a notification.
"""

from __future__ import annotations


class RunaiError(Exception):
    """A refusal. `sentence` is for people; `field` names the part of the input at fault (`jobs[3].project`)."""

    status = 500
    slug = "error"

    def __init__(self, sentence: str, *, field: str | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.field = field

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in the place of a traceback."""
        return [self.sentence]


class Invalid(RunaiError):
    """The input is not of the right form, or names what cannot be."""

    status = 422
    slug = "invalid"


class Forbidden(RunaiError):
    """The caller is known and may not do this."""

    status = 403
    slug = "forbidden"


class Unauthenticated(RunaiError):
    """The caller is not known."""

    status = 401
    slug = "unauthenticated"


class NotFound(RunaiError):
    """There is no such thing, or it is another user's."""

    status = 404
    slug = "not-found"


class Conflict(RunaiError):
    """The thing is not in a state in which this can be done."""

    status = 409
    slug = "conflict"


class TooLarge(RunaiError):
    """A body or a file is over its bound."""

    status = 413
    slug = "too-large"


class TooMany(RunaiError):
    """The caller has as many of these as one may have."""

    status = 429
    slug = "too-many"


class Unavailable(RunaiError):
    """Not now: the scheduler is down, starting or has no space left; trying again later may help."""

    status = 503
    slug = "unavailable"


BY_STATUS: dict[int, type[RunaiError]] = {
    kind.status: kind
    for kind in (Invalid, Forbidden, Unauthenticated, NotFound, Conflict, TooLarge, TooMany, Unavailable)
}
