"""Looks for garbage between requests, a little at a time.

Python's collector starts wherever an object happens to be made, and goes through all that is young. A plan or forecast
over a hundred thousand jobs makes a million objects, in a thread: everybody would wait for that. So it is turned off,
and the event loop collects: often what is young, unless a plan or forecast is at work, which lets go of most by itself.
"""

from __future__ import annotations

import asyncio
import gc
from itertools import count

from scheduler.controller.loop import Loop

EVERY = 0.25
"""Seconds between two looks."""

FEW, MANY = 500, 20_000
"""Fewer new objects than this are not worth a look; while a plan or forecast is at work, it may make more than the
latter, …"""

PATIENCE = 60
"""… but for so many looks only."""

MIDDLE, OLD = 20, 240
"""Every so many collections include what has survived one, or all that has come since what is known to stay."""

LARGE = 200_000
"""So many new objects that have survived one are the state of a large pool, …"""

STAYS = 50_000
"""… as are so many that have survived all: both are known to stay, and not looked through again."""

NEVER_SURE = 300_000
"""After so many collections, about a day, what was known to stay is looked through as well."""


async def collect_garbage() -> None:
    """Collect in this event loop, and nowhere else."""
    gc.disable()
    try:
        for collection in count(1):
            looks = 0
            await asyncio.sleep(EVERY)
            while (new := gc.get_count()[0]) < FEW or (new > MANY and Loop.at_work and looks < PATIENCE):
                looks += new > MANY
                await asyncio.sleep(EVERY)
            collect(collection)
    finally:
        gc.enable()


def collect(number: int) -> None:
    """The collection of this number."""
    large = gc.get_count()[0] > LARGE
    if number % NEVER_SURE == 0:
        gc.unfreeze()
    generation = 2 if number % OLD == 0 else 1 if number % MIDDLE == 0 else 0
    gc.collect(generation)
    if large or (generation == 2 and len(gc.get_objects(2)) > STAYS):
        gc.freeze()
