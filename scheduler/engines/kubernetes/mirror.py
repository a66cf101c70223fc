"""A local copy of a collection of the cluster's objects: listed once, then watched.

What must hold:
- `changed` is called for every difference, in order, and with the last state of a deleted object.
- A watch that ends is resumed. After one that is too old (410) or has an unreadable event, the objects are listed
  again, and those that have gone are reported.
- A server that does not answer is retried with increasing delays; until then the copy does not change.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Callable
from typing import Generic, TypeVar

from scheduler.engines.kubernetes.api import Api, ApiError
from scheduler.engines.kubernetes.podviews import Object

log = logging.getLogger(__name__)

T = TypeVar("T")

PAGE = 500
"""Objects per page of a list."""

WATCH = 300
"""Maximum seconds of a watch: this bounds how long a dead connection goes unnoticed."""

SHORTEST, LONGEST = 0.1, 10.0
"""Seconds between two tries."""


class Mirror(Generic[T]):
    """The objects of a collection by namespace and name, each converted by `view`.

    `changed(before, after)` reports a difference: `before` is `None` for a new object, `after` for a deleted one.
    """

    def __init__(
        self, api: Api, path: str, view: Callable[[Object], T], changed: Callable[[T | None, T | None], None]
    ) -> None:
        self._api = api
        self._path = path
        self._view = view
        self._changed = changed
        self._version = ""
        self._task: asyncio.Task[None] | None = None
        self.items: dict[str, T] = {}

    async def open(self) -> None:
        """List the objects and start to watch them. Raises `ApiError`."""
        await self._list()
        self._task = asyncio.get_running_loop().create_task(self._follow())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _follow(self) -> None:
        pause = SHORTEST
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._watch()
                pause = SHORTEST
            except ApiError as error:
                if error.status == 410:
                    log.info("The watch of %s is too old; listing it anew.", self._path)
                    self._version = ""
                    continue
                log.warning("The watch of %s broke off (%s); trying again.", self._path, error)
                await asyncio.sleep(pause * (0.5 + random.random() / 2))
                pause = min(2 * pause, LONGEST)
            except Exception:
                log.exception("The watch of %s failed; listing it anew.", self._path)
                self._version = ""
                await asyncio.sleep(LONGEST)

    async def _list(self) -> None:
        found: dict[str, T] = {}
        page, more = None, ""
        while page is None or more:
            page = await self._api.get(self._path, limit=PAGE, **({"continue": more} if more else {}))
            for item in page["items"]:
                found[_key(item)] = self._view(item)
            more = page["metadata"].get("continue") or ""
        for key in self.items.keys() - found.keys():
            self._put(key, None)
        for key, after in found.items():
            self._put(key, after)
        self._version = page["metadata"]["resourceVersion"]

    async def _watch(self) -> None:
        seconds = WATCH + random.randrange(60)  # spreads the watches out
        lines = self._api.lines(
            self._path,
            seconds,
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=self._version,
            timeoutSeconds=seconds,
        )
        async for line in lines:
            event = json.loads(line)
            item = event["object"]
            if event["type"] == "ERROR":
                raise ApiError(item.get("code", 0), item.get("reason", ""), item.get("message", ""))
            if event["type"] != "BOOKMARK":
                key = _key(item)
                self._put(key, self._view(item))
                if event["type"] == "DELETED":
                    self._put(key, None)
            self._version = item["metadata"]["resourceVersion"]

    def _put(self, key: str, after: T | None) -> None:
        before = self.items.get(key)
        if before == after:
            return
        if after is None:
            del self.items[key]
        else:
            self.items[key] = after
        self._changed(before, after)


def _key(item: Object) -> str:
    metadata = item["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"
