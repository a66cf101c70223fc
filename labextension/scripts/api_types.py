"""Write `src/model/api.ts`: the types of the scheduler's API in TypeScript, made from `scheduler/schema/`.

    python labextension/scripts/api_types.py            write the file
    python labextension/scripts/api_types.py --check    say whether it is up to date

Names stay as they are on the wire, so that one word means one thing on both sides.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pydantic.json_schema import models_json_schema

from scheduler import schema

TARGET = Path(__file__).parent.parent / "src" / "model" / "api.ts"

VIEWS = (
    schema.JobPage,
    schema.PoolView,
    schema.ProjectList,
    schema.SessionList,
    schema.ScheduleList,
    schema.ScheduleChange,
    schema.LogTimes,
    schema.MetricsPage,
    schema.NoticesChoice,
    schema.NoticesTested,
    schema.NoticesView,
    schema.LatestReports,
    schema.Explanation,
    schema.JobSubmit,
    schema.DisplayLine,
    schema.OutputList,
    schema.Me,
    schema.Event,
    schema.ViewFigures,
    schema.ViewWritten,
    schema.StreamShows,
    schema.Problem,
    schema.ProjectEntry,
    schema.Applied,
    schema.NodeDrain,
    schema.NodeMove,
    schema.PoolFile,
    schema.PolicyList,
    schema.AuditPage,
    schema.DryRunView,
    schema.UsageReport,
    schema.PoolHistory,
    schema.WhatIfReport,
    schema.DemandForecast,
    schema.WhatIfAsk,
    schema.UserList,
    schema.BuildQuotaEntry,
    schema.NodeGpus,
    schema.GpuHistory,
    schema.JobGpuUse,
)
"""What the front end reads; whatever these refer to comes along."""

PRIMITIVES = {
    "string": "string",
    "number": "number",
    "integer": "number",
    "boolean": "boolean",
    "null": "null",
}


def type_of(spec: dict[str, Any]) -> str:
    """The TypeScript type of one JSON schema."""
    if ref := spec.get("$ref"):
        return str(ref).rpartition("/")[2]
    if options := spec.get("anyOf"):
        return " | ".join(dict.fromkeys(type_of(option) for option in options))
    if values := spec.get("enum"):
        return " | ".join(f"'{value}'" for value in values)
    if "const" in spec:
        return f"'{spec['const']}'"
    if spec.get("type") == "array":
        if "prefixItems" in spec:
            return f"[{', '.join(map(type_of, spec['prefixItems']))}]"
        item = type_of(spec["items"])
        return f"({item})[]" if " | " in item else f"{item}[]"
    if spec.get("type") == "object":
        values = spec.get("additionalProperties")
        return f"Record<string, {type_of(values) if isinstance(values, dict) else 'unknown'}>"
    return PRIMITIVES[spec["type"]]


def comment(text: str | None, indent: str = "") -> str:
    if not text:
        return ""
    lines = text.replace("`", "").splitlines()
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */\n"
    body = "".join(f"{indent} * {line}".rstrip() + "\n" for line in lines)
    return f"{indent}/**\n{body}{indent} */\n"


def declaration(name: str, spec: dict[str, Any]) -> str:
    doc = comment(spec.get("description"))
    if "properties" not in spec:
        return f"{doc}export type {name} = {type_of(spec)};\n"
    fields = "".join(
        f"{comment(field.get('description'), '  ')}  {key}: {type_of(field)};\n"
        for key, field in spec["properties"].items()
    )
    return f"{doc}export interface {name} {{\n{fields}}}\n"


def render() -> str:
    _, document = models_json_schema([(view, "serialization") for view in VIEWS])
    parts = [declaration(name, spec) for name, spec in sorted(document["$defs"].items())]
    return "// Made by scripts/api_types.py from scheduler/schema/: change that file, not this one.\n\n" + "\n".join(
        parts
    )


def main() -> int:
    text = render()
    if "--check" in sys.argv[1:]:
        current = TARGET.read_text() if TARGET.exists() else ""
        if current != text:
            print(f"{TARGET} is not what the API says: run python {Path(__file__).name}", file=sys.stderr)
            return 1
        return 0
    TARGET.write_text(text)
    print(json.dumps({"written": str(TARGET), "types": text.count("export ")}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
