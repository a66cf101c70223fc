"""`jupyter runai drain`, `undrain` and `node move`, against a running service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scheduler.schema import JobSubmit
from tests.app.conftest import until

if TYPE_CHECKING:
    from tests.app.conftest import Service

POOLS = """
node_pools:
  - {name: build, environment: build, gpus: 0}
  - {name: big, environment: train, gpus: 3}
  - {name: small, environment: train, gpus: 1}
"""


def nodes(service: Service) -> dict[str, str]:
    """The node of each node pool."""
    with service.client() as client:
        return {node.node_pool: node.name for node in client.pool().nodes}


def test_a_drained_node_gets_no_new_work_until_it_is_returned(service: Service, tmp_path: Path) -> None:
    (tmp_path / "pool.yaml").write_text(POOLS)
    service.start(f"--pool-file={tmp_path / 'pool.yaml'}")
    node = nodes(service)["big"]
    assert "accepts no new work" in service.cli("drain", node, "--reason", "fans").stdout
    with service.client() as client:
        waiting = client.submit(JobSubmit(command=["true"], gpus=3))
        until(lambda: client.job(waiting.id).reason)
        assert client.job(waiting.id).state == "queued"
        assert service.cli("undrain", node).stdout == f"Node {node} accepts work again.\n"
        until(lambda: client.job(waiting.id).state == "succeeded")
    refused = service.cli("drain", "nowhere", check=False)
    assert refused.returncode == 1
    assert refused.stderr.startswith("There is no node 'nowhere'")


def test_a_node_is_moved_after_a_preview(service: Service, tmp_path: Path) -> None:
    (tmp_path / "pool.yaml").write_text(POOLS)
    service.start(f"--pool-file={tmp_path / 'pool.yaml'}")
    node = nodes(service)["small"]
    previewed = service.cli("node", "move", node, "big", "--preview").stdout
    assert previewed.splitlines()[0].endswith(f"{node} none → big")
    assert nodes(service)["small"] == node
    assert service.cli("node", "move", node, "big").stdout.strip() == previewed.splitlines()[0]
    assert "small" not in nodes(service)
    refused = service.cli("node", "move", node, "large", check=False)
    assert refused.returncode == 1
    assert refused.stderr.startswith("There is no node pool 'large'; available: build, big, small.")
