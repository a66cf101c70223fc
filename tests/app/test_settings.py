"""Each setting of the service takes effect: `jupyter runai serve` in a separate process, started with it."""

from __future__ import annotations

import getpass
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import PropertyMock, patch

import httpx
import pytest

from tests.app.test_under_a_hub import a_free_port, hub_variables

if TYPE_CHECKING:
    from tests.app.conftest import Service


def test_state_dir_holds_all_state(service: Service, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    process = service.spawn(f"--state-dir={elsewhere}")
    service.until((elsewhere / "endpoint.json").exists)
    assert (elsewhere / "runai.sqlite").exists()
    assert not service.folder.path.exists()
    process.terminate()
    assert process.wait(20) == 0


def test_ip_port_and_base_url_say_where_it_answers(service: Service) -> None:
    port = a_free_port()
    endpoint = service.start("--ip=127.0.0.2", f"--port={port}", "--base-url=/pool")
    assert endpoint.url == f"http://127.0.0.2:{port}/pool/"
    assert httpx.get(f"{endpoint.url}healthz").text == "ok\n"


def test_db_url_names_the_database(service: Service, tmp_path: Path) -> None:
    file = tmp_path / "other.sqlite"
    service.start(f"--db-url=sqlite:///{file}")
    service.cli("project", "set", "vision", "--guaranteed", "1")
    with closing(sqlite3.connect(file)) as connection:
        assert "vision" in connection.execute("SELECT pool FROM pool").fetchone()[0]
    assert not (service.folder.path / "runai.sqlite").exists()


def test_the_pool_has_the_declared_gpus(service: Service) -> None:
    service.options = ()
    service.start("--declared-gpus=7")
    with service.client() as client:
        pool = client.pool()
    assert pool.declared
    assert pool.build.gpus + pool.train.gpus == 7


def test_node_pools_share_the_gpus_of_a_machine(service: Service, tmp_path: Path) -> None:
    """Also a `pool_file` is applied at the start."""
    file = tmp_path / "pool.yaml"
    file.write_text(
        "node_pools: [{name: build, environment: build, gpus: 0}, {name: big, environment: train, gpus: 3}, "
        "{name: small, environment: train}]"
    )
    service.start(f"--pool-file={file}")
    with service.client() as client:
        nodes = {node.node_pool: len(node.gpus) for node in client.pool().nodes}
    assert nodes == {"build": 0, "big": 3, "small": 1}


@pytest.mark.parametrize("auth", ["token", "hub"])
def test_auth_by_the_state_folders_token_or_by_a_hub(service: Service, auth: str) -> None:
    environment = {**service.environment, **hub_variables(a_free_port())}
    with patch.object(type(service), "environment", PropertyMock(return_value=environment)):
        endpoint = service.start(f"--auth={auth}")
    token = service.folder.read_token()
    assert (token is not None) == (auth == "token")
    headers = {"Authorization": f"token {token or 'the-services-own'}"}
    me = httpx.get(f"{endpoint.url}api/v1/me", headers=headers).json()
    assert (me["name"] == getpass.getuser()) == (auth == "token")
    assert httpx.get(f"{endpoint.url}api/v1/me").status_code == 401


def test_jobs_as_owner_needs_root_and_a_folder_that_owners_can_access(service: Service) -> None:
    """Its effect on accounts is tested behind a hub, in `tests/hub/test_system_users.py`."""
    assert service.spawn("--jobs-as=owner").wait(20) != 0
    sentence = "The owners of jobs cannot access" if os.geteuid() == 0 else "root"
    assert sentence in service.log.read_text()
    service.start("--jobs-as=scheduler")


def test_the_engine_is_one_that_is_installed(service: Service) -> None:
    assert service.spawn("--RunaiService.engine=slurm").wait(20) != 0
    assert "There is no engine 'slurm'; choose one of: kubernetes, local." in service.log.read_text()
    service.start("--RunaiService.engine=local")


def test_the_scrape_token_reads_the_metrics_and_nothing_else(service: Service) -> None:
    endpoint = service.start("--RunaiService.scrape_token=only-for-metrics")
    headers = {"Authorization": "Bearer only-for-metrics"}
    assert "runai_plan_seconds" in httpx.get(f"{endpoint.url}metrics", headers=headers).text
    assert httpx.get(f"{endpoint.url}api/v1/me", headers=headers).status_code == 401


def test_after_idle_timeout_it_ends(service: Service) -> None:
    service.start("--idle-timeout=0.5")
    assert service.process is not None
    assert service.process.wait(30) == 0
