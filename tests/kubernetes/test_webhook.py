"""The validating webhook, asked by a real API server: bad YAML is refused by `kubectl apply`."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from traitlets.config import Config

from hub_spawner.ports import any_free
from scheduler.api.context import Context
from scheduler.engines.kubernetes.settings import Kubernetes
from scheduler.errors import Invalid
from scheduler.operator import webhook
from scheduler.operator.webhook import Webhook
from tests.app.conftest import until
from tests.kubernetes.certificates import Authority
from tests.kubernetes.chart import CHART, NEEDED, Refused, helm, rendered
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.operated import Operated

WEBHOOK = {"operator": {"enabled": True, "webhook": {"enabled": True}}}
PATH = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


@pytest.fixture
def service(operated: Operated, cluster: Cluster, tmp_path: Path) -> Iterator[Operated]:
    """A scheduler that the API server asks as the chart configures it, but at an address of this machine."""
    folder, port = tmp_path / "webhook", any_free()
    folder.mkdir()
    signed = cluster.authority.sign("webhook", "webhook")
    (folder / "tls.crt").write_bytes(signed.cert.read_bytes())
    (folder / "tls.key").write_bytes(signed.key.read_bytes())
    with (tmp_path / "config.py").open("a") as config:
        config.write(f"c.Kubernetes.webhook_certificate = {str(folder)!r}\nc.Kubernetes.webhook_port = {port}\n")
    manifests = rendered(tmp_path, {**NEEDED, **WEBHOOK}, operated.namespace)
    name = f"{operated.namespace}-runai"
    configuration = manifests[f"ValidatingWebhookConfiguration/{name}"]
    bundle = base64.b64encode(cluster.ca.read_bytes()).decode()
    configuration["webhooks"][0]["clientConfig"] = {"url": f"https://127.0.0.1:{port}/validate", "caBundle": bundle}
    operated.start()
    cluster.create(PATH, configuration)
    try:
        yield operated
    finally:
        cluster.api.delete(f"{PATH}/{name}")


def refusal(service: Operated, name: str, spec: str) -> str:
    """What kubectl says about a TrainJob that is refused; empty: it was created, and is deleted again."""
    try:
        service.apply(name, spec)
    except AssertionError as error:
        return str(error)
    service.delete(f"tj/{name}")
    return ""


def test_kubectl_apply_refuses_what_the_scheduler_would_refuse(service: Operated, cluster: Cluster) -> None:
    """With the settings `webhook_certificate` and `webhook_port`."""
    first = until(
        lambda: refusal(service, "of-nobody", "command: [train]")
    )  # the API server learns of it a moment later
    assert "webhook.runai.jupyter.org" in first
    assert f"kubectl annotate namespace {service.namespace} runai.jupyter.org/user=" in first
    service.annotate("ann")
    assert "nowhere" in refusal(service, "lost", "{command: [train], project: nowhere}")
    assert service.get("tj/lost") is None
    service.apply("right", "{command: [train]}")
    until(lambda: service.status("tj/right").get("state") == "queued")
    service.apply("right", "{command: [train], project: nowhere}")  # without effect, as its condition says
    changed = until(lambda: (found := service.condition("Accepted", "tj/right")) and found)
    assert changed["reason"] == "SpecChanged"
    service.delete("tj/right")
    project = ("projects.runai.jupyter.org", "vision")
    with pytest.raises(AssertionError, match=r"denied the request: .*limit"):
        service.apply_project("vision", "{guaranteed: 4, limit: 2}")
    try:
        service.apply_project("vision", "{guaranteed: 4, limit: 8}")
        until(lambda: (service.condition("Applied", *project) or {}).get("status") == "True")
        with pytest.raises(AssertionError, match=r"denied the request: .*limit"):
            service.apply_project("vision", "{guaranteed: 4, limit: 2}")
        service.kill()
        service.apply_project("vision", "{guaranteed: 4, limit: 3}")  # nobody answers, so it is admitted
        service.start()
        until(lambda: (service.condition("Applied", *project) or {}).get("status") == "False")
        service.delete(*project)  # what is wrong can be deleted, too
    finally:
        cluster.kubectl("delete", *project, "--ignore-not-found", "--timeout=60s")


def test_what_is_no_review_is_refused(service: Operated, cluster: Cluster) -> None:
    url = json.loads(cluster.api.get(f"{PATH}/{service.namespace}-runai").text)["webhooks"][0]["clientConfig"]["url"]
    trusted = ssl.create_default_context(cafile=str(cluster.ca))
    with httpx.Client(verify=trusted, trust_env=False) as client:
        for body in ("", "[]", "{}", '{"request": {"uid": "u"}, "apiVersion": "v1"}'):
            assert client.post(url, content=body).status_code == 400


async def nobody(namespace: str) -> str:
    return ""


def configured(folder: Path, port: int) -> Webhook:
    given = {"webhook_certificate": str(folder), "webhook_port": port}
    return Webhook(Kubernetes(config=Config(Kubernetes=given)), Context.__new__(Context), nobody)


async def test_a_renewed_certificate_is_used_without_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "RELOAD", 0.01)
    signed = Authority(tmp_path).sign("tls", "webhook")
    running = configured(tmp_path, port := any_free())
    running.open()
    try:
        for _ in range(2):
            Authority(tmp_path).sign("tls", "webhook")
            expected = signed.cert.read_text()
            async with asyncio.timeout(60):
                while await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port)) != expected:
                    pass
    finally:
        await running.close()


async def test_a_missing_certificate_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"The webhook needs tls\.crt and tls\.key in .*, and port \d+: .*No such file"):
        configured(tmp_path, any_free()).open()


def test_the_chart_signs_the_certificate_or_has_cert_manager_issue_it(tmp_path: Path) -> None:
    plain = rendered(tmp_path, {**NEEDED, "operator": {"enabled": True}})
    helm(tmp_path, "lint", "--strict", str(CHART), values={**NEEDED, **WEBHOOK})
    signed = rendered(tmp_path, {**NEEDED, **WEBHOOK})
    new = {"Service/runai-webhook", "ValidatingWebhookConfiguration/pool-runai"}
    assert signed.keys() - plain.keys() == {*new, "Secret/runai-webhook"}
    issued = rendered(
        tmp_path, {**NEEDED, "operator": {"enabled": True, "webhook": {"enabled": True, "certManager": True}}}
    )
    assert issued.keys() - plain.keys() == {*new, "Issuer/runai-webhook", "Certificate/runai-webhook"}
    data: dict[str, Any] = signed["Secret/runai-webhook"]["data"]
    (asked,) = signed["ValidatingWebhookConfiguration/pool-runai"]["webhooks"]
    assert asked["clientConfig"]["caBundle"] == data["ca.crt"]
    assert (asked["failurePolicy"], asked["sideEffects"]) == ("Ignore", "None")
    names = x509.load_pem_x509_certificate(base64.b64decode(data["tls.crt"])).extensions
    hosts = names.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)
    assert hosts == ["runai-webhook.pool.svc"]
    own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).write_bytes(base64.b64decode(data[name]))
    own.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    open_to_all = {"ports": [{"port": "webhook"}]}
    assert open_to_all in signed["NetworkPolicy/runai"]["spec"]["ingress"]
    assert open_to_all not in plain["NetworkPolicy/runai"]["spec"]["ingress"]
    with pytest.raises(Refused, match=r"set operator\.enabled"):
        rendered(tmp_path, {**NEEDED, "operator": {"webhook": {"enabled": True}}})
