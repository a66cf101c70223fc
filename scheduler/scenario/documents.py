"""From the text of a file to the scenarios in it: one JSON object, YAML documents, or one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import yaml

from scheduler.errors import Invalid


def documents(text: str, lines: bool) -> Iterator[tuple[str, Any]]:
    if lines:
        for number, line in enumerate(text.splitlines(), start=1):
            if line.strip():
                yield f"line {number}: ", _json(line, f"line {number}")
        return
    if text.lstrip().startswith("{"):
        try:
            yield "", json.loads(text, object_pairs_hook=_once)
            return
        except json.JSONDecodeError:
            pass  # YAML in braces, or nothing at all: YAML says which
    try:
        documents = list(yaml.load_all(text, _Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f" in line {mark.line + 1}" if mark else ""
        raise Invalid(f"This is not YAML{at}: {error.problem or error.context}.") from None
    except yaml.YAMLError as error:
        raise Invalid(f"This is not YAML: {error}.") from None
    documents = [document for document in documents if document is not None]
    if not documents:
        raise Invalid("There is no scenario in it; it needs at least `nodes`.")
    for number, document in enumerate(documents, start=1):
        yield (f"document {number}: " if len(documents) > 1 else ""), document


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise Invalid(f"{where}: this is not JSON: {error.msg} at column {error.colno}.") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Invalid(f"The key {twice!r} is given twice in one object.", field=twice)
    return found


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Safe YAML, by the C parser where there is one, that refuses a key given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [self.construct_object(key, deep=True) for key, _ in node.value]
        for number, name in enumerate(names):
            if name in names[:number]:
                raise yaml.MarkedYAMLError(
                    problem=f"{name!r} is given twice", problem_mark=node.value[number][0].start_mark
                )
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found
