"""Requests to the scheduler with the token of a worker."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

SHORTEST, LONGEST = 0.1, 10.0
"""Seconds between two attempts while the scheduler does not answer."""

LONGEST_REASON = 500
"""Characters."""

WAIT, LONG_WAIT = 20, 100
"""Seconds that the scheduler takes to answer that there is no new order: before the worker has begun, and while it
runs. Each such answer costs the scheduler processor time. Some proxies end a request sooner; the agent then asks for
less."""


class AttemptOver(Exception):
    """The token is not valid or no longer valid: for the scheduler, the attempt is over."""


class Refused(Exception):
    """The scheduler refuses the request for good; the text is the reason."""


class Scheduler:
    """Sends the requests that the token of this worker allows."""

    def __init__(self, url: str, token: str, end: str = "") -> None:
        self._url = url.rstrip("/") + "/api/v1/agent/"
        self._token = token
        self._end = end

    def ask(self, method: str, path: str, body: bytes | None = None, **query: Any) -> bytes:
        """Send a request and return the answer.

        Raises `OSError` if there was no valid answer (try again later), `Refused` and `AttemptOver`.
        """
        address = self._url + urllib.parse.quote(path)
        if query:
            address += "?" + urllib.parse.urlencode(query)
        headers = {"Authorization": "Bearer " + self._token, "Content-Type": "application/octet-stream"}
        request = urllib.request.Request(address, data=body, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=query.get("wait", WAIT) + 10) as answer:
                return _whole(answer)
        except urllib.error.HTTPError as error:
            with error:
                if error.headers.get_content_type() != "application/problem+json" or error.code in (429, 503):
                    raise OSError(f"HTTP status {error.code}") from None  # from a proxy, or temporary
                if error.code == 401:
                    raise AttemptOver from None
                raise Refused(json.loads(_whole(error.fp))["detail"]) from None
        except http.client.HTTPException as error:
            raise OSError(str(error)) from error

    def ask_until_answered(self, method: str, path: str, body: bytes | None = None, **query: Any) -> bytes:
        """Repeat a request until there is an answer."""
        for pause in retry_delays():
            try:
                return self.ask(method, path, body, **query)
            except OSError as error:
                print(f"runai: the scheduler does not answer ({error})", file=sys.stderr, flush=True)
                time.sleep(pause)
        raise AssertionError

    def read(self, path: str) -> Iterator[bytes]:
        """Read a file from the scheduler in pieces."""
        offset = 0
        while True:
            piece = self.ask_until_answered("GET", path, offset=offset)
            if not piece:
                return
            yield piece
            offset += len(piece)

    def report(self, **state: Any) -> None:
        """Report the state of the worker."""
        state["reason"] = state.get("reason", "")[:LONGEST_REASON]
        if state["state"] in ("exited", "lost"):
            self.write_end(**state)
        self.ask_until_answered("POST", "state", json.dumps(state).encode())

    def write_end(self, **end: Any) -> None:
        """Write the worker's end to a file that the engine reads if the scheduler does not receive it in time."""
        if self._end:
            with contextlib.suppress(OSError), open(self._end, "w") as file:
                file.write(json.dumps(end))


def _whole(answer: Any) -> bytes:
    """Read a complete answer.

    Raises `OSError` if the connection broke before its end, even within the headers: its length may be missing then.
    """
    if answer.length is None and not answer.chunked:
        raise OSError("the answer broke off")
    try:
        content: bytes = answer.read()
    except http.client.HTTPException:
        raise OSError("the answer broke off") from None
    return content


def retry_delays() -> Iterator[float]:
    """Increasing delays with jitter."""
    longest = SHORTEST
    while True:
        yield longest * (0.5 + random.random() / 2)
        longest = min(2 * longest, LONGEST)
