"""The service as started by a hub: the hub sets its address, and it does not outlive the hub."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

from scheduler.client import Client

if TYPE_CHECKING:
    from scheduler.discovery.statefolder import Endpoint
    from tests.app.conftest import Service

HUB = """\
import subprocess, sys, time
subprocess.Popen([sys.executable, "-m", "scheduler.service.app", *sys.argv[1:]])
time.sleep(1000)
"""
"""A substitute for the hub: the process that started the service, and may be killed."""


def hub_variables(port: int) -> dict[str, str]:
    """The environment that a hub sets for its service."""
    prefix = "/hubs/a/services/runai/"
    return {
        "JUPYTERHUB_SERVICE_NAME": "runai",
        "JUPYTERHUB_SERVICE_URL": f"http://127.0.0.1:{port}",
        "JUPYTERHUB_SERVICE_PREFIX": prefix,
        "JUPYTERHUB_API_TOKEN": "the-services-own",
        "JUPYTERHUB_API_URL": "http://127.0.0.1:1/hub/api",
        "JUPYTERHUB_BASE_URL": "/hubs/a/",
        "JUPYTERHUB_CLIENT_ID": "service-runai",
        "JUPYTERHUB_OAUTH_CALLBACK_URL": f"{prefix}oauth_callback",
        "JUPYTERHUB_OAUTH_SCOPES": "[]",
    }


def started_by_a_hub(service: Service, port: int) -> subprocess.Popen[bytes]:
    with service.log.open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-c", HUB, "--declared-gpus=2"],
            env={**service.environment, **hub_variables(port)},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def a_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def test_it_listens_at_the_hubs_address_and_a_new_hub_takes_over_from_a_killed_one(service: Service) -> None:
    port = a_free_port()
    hubs = [started_by_a_hub(service, port)]
    try:
        first = service.until(service.folder.endpoint)
        assert first.url == f"http://127.0.0.1:{port}/hubs/a/services/runai/"
        assert service.folder.read_token() is None
        with Client(first.url, "the-services-own") as client:
            assert client.me().admin
            assert client.pool().build.gpus + client.pool().train.gpus == 2

        hubs.append(started_by_a_hub(service, port))
        hubs[0].send_signal(signal.SIGKILL)

        def taken_over() -> Endpoint | None:
            found = service.folder.endpoint()
            return found if found is not None and found.pid != first.pid else None

        second = service.until(taken_over)
        assert second.url == first.url
    finally:
        for hub in hubs:
            hub.kill()
            hub.wait()
    service.until(lambda: service.folder.holder() is None)
