"""Builds what comes from npm into the Python packages, when a wheel is built: called by hatch-jupyter-builder.

`HATCH_JUPYTER_BUILDER_SKIP_NPM=1` leaves it out, for work on Python alone and where `make` has built it before.
"""

from __future__ import annotations

from hatch_jupyter_builder import npm_builder

PROJECTS = ("labextension", "deploy/proxy")


def build(target_name: str, version: str) -> None:
    for path in PROJECTS:
        npm_builder(target_name, version, path=path, npm=["npm"], build_cmd="build:prod")
