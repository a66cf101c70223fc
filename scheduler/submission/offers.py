"""The completions for the value of an option: from the option, the pool and the templates."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from scheduler.submission.options import Offer, Option

Ask = Callable[[str], Any]
"""Requests a path below `/api/v1/` and returns the JSON of the answer."""


def offers(option: Option, ask: Ask, variables: Iterable[str] = ()) -> Collection[str] | None:
    """The known values of an option; `None` where they cannot be known. Errors of `ask` are raised."""
    match option.offers:
        case None:
            return option.kind.choices or None
        case Offer.PROJECT:
            return [str(name) for name in ask("me")["projects"]]
        case Offer.GPU_TYPE:
            return sorted({node["gpu_type"] for node in _train_nodes(ask) if node["gpu_type"]})
        case Offer.NODE_POOL:
            return sorted({node["node_pool"] for node in _train_nodes(ask)})
        case Offer.JOB:
            jobs = ask("jobs?mine=true&limit=50")["jobs"]
            return list(dict.fromkeys(name for job in jobs for name in (job["array"], job["id"], job["name"]) if name))
        case Offer.TEMPLATE:
            from scheduler.submission.jobfile import templates

            return templates()
        case Offer.VARIABLE:
            return [name for name in variables if not name.startswith("_")]


def _train_nodes(ask: Ask) -> list[Any]:
    return [node for node in ask("pool")["nodes"] if node["environment"] == "train"]
