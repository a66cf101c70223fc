"""Machine-readable output: the API's types, as JSON or YAML."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel


def emit(found: BaseModel | Sequence[BaseModel], form: str) -> None:
    """Print a view, or a list of them, as `form`: "json" or "yaml"."""
    content: Any = (
        [view.model_dump(mode="json") for view in found]
        if isinstance(found, Sequence)
        else found.model_dump(mode="json")
    )
    if form == "json":
        print(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        import yaml

        yaml.safe_dump(content, sys.stdout, sort_keys=False, allow_unicode=True)
