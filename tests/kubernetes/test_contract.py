"""The contract of engines, checked for pods on a real API server (on a node with a simulated kubelet)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engines import test_contract as contract
from tests.engines.backends import BackendSetup
from tests.kubernetes.backend import ClusterBackendSetup
from tests.kubernetes.cluster import Cluster

globals().update({name: it for name, it in vars(contract).items() if name.startswith("test_")})
here, gate = contract.here, contract.gate


@pytest.fixture
async def setup(cluster: Cluster, namespace: str, tmp_path: Path) -> BackendSetup:
    (tmp_path / "state").mkdir(mode=0o700)
    setup = ClusterBackendSetup(tmp_path / "state", cluster, namespace)
    await setup.kubelet.open()
    return setup
