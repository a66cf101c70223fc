"""The definitions of the custom resources, generated from the API's types by `python -m scheduler.operator.crds`.

A structural schema has no references, alternatives or rejection of unknown keys, which the API server does itself. It
sets no defaults: as in the API, the rules of the project complete a TrainJob.
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
"""Keys of a submission that a TrainJob lacks: they refer to uploaded files, and its name is the resource's."""

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
            "lastTransitionTime": _time("when the status of the condition last changed"),
        },
    },
}

_OBSERVED = _number("the generation of the resource that this status is about")


def trainjob() -> Schema:
    status = {
        "observedGeneration": _OBSERVED,
        "acceptedGeneration": _number("the generation of the resource that the job was created from"),
        "jobId": _text("the id of the job, for `jupyter runai logs` and `jupyter runai explain`"),
        "user": _text("the owner of the job"),
        "project": _text("the project of the job"),
        "state": _text("`refused`, `deleted` or the state of the job"),
        "message": _text("why it is in that state"),
        "attempts": _number("the number of its attempts"),
        "startTime": _time("when its first attempt started"),
        "completionTime": _time("when it ended"),
        "conditions": {
            **_CONDITIONS,
            "description": "Accepted: a job was created from it. Running. Succeeded: Unknown until the job has ended.",
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
    described = (
        "A job on the GPU pool. Its owner is the user in the annotation runai.jupyter.org/user of its namespace."
    )
    return _definition(
        ("TrainJob", "trainjobs", "tj", "Namespaced"), described, spec_of(JobSubmit, NOT_IN_A_TRAINJOB), status, columns
    )


def project() -> Schema:
    status = {
        "observedGeneration": _OBSERVED,
        "conditions": {**_CONDITIONS, "description": "Applied: the project of the pool matches this resource."},
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
            "status": {"type": "object", "properties": status, "description": "the state that the scheduler reports"},
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
        # Deleting the definition would delete all its resources.
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
    """Both definitions, as YAML."""
    return yaml.safe_dump_all([trainjob(), project()], sort_keys=False, width=120)


if __name__ == "__main__":
    sys.stdout.write(definitions())
