"""Checks whose errors name the place in the scenario."""

from __future__ import annotations

from scheduler.errors import Invalid
from scheduler.model import MiB, Milli
from scheduler.schema.reading import milli


def amount(given: float | None, place: str) -> Milli | None:
    return None if given is None else milli(given, place)


def mib(gib: float | None) -> MiB | None:
    return None if gib is None else round(gib * 1024)


def refuse_twice(key: str, names: list[str]) -> None:
    seen: set[str] = set()
    for n, name in enumerate(names):
        if name in seen:
            raise at(f"{key}[{n}].name", f"{name!r} is given twice; names must be unique.")
        seen.add(name)


def at(place: str, sentence: str) -> Invalid:
    return Invalid(f"{place}: {sentence}", field=place)


def no_gpu(place: str, node: str, gpu: int, gpus: int) -> Invalid:
    return at(place, f"{node} has no GPU {gpu}; they count from 0 to {gpus - 1}.")


def no_such(place: str, kind: str, name: str) -> Invalid:
    return at(place, f"there is no {kind} {name!r} in this scenario.")
