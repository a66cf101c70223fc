"""The requests for the caller's notices, as those of `calls`."""

from __future__ import annotations

from scheduler.client.calls import Call, _json, _view
from scheduler.schema import NoticesChoice, NoticesTested, NoticesView


def notices() -> Call[NoticesView]:
    """Where the caller is told of their jobs by e-mail or webhook."""
    return Call("GET", "me/notices", _view(NoticesView))


def choose_notices(choice: NoticesChoice) -> Call[NoticesView]:
    """Choose where the caller is told of their jobs from now on, and of what."""
    return Call("PUT", "me/notices", _view(NoticesView), **_json(choice))


def test_notices() -> Call[NoticesTested]:
    """Send the caller a test notice, and say what happened."""
    return Call("POST", "me/notices/test", _view(NoticesTested), repeatable=False, patient=True)
