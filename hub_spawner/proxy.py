"""The hub's proxy, `configurable-http-proxy`, bundled into one file, so that the machine needs only Node.js."""

from __future__ import annotations

import shutil
from pathlib import Path

BUNDLE = Path(__file__).parent / "chp" / "bin" / "configurable-http-proxy.mjs"


def bundled_proxy() -> list[str] | None:
    """The command that starts the bundled proxy; None where there is no bundle or no Node.js."""
    node = shutil.which("node")
    return [node, str(BUNDLE)] if node and BUNDLE.exists() else None
