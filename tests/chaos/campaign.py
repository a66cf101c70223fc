"""What the tests of a campaign share: `RUNAI_CHAOS=1` (`make chaos`) gives them their long form, and each tells
figures."""

from __future__ import annotations

import json
import os
import time

LONG = bool(os.environ.get("RUNAI_CHAOS"))


def seed() -> int:
    """What a campaign of chance begins with: `RUNAI_SEED`, or another one each time in the long form. It is printed."""
    number = int(os.environ.get("RUNAI_SEED") or (time.time_ns() % 2**32 if LONG else 1))
    print(f"RUNAI_SEED={number}", flush=True)
    return number


def tell(figure: str, value: float) -> None:
    """A figure for the table of `make chaos`."""
    print(json.dumps({"figure": figure, "value": value}), flush=True)
