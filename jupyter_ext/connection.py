"""The scheduler that this server or kernel uses: the hub's, or the user's own, which is started when it is needed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache

from scheduler.client import Address, Client, find
from scheduler.discovery import embedded
from scheduler.errors import Unavailable

NO_POOL = (
    "This hub has no pool: RUNAI_URL is not set in this server. The administrator of the hub "
    "adds it with hub_spawner.configure(c) in jupyterhub_config.py."
)


class Mode(StrEnum):
    """`hub`: a shared scheduler; `embedded`: the user's own; `none`: a hub without a scheduler."""

    HUB = "hub"
    EMBEDDED = "embedded"
    NONE = "none"


def mode(environment: Mapping[str, str] | None = None) -> Mode:
    given = os.environ if environment is None else environment
    if given.get("RUNAI_URL"):
        return Mode.HUB
    return Mode.NONE if "JUPYTERHUB_API_TOKEN" in given else Mode.EMBEDDED


def locate() -> Address:
    """The scheduler's address and token; starts an embedded one where none answers. Blocks meanwhile.

    Raises `Unavailable` or `Unauthenticated` with what to do.
    """
    match mode():
        case Mode.NONE:
            raise Unavailable(NO_POOL)
        case Mode.EMBEDDED:
            embedded.ensure()
    return find()


def connect() -> Client:
    """A client for the scheduler, reused as long as the scheduler's address is the same."""
    return _client(locate())


@lru_cache(maxsize=4)
def _client(address: Address) -> Client:
    return Client(address.url, address.token, address.folder, address.notebook)
