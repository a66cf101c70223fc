"""The definitions of the custom resources, made of the types that the API takes: `python -m scheduler.operator.crds`
writes them.

A structural schema knows no references, no alternatives and no refusal of unknown keys, which the API server has of its
own. It sets no defaults: what a TrainJob leaves open the rules of its project decide, as in the API.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import yaml
from pydantic import BaseModel

from scheduler.schema import JobSubmit, ProjectEntry

GROUP, VERSION = "runai.jupyter.org", "v1alpha1"

NOT_IN_A_TRAINJOB = frozenset({"name", "kind", "bundle", "files", "outputs"})
"""What of a submission belongs to files that were uploaded before; its name is that of the resource."""

_KEPT = ("type", "enum", "minimum", "maximum", "minLength", "maxLength", "pattern", "minItems", "maxItems")

Schema = dict[str, Any]


def spec_of(kind: type[BaseModel], without: frozenset[str]) -> Schema:
    """The structural schema of a type, less some of its keys."""
    whole = kind.model_json_schema()
    properties = {name: each for name, each in whole["properties"].items() if name not in without}
    required = [name for name in whole.get("required", ()) if name not in without]
    return _structural({**whole, "properties": properties, "required": required}, whole.get("$defs", {}))


def _structural(schema: Mapping[str, Any], types: Mapping[str, Any]) -> Schema:
    if "$ref" in schema:
        return _structural({**types[schema["$ref"].rpartition("/")[2]], **_without(schema, "$ref")}, types)
    found: Schema = {name: schema[name] for name in _KEPT if name in schema}
    if "description" in schema:
        found["description"] = " ".join(schema["description"].split())
    choices = [choice for choice in schema.get("anyOf", ()) if choice.get("type") != "null"]
    if len(choices) == 1:
        found = {**_structural(choices[0], types), **found, "nullable": True}
    elif choices:
        found["x-kubernetes-preserve-unknown-fields"] = True
    if "exclusiveMinimum" in schema:
        found |= {"minimum": schema["exclusiveMinimum"], "exclusiveMinimum": True}
    if "items" in schema:
        found["items"] = _structural(schema["items"], types)
    if "properties" in schema:
        found["properties"] = {name: _structural(each, types) for name, each in schema["properties"].items()}
        if schema.get("required"):
            found["required"] = list(schema["required"])
    elif isinstance(schema.get("additionalProperties"), Mapping):
        found["additionalProperties"] = _structural(schema["additionalProperties"], types)
    return found


def _without(schema: Mapping[str, Any], key: str) -> Schema:
    return {name: value for name, value in schema.items() if name != key}


def _text(description: str) -> Schema:
    return {"type": "string", "description": description}


def _number(description: str) -> Schema:
    return {"type": "integer", "format": "int64", "description": description}


def _time(description: str) -> Schema:
    return {"type": "string", "format": "date-time", "description": description}


_CONDITIONS: Schema = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
    "items": {
        "type": "object",
        "required": ["type", "status", "lastTransitionTime", "reason", "message"],
        "properties": {
            "type": {"type": "string"},
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "reason": _text("one word for programs"),
            "message": _text("a sentence for people"),
            "observedGeneration": _number("the generation of the resource that this is about"),
            "lastTransitionTime": _time("when the status of the condition changed"),
        },
    },
}

_OBSERVED = _number("the generation of the resource that this status is about")


def trainjob() -> Schema:
    status = {
        "observedGeneration": _OBSERVED,
        "acceptedGeneration": _number("the generation of the resource that the job was made of"),
        "jobId": _text("the id of the job, for `jupyter runai logs` and `explain`"),
        "user": _text("the user whose job it is"),
        "project": _text("the project that the job is in"),
        "state": _text("refused, deleted, or the state of the job"),
        "message": _text("why it is in that state"),
        "attempts": _number("how often it was started"),
        "startTime": _time("when its first attempt began to run"),
        "completionTime": _time("when it ended"),
        "conditions": {
            **_CONDITIONS,
            "description": "Accepted: a job was made of it. Running. Succeeded: Unknown until the job has ended.",
        },
    }
    columns = [
        ("User", "string", ".status.user"),
        ("Project", "string", ".status.project"),
        ("State", "string", ".status.state"),
        ("Attempts", "integer", ".status.attempts"),
        ("Age", "date", ".metadata.creationTimestamp"),
        ("Job", "string", ".status.jobId"),
        ("Message", "string", ".status.message"),
    ]
    described = "A job on the GPU pool, of the user that the annotation runai.jupyter.org/user of its namespace names."
    return _definition(
        ("TrainJob", "trainjobs", "tj", "Namespaced"), described, spec_of(JobSubmit, NOT_IN_A_TRAINJOB), status, columns
    )


def project() -> Schema:
    status = {
        "observedGeneration": _OBSERVED,
        "conditions": {**_CONDITIONS, "description": "Applied: the project of the pool is as this resource says."},
    }
    columns = [
        ("Parent", "string", ".spec.parent"),
        ("Guaranteed", "number", ".spec.guaranteed"),
        ("Limit", "number", ".spec.limit"),
        ("Applied", "string", '.status.conditions[?(@.type=="Applied")].status'),
        ("Age", "date", ".metadata.creationTimestamp"),
        ("Message", "string", '.status.conditions[?(@.type=="Applied")].message'),
    ]
    described = "A project of the GPU pool and its quotas."
    spec = spec_of(ProjectEntry, frozenset({"name"}))
    return _definition(("Project", "projects", "rproj", "Cluster"), described, spec, status, columns)


def _definition(
    names: tuple[str, str, str, str], described: str, spec: Schema, status: Schema, columns: list[tuple[str, str, str]]
) -> Schema:
    kind, plural, short, scope = names
    schema = {
        "type": "object",
        "description": described,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": {"type": "object", "properties": status, "description": "what the scheduler says of it"},
        },
    }
    last = {"Job", "Message"}
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": name, "type": type_, "jsonPath": path, **({"priority": 1} if name in last else {})}
            for name, type_, path in columns
        ],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # With the definition all its resources would go.
        "metadata": {"name": f"{plural}.{GROUP}", "annotations": {"helm.sh/resource-policy": "keep"}},
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [short],
                "categories": ["runai"],
            },
            "versions": [version],
        },
    }


def definitions() -> str:
    """Both, as YAML."""
    return yaml.safe_dump_all([trainjob(), project()], sort_keys=False, width=120)


if __name__ == "__main__":
    sys.stdout.write(definitions())
