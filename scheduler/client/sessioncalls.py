"""The requests for sessions, as those of `calls`."""

from __future__ import annotations

from urllib.parse import quote

from scheduler.client.calls import Call, _json, _nothing, _view
from scheduler.schema import SessionList, SessionOpen, SessionView


def open_session(session: SessionOpen) -> Call[SessionView]:
    """Lease GPUs for a user's server; returns the lease or, with `wait`, after about 10 s its place in line."""
    return Call("POST", "sessions", _view(SessionView), patient=True, **_json(session))


def close_session(session_id: str) -> Call[SessionView]:
    return Call("DELETE", f"sessions/{quote(session_id, safe='')}", _view(SessionView), repeatable=False)


def stop_session(session_id: str) -> Call[None]:
    """Stop the notebook server of a session, which gives its GPUs back."""
    return Call("POST", f"sessions/{quote(session_id, safe='')}/stop", _nothing, repeatable=False, patient=True)


def sessions() -> Call[list[SessionView]]:
    """The caller's sessions; for an administrator all sessions."""
    return Call("GET", "sessions", lambda response: _view(SessionList)(response).sessions)


def session_list() -> Call[SessionList]:
    """The sessions, and the servers that wait in line for GPUs, the first one first; for an administrator all."""
    return Call("GET", "sessions", _view(SessionList))
