"""The chart in `deploy/chart`, with the real helm."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.kubernetes.cluster import Cluster
from tests.kubernetes.programs import PATIENCE, find

CHART = Path(__file__).parents[2] / "deploy" / "chart"
CRDS = CHART / "files" / "crds.yaml"
NEEDED = {"image": {"repository": "registry.example/runai"}, "jobs": {"image": "registry.example/notebook:1"}}

Values = dict[str, Any]
Manifest = dict[str, Any]


class Refused(Exception):
    """Helm's error message."""


def helm(folder: Path, *arguments: str, values: Values | None = None, cluster: Cluster | None = None) -> str:
    """Helm's output. `folder` is its home. Raises `Refused`."""
    command = [str(find("helm")), *arguments]
    if cluster is not None:
        command.append(f"--kubeconfig={cluster.kubeconfig}")
    if values is not None:
        command.append("--values=-")
    ran = subprocess.run(
        command, input=json.dumps(values), env={"HOME": str(folder)}, capture_output=True, text=True, timeout=PATIENCE
    )
    if ran.returncode:
        raise Refused(ran.stderr)
    return str(ran.stdout)


def rendered(folder: Path, values: Values, namespace: str = "pool") -> dict[str, Manifest]:
    """The objects of a release called `runai`, by kind and name."""
    text = helm(folder, "template", "runai", str(CHART), f"--namespace={namespace}", values=values)
    found = [manifest for manifest in yaml.safe_load_all(text) if manifest]
    return {f"{manifest['kind']}/{manifest['metadata']['name']}": manifest for manifest in found}


def define_resources(cluster: Cluster) -> None:
    """Register TrainJobs and Projects with the API server."""
    cluster.kubectl("apply", "--server-side", "-f", str(CRDS))
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", str(CRDS))
