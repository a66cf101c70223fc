"""`jupyter runai snapshot`: the pool as it is now, as a scenario that `jupyter runai plan` reads."""

from __future__ import annotations

import argparse
import json
import sys

from scheduler.cli.connect import connect


def run(options: argparse.Namespace) -> int:
    with connect() as client:
        found = client.snapshot()
    if options.output == "json":
        print(json.dumps(found, ensure_ascii=False))
        return 0
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    yaml.dump(found, sys.stdout, dumper, default_flow_style=None, sort_keys=False, allow_unicode=True, width=120)
    return 0
