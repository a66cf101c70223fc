"""Shared by the chaos tests: `RUNAI_CHAOS=1` (`make chaos`) selects their long form, and each prints figures."""

from __future__ import annotations

import json
import os
import time

LONG = bool(os.environ.get("RUNAI_CHAOS"))


def seed() -> int:
    """The seed of a random campaign: `RUNAI_SEED`, or a new one each time in the long form. It is printed."""
    number = int(os.environ.get("RUNAI_SEED") or (time.time_ns() % 2**32 if LONG else 1))
    print(f"RUNAI_SEED={number}", flush=True)
    return number


def tell(figure: str, value: float) -> None:
    """A figure for the table of `make chaos`."""
    print(json.dumps({"figure": figure, "value": value}), flush=True)
