"""Parses YAML and JSON written by users strictly into types of the schema.

What must hold:
- An error is one sentence with its place in the document (`projects[2].guaranteed`). Nothing is guessed, and unknown
  or repeated keys are errors.
- Amounts are converted to whole thousandths only here; a finer amount is refused, not rounded.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, StringConstraints, ValidationError

from scheduler.errors import Invalid
from scheduler.model import ONE, MiB, Milli
from scheduler.schema.poolfile import Days, TimeOfDay
from scheduler.schema.wire import AfterId, Name

M = TypeVar("M", bound=BaseModel)


def parse_mapping(text: str, *, source: str, example: str) -> dict[str, Any]:
    """Read a document that must be a mapping, such as `example`. Raises `Invalid`."""
    try:
        found = yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}" if mark else ""
        raise Invalid(f"{source} is not YAML{where}: {error.problem or error.context}.") from None
    except yaml.YAMLError as error:
        raise Invalid(f"{source} is not YAML: {error}.") from None
    if found is None:
        key = example.partition(":")[0]
        raise Invalid(f"{source} is empty; it needs at least `{key}`.")
    if not isinstance(found, dict):
        raise Invalid(f"{source} must be a mapping (`{example}`).")
    return found


def validate(kind: type[M], content: Mapping[str, Any]) -> M:
    """`content` validated strictly as `kind` (a quoted number is not a number). Raises `Invalid` for the first thing
    wrong."""
    try:
        return kind.model_validate_json(json.dumps(content, default=str), strict=True)
    except ValidationError as error:
        raise refusal(error, kind) from None


def _pattern(kind: Any) -> str:
    """The pattern of an annotated string."""
    return str(next(part.pattern for part in get_args(kind) if isinstance(part, StringConstraints)))


_NAME = "must be 1 to 128 letters, digits, blanks or any of . _ @ / -, with a letter or a digit at both ends"


_AFTER = "must be the id or the name of a job, or the id of an array, perhaps with :any behind it"


_TIME = 'must be a time of day in quotes, such as "09:00"'

_DAYS = "must be days of the week, such as mon-fri or tue,fri"

_RULES = {_pattern(Name): _NAME, _pattern(AfterId): _AFTER, _pattern(TimeOfDay): _TIME, _pattern(Days): _DAYS}
"""The meaning of each pattern, for error messages."""


def refusal(error: ValidationError, kind: type[BaseModel]) -> Invalid:
    """The first error of pydantic's as one sentence for people, with the place."""
    first = error.errors(include_url=False)[0]
    path = first["loc"]
    place = place_of(path)
    if first["type"] == "json_invalid":
        return Invalid(f"This is not valid JSON: {first['ctx']['error']}.")
    if first["type"] == "extra_forbidden":
        key = str(path[-1])
        near = get_close_matches(key, _keys_at(kind, path[:-1]), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "; remove it."
        return Invalid(f"{place}: there is no key {key!r} here{hint}", field=place)
    if first["type"] == "missing":
        return Invalid(f"{place} is missing.", field=place)
    message = _RULES.get(first.get("ctx", {}).get("pattern", ""), first["msg"])
    message = message.removeprefix("Input ").removeprefix("Value error, ")
    got = first["input"]
    shown = "" if isinstance(got, (dict, list)) else f", not {json.dumps(got, default=str)}"
    return Invalid(f"{place or 'This'} {message[0].lower()}{message[1:]}{shown}.", field=place or None)


def place_of(path: Iterable[str | int]) -> str:
    """A place in a document, in the usual notation: `projects[2].guaranteed`."""
    place = ""
    for part in path:
        place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else part
    return place


def _keys_at(kind: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """The keys that a type allows at a place in its document."""
    for part in path:
        if isinstance(part, str):
            annotation = kind.model_fields[part].annotation
            below = [annotation, *getattr(annotation, "__args__", ())]
            kind = next(t for t in below if isinstance(t, type) and issubclass(t, BaseModel))
    return [field.alias or name for name, field in kind.model_fields.items()]


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses a key given twice, of which YAML would silently keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable):
                if key in seen:
                    raise yaml.MarkedYAMLError(problem=f"{key!r} is given twice", problem_mark=key_node.start_mark)
                seen.add(key)
        return super().construct_mapping(node, deep)


def milli(amount: float, place: str) -> Milli:
    """An amount in whole thousandths. Raises `Invalid` if it is finer or not finite."""
    found = _rounded(amount * ONE, amount, place)
    if abs(amount * ONE - found) > 1e-6:
        raise Invalid(f"{place} goes in steps of 0.001; {amount} is finer.", field=place)
    return found


def mib(gib: float, place: str) -> MiB:
    """An amount of memory in GiB, converted to whole MiB (rounded). Raises `Invalid` if it is not finite."""
    return _rounded(gib * 1024, gib, place)


def _rounded(number: float, amount: float, place: str) -> int:
    try:
        return round(number)
    except (OverflowError, ValueError):
        raise Invalid(f"{place} must be a number that is finite, not {amount}.", field=place) from None
