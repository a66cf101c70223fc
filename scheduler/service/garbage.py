"""Collects garbage between requests, a little at a time.

Python's collector starts at any allocation and scans all young objects. A plan or forecast for a hundred thousand jobs
allocates a million objects in a thread, and would stop all threads meanwhile. So it is turned off, and the event loop
collects: young objects often, except during a plan or simulation, most of whose objects are freed by reference
counting.
"""

from __future__ import annotations

import asyncio
import gc
from itertools import count

from scheduler.controller.loop import Loop

EVERY = 0.25
"""Seconds between two checks."""

FEW = 20_000
"""Fewer new objects are not collected: among them are a few large containers of each plan, which take as long to scan
as fifty thousand objects."""

PATIENCE = 60
"""A collection waits for plans and simulations for this many checks."""

MIDDLE, OLD = 10, 120
"""Every how many collections include objects that have survived one, or all objects that are not frozen."""

LARGE = 200_000
"""This many new survivors of one collection are the state of a large pool, …"""

STAYS = 50_000
"""… as are this many survivors of all collections: both are frozen and not scanned again."""

NEVER_SURE = 300_000
"""After this many collections, about a day, frozen objects are scanned as well."""


async def collect_garbage() -> None:
    """Collect in this event loop only."""
    gc.disable()
    try:
        for collection in count(1):
            looks = 0
            await asyncio.sleep(EVERY)
            while (few := gc.get_count()[0] < FEW) or (Loop.at_work and looks < PATIENCE):
                looks += not few
                await asyncio.sleep(EVERY)
            collect(collection)
    finally:
        gc.enable()


def collect(number: int) -> None:
    """Run the collection with this number."""
    large = gc.get_count()[0] > LARGE
    if number % NEVER_SURE == 0:
        gc.unfreeze()
    generation = 2 if number % OLD == 0 else 1 if number % MIDDLE == 0 else 0
    gc.collect(generation)
    if large or (generation == 2 and len(gc.get_objects(2)) > STAYS):
        gc.freeze()
