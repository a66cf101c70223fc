"""`make run-kubernetes`: a hub on a real Kubernetes cluster on this machine, until Ctrl-C.

The cluster is that of the tests: a control plane and two real nodes, whose GPUs are declared. It begins anew each time,
and nothing of it stays.
"""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from hub_spawner.ports import any_free, is_free
from tests.kubernetes.cluster import running_cluster
from tests.kubernetes.hub import running_hub
from tests.kubernetes.node import running_node

FIRST_PORT = 8000
BUILD_GPUS, TRAIN_GPUS = 2, 8

GREETING = """
    {url}

    Log in with any name and the password  {password}

    {gpus} declared GPUs: {build} for notebooks, {train} for jobs. Your notebook server and each worker of your
    jobs are pods. To look at them, in another terminal:

    export KUBECONFIG={kubeconfig}
    {kubectl} get pods --all-namespaces --watch

    Ctrl-C ends the hub, the cluster and all pods.
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make run-kubernetes", description=__doc__)
    parser.add_argument("--port", type=int, help="where the hub listens (default: 8000, or the next free one)")
    wanted = parser.parse_args().port
    if wanted and not is_free(wanted):
        sys.exit(f"Port {wanted} is taken; choose another with --port.")
    port = wanted or next((p for p in range(FIRST_PORT, FIRST_PORT + 100) if is_free(p)), None) or any_free()
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, signal.default_int_handler)
    try:
        _run(port)
    except pytest.skip.Exception as lacking:
        sys.exit(f"The cluster cannot be started: {lacking}")
    except KeyboardInterrupt:
        print("\nNothing is left.")
    return 0


def _run(port: int) -> None:
    from tests.kubernetes.programs import find

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="runai-kubernetes-", dir="/var/tmp")))
        folder.chmod(0o755)
        places = {name: folder / name for name in ("cluster", "build", "train", "hub")}
        for place in places.values():
            place.mkdir()
        print("Starting the control plane …", flush=True)
        cluster = stack.enter_context(running_cluster(places["cluster"]))
        print("Starting two nodes …", flush=True)
        build = stack.enter_context(running_node(cluster, places["build"], gpus=BUILD_GPUS, place=2))
        train = stack.enter_context(running_node(cluster, places["train"], gpus=TRAIN_GPUS))
        print(f"Starting the hub; its log is {places['hub'] / 'hub.log'}", flush=True)
        password = secrets.token_hex(6)
        hub = stack.enter_context(running_hub(places["hub"], cluster, build, train, port=port, password=password))
        print(
            GREETING.format(
                url=hub.url,
                password=password,
                gpus=BUILD_GPUS + TRAIN_GPUS,
                build=BUILD_GPUS,
                train=TRAIN_GPUS,
                kubeconfig=cluster.kubeconfig,
                kubectl=find("kubectl"),
            ),
            flush=True,
        )
        hub.process.wait()
        sys.exit(f"The hub has ended:\n{hub.log.read_text()[-4000:]}")


if __name__ == "__main__":
    sys.exit(main())
