"""A cluster's DNS: resolves pods of headless services by name from the API server's objects, as CoreDNS does."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
from collections.abc import Iterator

from tests.kubernetes.cluster import Cluster
from tests.kubernetes.forwarding import IP_FREEBIND

DOMAIN = "cluster.local"
ADDRESS = 1
"""The query type of an address."""

AUTHORITATIVE, UNKNOWN = 0x8580, 0x8583


def addresses(cluster: Cluster, name: str) -> list[str]:
    """The addresses of `POD.SERVICE.NAMESPACE.svc.cluster.local`."""
    labels = name.lower().rstrip(".").removesuffix(f".{DOMAIN}").split(".")
    if len(labels) != 4 or labels[3] != "svc":
        return []
    pod, service, namespace, _ = labels
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    found = cluster.api.get(path, params={"labelSelector": f"kubernetes.io/service-name={service}"}).json()
    return [
        address
        for part in found["items"]
        for endpoint in part["endpoints"] or ()
        if endpoint.get("hostname") == pod
        for address in endpoint["addresses"]
    ]


def answer(cluster: Cluster, asked: bytes) -> bytes:
    """The answer to a message with one question (RFC 1035, section 4)."""
    labels, at = [], 12
    while length := asked[at]:
        labels.append(asked[at + 1 : at + 1 + length].decode())
        at += 1 + length
    kind = int.from_bytes(asked[at + 1 : at + 3], "big")
    name = ".".join(labels)
    known = addresses(cluster, name) if name.endswith(f".{DOMAIN}") else []
    told = known if kind == ADDRESS else []
    counts = b"".join(number.to_bytes(2, "big") for number in (1, len(told), 0, 0))
    head = asked[:2] + (AUTHORITATIVE if known else UNKNOWN).to_bytes(2, "big") + counts
    records = (
        b"\xc0\x0c" + bytes([0, ADDRESS, 0, 1, 0, 0, 0, 5, 0, 4]) + ipaddress.ip_address(each).packed for each in told
    )
    return head + asked[12 : at + 5] + b"".join(records)


@contextlib.contextmanager
def running_dns(cluster: Cluster, host: str) -> Iterator[None]:
    """Answers at an address of this machine that may be added later."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
        server.bind((host, 53))
        server.settimeout(0.1)  # at the end, the address may be gone already: no datagram would reach it
        closing = threading.Event()

        def serve() -> None:
            while not closing.is_set():
                with contextlib.suppress(TimeoutError):
                    asked, who = server.recvfrom(4096)
                    if len(asked) > 12:
                        server.sendto(answer(cluster, asked), who)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield
        finally:
            closing.set()
            thread.join()
