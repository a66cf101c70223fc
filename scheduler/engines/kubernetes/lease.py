"""Leader election among the schedulers of a cluster by a Lease, as in client-go.

What must hold:
- No two clocks are compared: a lease has expired for an observer who, by its own clock, has not seen it change for the
  duration in its spec.
- A leader that cannot renew its lease ends before another candidate may take it.
- Of two concurrent writes the API server accepts one (`resourceVersion`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from scheduler.discovery.statefolder import StateFolder
from scheduler.engines.kubernetes.api import Api, ApiError
from scheduler.engines.kubernetes.podviews import Object
from scheduler.engines.leadership import Leadership
from scheduler.errors import Conflict, Unavailable

log = logging.getLogger(__name__)

T = TypeVar("T")

DEADLINE, PAUSE = 2 / 3, 1 / 6
"""Fractions of the duration: until a leader that could not renew ends, and between two tries."""

LETTING_GO = 1.0
"""Seconds to release the lease at the end; it expires anyway."""

_OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def own_namespace(default: str) -> str:
    """The namespace of the pod that this process runs in."""
    try:
        return _OWN_NAMESPACE.read_text("ascii").strip()
    except OSError:
        return default


class Elector:
    """A candidate for a Lease of `duration` seconds. `holder` is its last known holder."""

    def __init__(self, api: Api, namespace: str, name: str, duration: int) -> None:
        self.holder = ""
        self.uid = ""
        self.expires = 0.0
        """When others may take the lease, in the time of the event loop."""
        self._api = api
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._name = name
        self._duration = duration
        self._identity = f"{socket.gethostname()}_{secrets.token_hex(8)}"
        self._lease: Object = {}
        self._changed = 0.0

    async def acquire(self) -> None:
        """Wait until the lease is ours. Raises `Unavailable` where the cluster refuses it for good."""
        await self._api.open()
        while True:
            asked = _now()
            try:
                async with asyncio.timeout(DEADLINE * self._duration):
                    if await self._take():
                        self.expires = asked + self._duration
                        return
            except (ApiError, TimeoutError) as error:
                if isinstance(error, ApiError) and not (error.passing or error.status == 409):
                    raise Unavailable(f"The schedulers cannot elect a leader by a Lease: {error}") from error
                log.warning("The Lease %s cannot be taken (%s); trying again.", self._name, error)
            await asyncio.sleep(PAUSE * self._duration)

    async def hold(self) -> None:
        """Renew the lease. Returns when that has failed for too long, or another holds it."""
        until = self.expires - (1 - DEADLINE) * self._duration
        while True:
            await asyncio.sleep(PAUSE * self._duration)
            asked = _now()
            if asked >= until:
                log.error("The Lease %s could not be renewed in time.", self._name)
                return
            try:
                async with asyncio.timeout(until - asked):
                    if not await self._renew():
                        log.error("The Lease %s was taken by %s.", self._name, self.holder)
                        return
            except (ApiError, TimeoutError) as error:
                log.warning("The Lease %s cannot be renewed (%r); trying again.", self._name, error)
                continue
            self.expires = asked + self._duration
            until = asked + DEADLINE * self._duration

    async def release(self) -> None:
        """Release the lease, so that another can take it at once."""
        with contextlib.suppress(ApiError, TimeoutError):
            async with asyncio.timeout(LETTING_GO):
                await self._look()
                if self.holder == self._identity:
                    await self._put("", 1)
        await self._api.close()

    async def _take(self) -> bool:
        """Take the lease if it is free, ours or expired."""
        try:
            await self._look()
        except ApiError as error:
            if error.status != 404:
                raise
            new = {"metadata": {"name": self._name}, "spec": self._spec(self._identity, self._duration)}
            self._keep(await self._api.create(self._path, new))
            return True
        expires = self._changed + (self._lease["spec"].get("leaseDurationSeconds") or 0)
        if self.holder and self.holder != self._identity and _now() < expires:
            return False
        await self._put(self._identity, self._duration)
        return True

    async def _renew(self) -> bool:
        """Renew the lease; False if another holds it."""
        try:
            await self._put(self._identity, self._duration)
        except ApiError as error:
            if error.status != 409:
                raise
            await self._look()  # another writer changed a label, or the answer to our own change was lost
            if self.holder != self._identity:
                return False
            await self._put(self._identity, self._duration)
        return True

    async def _look(self) -> None:
        self._keep(await self._api.get(f"{self._path}/{self._name}"))

    async def _put(self, holder: str, duration: int) -> None:
        lease = {**self._lease, "spec": self._spec(holder, duration)}
        self._keep(await self._api.call("PUT", f"{self._path}/{self._name}", lease))

    def _keep(self, lease: Object) -> None:
        if lease["spec"] != self._lease.get("spec"):
            self._changed = _now()
        self._lease = lease
        self.holder = lease["spec"].get("holderIdentity") or ""
        self.uid = lease["metadata"]["uid"]

    def _spec(self, holder: str, duration: int) -> Object:
        """The spec of the Lease; its times are informative."""
        before = self._lease.get("spec", {})
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        same = before.get("holderIdentity") == holder
        return {
            "holderIdentity": holder,
            "leaseDurationSeconds": duration,
            "acquireTime": before.get("acquireTime", now) if same else now,
            "renewTime": now,
            "leaseTransitions": before.get("leaseTransitions", 0) + (not same and bool(holder)),
        }


class LeaseLeadership(Leadership):
    """Leadership by the Lease. A thread renews it, so that a busy event loop does not lose it; if the loop is still
    blocked when the lease expires, `end` ends the process."""

    def __init__(self, elector: Elector, folder: StateFolder, end: Callable[[int], None] = os._exit) -> None:
        self._elector = elector
        self._folder = folder
        self._end = end
        self._loop = asyncio.new_event_loop()
        self._released = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    def election(self) -> str:
        return self._elector.uid

    def leader(self) -> str:
        return self._elector.holder.rpartition("_")[0]

    async def acquire(self) -> None:
        self._thread.start()
        await self._in_thread(self._elector.acquire())
        # For clients on this machine that look for the scheduler; the folder's lock decides nothing here.
        with contextlib.suppress(Conflict, OSError):
            self._folder.lock()

    async def lost(self) -> None:
        await self._in_thread(self._hold())

    async def release(self) -> None:
        self._folder.unlock()
        if self._thread.is_alive():
            await self._in_thread(self._elector.release())
            self._loop.call_soon_threadsafe(self._released.set)
            self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._released.wait())

    async def _hold(self) -> None:
        await self._elector.hold()
        left = self._elector.expires - _now()
        self._loop.call_later(max(0.0, left), self._end, os.EX_TEMPFAIL)

    def _in_thread(self, work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))


def _now() -> float:
    return asyncio.get_running_loop().time()
