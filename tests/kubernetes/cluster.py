"""A real control plane on this machine's loopback address: etcd, API server, controller manager.

Its programs are killed by the kernel when the test's process ends, and all files are in the folder it is given.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import yaml

from hub_spawner.ports import any_free
from tests.kubernetes.certificates import Authority
from tests.kubernetes.programs import PATIENCE, Program, eventually, find

ADMIN = "the-administrator"
NOBODY = "somebody-without-rights"
"""Tokens of two users: one with all rights, one with none."""

NUMBER = 1 + os.getpid() % 250
"""Separates the nodes and pods of concurrent tests on this machine."""


def host_of(place: int) -> str:
    """The address at which pods of a real node reach this machine, while there are any; `place` is the node's."""
    return f"10.{88 + place}.{NUMBER}.1"


HOST = host_of(1)
"""The address for the first node."""


def needs_cluster() -> None:
    """Skip where a cluster cannot be started."""
    for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl"):
        find(name)


class Cluster:
    """`api` has all rights; `kubeconfig` and (`url`, `ca`, `token`) are for other clients."""

    token = ADMIN

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"https://127.0.0.1:{(port := any_free())}"
        self.authority = Authority(folder)
        self.ca = self.authority.cert
        self.authority.key("accounts")
        server = self.authority.sign("api-server", "kube-apiserver", "system:masters", at=[HOST])
        tokens = folder / "tokens.csv"
        tokens.write_text(f'{ADMIN},admin,admin,"system:masters"\n{NOBODY},nobody,nobody\n')
        self.kubeconfig = self.write_kubeconfig("admin", {"token": ADMIN})
        self.api = self.client(ADMIN)
        etcd, peers = (f"http://127.0.0.1:{any_free()}" for _ in range(2))
        self.etcd = Program(
            "etcd",
            [
                f"--data-dir={folder / 'etcd'}",
                f"--listen-client-urls={etcd}",
                f"--advertise-client-urls={etcd}",
                f"--listen-peer-urls={peers}",
                f"--initial-advertise-peer-urls={peers}",
                f"--initial-cluster=default={peers}",
                "--unsafe-no-fsync",
                "--log-level=warn",
            ],
            folder,
        )
        self.api_server = Program(
            "kube-apiserver",
            [
                f"--etcd-servers={etcd}",
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                f"--secure-port={port}",
                f"--tls-cert-file={server.cert}",
                f"--tls-private-key-file={server.key}",
                f"--client-ca-file={self.ca}",
                f"--kubelet-client-certificate={server.cert}",
                f"--kubelet-client-key={server.key}",
                "--kubelet-preferred-address-types=Hostname",
                "--authorization-mode=Node,RBAC",
                f"--token-auth-file={tokens}",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-signing-key-file={folder / 'accounts.key'}",
                f"--service-account-key-file={folder / 'accounts.key'}",
                "--service-cluster-ip-range=10.96.0.0/16",
                "--allow-privileged",
            ],
            folder,
        )
        self.controller_manager = Program(
            "kube-controller-manager",
            [
                f"--kubeconfig={self.kubeconfig}",
                f"--service-account-private-key-file={folder / 'accounts.key'}",
                f"--root-ca-file={self.ca}",
                "--use-service-account-credentials",
                "--leader-elect=false",
                "--secure-port=0",
            ],
            folder,
        )

    def start(self) -> None:
        self.etcd.start()
        self.api_server.start()
        self.api_server.wait("the API server is ready", self.is_ready)
        self.controller_manager.start()
        self.controller_manager.wait("namespaces get their service account", lambda: self._has_account("default"))

    def stop(self) -> None:
        self.api.close()
        # the API server waits for etcd as it stops
        for program in (self.controller_manager, self.api_server, self.etcd):
            program.stop()

    def is_ready(self) -> bool:
        with contextlib.suppress(httpx.TransportError):
            return self.api.get("/readyz").is_success
        return False

    def _has_account(self, namespace: str) -> bool:
        return self.api.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/default").is_success

    def client(self, token: str) -> httpx.Client:
        """The API with the rights of a token."""
        trusted = ssl.create_default_context(cafile=str(self.ca))
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.url, headers=headers, verify=trusted, timeout=PATIENCE, trust_env=False)

    def write_kubeconfig(self, name: str, user: dict[str, str], namespace: str = "default") -> Path:
        """A kubeconfig for this cluster with that user's credentials."""
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "tests",
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": name, "namespace": namespace}}],
            "clusters": [{"name": "tests", "cluster": {"server": self.url, "certificate-authority": str(self.ca)}}],
            "users": [{"name": name, "user": user}],
        }
        written = self.folder / f"{name}.kubeconfig"
        written.write_text(yaml.safe_dump(content))
        return written

    def kubectl(self, *arguments: str, stdin: str | None = None, token: str = ADMIN) -> str:
        """The output of kubectl; fails with its error message."""
        command = [
            str(find("kubectl")),
            f"--server={self.url}",
            f"--certificate-authority={self.ca}",
            f"--token={token}",
        ]
        ran = subprocess.run(
            [*command, *arguments],
            input=stdin, capture_output=True, text=True, timeout=PATIENCE, env={"HOME": str(self.folder)},
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        return str(ran.stdout)

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Create an object at a path such as `/api/v1/nodes`; returns it as stored by the API server."""
        answer = self.api.post(path, json=body)
        assert answer.is_success, answer.text
        created: dict[str, Any] = answer.json()
        return created

    def token_of(self, namespace: str, account: str, seconds: int = 3600) -> str:
        """A service account's own token."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        }
        token: str = self.create(path, body)["status"]["token"]
        return token

    @contextlib.contextmanager
    def namespace(self, prefix: str = "test-", labels: dict[str, str] | None = None) -> Iterator[str]:
        """A new namespace, ready for pods; its deletion at the end is requested, but not awaited."""
        metadata = {"generateName": prefix, "labels": labels or {}}
        name: str = self.create("/api/v1/namespaces", {"metadata": metadata})["metadata"]["name"]
        eventually("the namespace has its service account", lambda: self._has_account(name))
        try:
            yield name
        finally:
            self.api.delete(f"/api/v1/namespaces/{name}")


@contextlib.contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    """A cluster without nodes. Skips where its programs are missing."""
    needs_cluster()
    cluster = Cluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
