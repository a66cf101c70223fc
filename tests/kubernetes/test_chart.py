"""The chart: what it renders, installs and refuses; its service account has the necessary rights and no more."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.kubernetes.chart import CHART, NEEDED, Refused, Values, helm, rendered
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.kwok import Kwok
from tests.kubernetes.programs import eventually, find

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "install-on-kubernetes.md"
EVERYTHING: Values = {
    **NEEDED,
    "pool": {"projects": [{"name": "default", "guaranteed": 4, "members": ["*"]}]},
    "notebooks": {"namespace": "jupyterhub"},
    "auth": "hub",
    "hub": {"apiUrl": "http://hub.jupyterhub.svc:8081/hub/api", "existingSecret": "hub-token"},
    "database": {"existingSecret": "database"},
    "replicas": 2,
    "operator": {"enabled": True},
    "nodeAgent": {"enabled": True, "runtimeClassName": "nvidia"},
    "persistence": {"existingClaim": "state"},
    "networkPolicy": {"from": [{"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}]},
    "metrics": {"existingSecret": "scrape", "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}},
    "mail": {
        "host": "smtp.example.org",
        "port": 465,
        "tls": "tls",
        "from": "gpus@example.org",
        "user": "gpus",
        "existingSecret": "mail",
    },
    "podLabels": {"team": "ml"},
    "nodeSelector": {"pool": "system"},
    "tolerations": [{"key": "system", "operator": "Exists"}],
}


AGENTS = ("DaemonSet", "NetworkPolicy", "ServiceAccount")


def test_lints_and_renders_with_the_least_and_with_everything(tmp_path: Path) -> None:
    for values in (NEEDED, EVERYTHING):
        helm(tmp_path, "lint", "--strict", str(CHART), values=values)
    least, everything = rendered(tmp_path, NEEDED), rendered(tmp_path, EVERYTHING)
    assert sorted(least) == [
        "ClusterRole/pool-runai",
        "ClusterRoleBinding/pool-runai",
        "ConfigMap/runai",
        "Deployment/runai",
        "Namespace/pool-jobs",
        "NetworkPolicy/runai",
        "NetworkPolicy/runai-jobs",
        "PersistentVolumeClaim/runai",
        "Role/runai",
        "RoleBinding/runai",
        "Service/runai",
        "ServiceAccount/runai",
    ]
    elects = {"Role/runai-leader", "RoleBinding/runai-leader"}
    binds = {"Role/pool-runai-notebooks", "RoleBinding/pool-runai-notebooks"}
    resources = {f"CustomResourceDefinition/{kind}.runai.jupyter.org" for kind in ("trainjobs", "projects")}
    roles = {f"ClusterRole/pool-runai-trainjobs-{verb}" for verb in ("edit", "view")}
    measures = {"Namespace/pool-nodes", *(f"{kind}/runai-node-agent" for kind in AGENTS)}
    assert everything.keys() - least.keys() == {"ServiceMonitor/runai", *elects, *binds, *resources, *roles, *measures}
    assert least.keys() - everything.keys() == {"PersistentVolumeClaim/runai"}
    endpoint = everything["ServiceMonitor/runai"]["spec"]["endpoints"][0]
    assert endpoint["path"] == "/services/runai/metrics"
    assert endpoint["authorization"]["credentials"] == {"name": "scrape", "key": "token"}


def test_two_replicas_share_a_volume_and_may_elect_a_leader_and_nothing_more(tmp_path: Path) -> None:
    one = rendered(tmp_path, NEEDED)
    two = rendered(tmp_path, {**NEEDED, "replicas": 2, "database": {"existingSecret": "database"}})
    assert two.keys() - one.keys() == {"Role/runai-leader", "RoleBinding/runai-leader"}
    assert two["PersistentVolumeClaim/runai"]["spec"]["accessModes"] == ["ReadWriteMany"]
    config = json.loads(two["ConfigMap/runai"]["data"]["jupyter_runai_config.json"])
    assert config["RunaiService"]["standby"] is True
    name = f"runai-{config['Kubernetes']['instance']}"
    assert two["Role/runai-leader"]["rules"] == [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": [name],
            "verbs": ["get", "update"],
        },
    ]
    with pytest.raises(Refused, match="a second scheduler needs PostgreSQL"):
        rendered(tmp_path, {**NEEDED, "replicas": 2})


@pytest.mark.parametrize("placement", ["kueue", "kai"])
def test_a_scheduler_that_delegates_placement_has_other_rights_and_knows_the_queues(
    tmp_path: Path, placement: str
) -> None:
    values = {**NEEDED, "placement": {"scheduler": placement, "queues": {"Team A": "team-a"}}}
    before, after = rendered(tmp_path, NEEDED), rendered(tmp_path, values)
    config = json.loads(after["ConfigMap/runai"]["data"]["jupyter_runai_config.json"])["Kubernetes"]
    assert (config["placement"], config["queues"]) == (placement, {"Team A": "team-a"})
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == {"ConfigMap/runai", "Role/runai", "Deployment/runai"}, "its pod restarts"


def test_a_scheduler_that_shows_what_jobs_lack_may_also_mark_pods(tmp_path: Path) -> None:
    before, after = rendered(tmp_path, NEEDED), rendered(tmp_path, {**NEEDED, "autoscaling": {"pods": 50}})
    config = json.loads(after["ConfigMap/runai"]["data"]["jupyter_runai_config.json"])["Kubernetes"]
    assert config["autoscaling_pods"] == 50
    (added,) = [rule for rule in after["Role/runai"]["rules"] if rule not in before["Role/runai"]["rules"]]
    assert added == {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]}


def test_the_documented_values_exist_in_the_chart(tmp_path: Path) -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 3
    for block in blocks:
        values = {**NEEDED, **yaml.safe_load(block)}
        assert "Deployment/runai" in rendered(tmp_path, values)


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"jobs": NEEDED["jobs"]}, "image"),
        ({**NEEDED, "jobs": {"image": ""}}, "jobs/image"),
        ({**NEEDED, "replicas": 0}, "replicas"),
        ({**NEEDED, "auth": "none"}, "auth"),
        ({**NEEDED, "placement": {"scheduler": "volcano"}}, "placement/scheduler"),
        ({**NEEDED, "auth": "hub"}, "hub"),
        ({**NEEDED, "metrics": {"serviceMonitor": {"enabled": True}}}, "metrics/existingSecret"),
        ({**NEEDED, "mail": {"host": "smtp.example.org"}}, "mail/from"),
        ({**NEEDED, "mail": {"user": "gpus"}}, "mail/existingSecret"),
        ({**NEEDED, "mail": {"tls": "ssl"}}, "mail/tls"),
        ({**NEEDED, "persistence": {"size": "many"}}, "persistence/size"),
        ({**NEEDED, "jobs": {"image": "one", "podSecurity": "open"}}, "jobs/podSecurity"),
    ],
)
def test_refuses_values_that_cannot_work_and_names_them(tmp_path: Path, values: Values, name: str) -> None:
    with pytest.raises(Refused) as refused:
        rendered(tmp_path, values)
    assert name in str(refused.value)


@pytest.mark.parametrize("values", [NEEDED, EVERYTHING])
def test_the_scheduler_takes_its_options_from_the_chart(tmp_path: Path, values: Values) -> None:
    manifests = rendered(tmp_path, values)
    for name, text in manifests["ConfigMap/runai"]["data"].items():
        (tmp_path / name).write_text(text)
    (container,) = manifests["Deployment/runai"]["spec"]["template"]["spec"]["containers"]
    program, verb, config = container["command"]
    assert (program, verb) == ("jupyter-runai", "serve")
    config = config.replace("/etc/runai", str(tmp_path))
    shown = subprocess.run(
        [sys.executable, "-m", "scheduler.cli", verb, config, "--show-config-json"],
        env={"HOME": str(tmp_path), "PATH": ""}, capture_output=True, text=True, check=True, timeout=90,
    ).stdout  # fmt: skip
    options = json.loads(shown)
    path = "/services/runai/" if values is EVERYTHING else "/"
    assert options["RunaiService"]["engine"] == "kubernetes"
    assert options["RunaiService"]["base_url"] == path
    assert options["Kubernetes"].get("notebooks_namespace") == values.get("notebooks", {}).get("namespace")
    assert options["Kubernetes"]["url"] == f"http://runai.pool.svc:8000{path}"
    assert container["livenessProbe"]["httpGet"]["path"] == f"{path}healthz"
    mail = {name: value for name, value in options["RunaiService"].items() if name.startswith("smtp_")}
    passwords = [each["valueFrom"] for each in container["env"] if each["name"] == "RUNAI_SMTP_PASSWORD"]
    if values is EVERYTHING:
        assert mail == {
            "smtp_host": "smtp.example.org", "smtp_port": 465, "smtp_tls": "tls", "smtp_from": "gpus@example.org",
            "smtp_user": "gpus",
        }  # fmt: skip
        assert passwords == [{"secretKeyRef": {"name": "mail", "key": "password"}}]
    else:
        assert not mail
        assert not passwords


@dataclass
class Release:
    """The chart, installed. `api` has the rights of its service account, `jobs` is the namespace of its jobs."""

    cluster: Cluster
    folder: Path
    namespace: str
    api: httpx.Client
    values: Values

    @property
    def jobs(self) -> str:
        return f"{self.namespace}-jobs"

    def upgrade(self, values: Values) -> None:
        options = ("runai", str(CHART), f"--namespace={self.namespace}")
        helm(self.folder, "upgrade", *options, values=values, cluster=self.cluster)


@pytest.fixture(scope="module")
def release(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    folder = tmp_path_factory.mktemp("helm")
    with cluster.namespace("chart-", {"pod-security.kubernetes.io/enforce": "restricted"}) as namespace:
        values = {**NEEDED, "notebooks": {"namespace": namespace}, "nodeAgent": {"enabled": True}}
        helm(folder, "install", "runai", str(CHART), f"--namespace={namespace}", values=values, cluster=cluster)
        with cluster.client(cluster.token_of(namespace, "runai")) as api:
            yield Release(cluster, folder, namespace, api, values)
        with contextlib.suppress(Refused):  # a test may have uninstalled it
            helm(folder, "uninstall", "runai", f"--namespace={namespace}", cluster=cluster)
        for each in ("jobs", "nodes"):
            cluster.api.delete(f"/api/v1/namespaces/{namespace}-{each}")


def test_its_pod_is_admitted_to_a_restricted_namespace(release: Release) -> None:
    pods = f"/api/v1/namespaces/{release.namespace}/pods"
    eventually("the deployment has its pod", lambda: release.cluster.api.get(pods).json()["items"])
    jobs = release.cluster.api.get(f"/api/v1/namespaces/{release.jobs}").json()
    assert jobs["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_the_api_server_accepts_everything_that_can_be_chosen(release: Release, tmp_path: Path) -> None:
    values = {**EVERYTHING, "notebooks": {"namespace": release.namespace}}
    manifests = rendered(tmp_path, values, release.namespace)
    del manifests["ServiceMonitor/runai"]  # a kind of the Prometheus Operator
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifests.values())})
    release.cluster.kubectl("apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-", stdin=text)


def test_the_service_account_may_do_what_the_engine_does(release: Release, kwok: Kwok) -> None:
    core, jobs = "/api/v1", f"/api/v1/namespaces/{release.jobs}"
    name = "runai-one-1-0"

    def made(path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = release.api.post(path, json=body)
        assert answer.is_success, answer.text
        created: dict[str, Any] = answer.json()
        return created

    with kwok.nodes(1) as (node,):
        for kind in ("nodes", "pods"):
            assert release.api.get(f"{core}/{kind}").is_success
            assert release.api.get(f"{core}/{kind}", params={"watch": "true", "timeoutSeconds": 1}).is_success
        secure = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        pod = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
        container = {"name": "worker", "image": "any", "securityContext": secure}
        spec = {"schedulerName": "jupyter-runai", "securityContext": pod, "containers": [container]}
        made(f"{jobs}/configmaps", {"metadata": {"name": "agent"}, "binaryData": {"agent.pyz": ""}})
        uid = made(f"{jobs}/pods", {"metadata": {"name": name}, "spec": spec})["metadata"]["uid"]
        owners = [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}]
        belongs = {"metadata": {"name": "runai-one-1", "ownerReferences": owners}}
        made(f"{jobs}/secrets", {**belongs, "stringData": {"0": "token"}})
        made(f"{jobs}/services", {**belongs, "spec": {"clusterIP": "None", "selector": {"job": "one"}}})
        made(f"{jobs}/pods/{name}/binding", {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}})
        assert release.api.get(f"{jobs}/pods/{name}").json()["spec"]["nodeName"] == node
        made(f"{jobs}/pods/{name}/eviction", {"metadata": {"name": name}})
        assert release.api.delete(f"{jobs}/pods/{name}").status_code in (200, 404)
        secret = f"{jobs}/secrets/runai-one-1"
        eventually("its secret went with it", lambda: release.cluster.api.get(secret).status_code == 404)
        theirs = f"/api/v1/namespaces/{release.namespace}"
        release.cluster.create(f"{theirs}/pods", {"metadata": {"name": "jupyter-ann"}, "spec": spec})
        target = {"kind": "Node", "name": node}
        made(f"{theirs}/pods/jupyter-ann/binding", {"metadata": {"name": "jupyter-ann"}, "target": target})
        about = {"kind": "Pod", "name": "jupyter-ann", "namespace": release.namespace}
        made(f"{theirs}/events", {"metadata": {"generateName": "jupyter-ann."}, "involvedObject": about})
        assert release.api.delete(f"{theirs}/pods/jupyter-ann").is_success


ALLOWED = {
    (None, "nodes", "list"),
    (None, "nodes", "watch"),
    (None, "pods", "list"),
    (None, "pods", "watch"),
    (None, "tokenreviews", "create"),
    *(("jobs", "pods", verb) for verb in ("create", "get", "delete", "list", "watch")),
    *(("jobs", "resourcequotas", verb) for verb in ("list", "watch")),
    *(("release", "pods", verb) for verb in ("list", "watch", "delete")),
    *(("release", kind, "create") for kind in ("pods/binding", "events")),
    *(("jobs", kind, "create") for kind in ("pods/binding", "pods/eviction", "configmaps", "secrets", "services")),
}
"""All rights of the service account: in all namespaces (None), in that of the jobs, and in that of the release, which
also has the notebook servers."""

VERBS = (
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "impersonate",
    "bind",
    "escalate",
)
EVERYBODYS = {"selfsubjectreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews"}
"""Resources that every authenticated user may use."""


def test_the_service_account_may_do_nothing_else(release: Release) -> None:
    places = {None: "", "jobs": release.jobs, "release": release.namespace}
    assert _rights(release.cluster, release.api, places) == ALLOWED


@pytest.fixture(scope="module")
def others(cluster: Cluster) -> None:
    """The resource definitions of Kueue and KAI. They stay: to delete them takes minutes."""
    built = find("kueue").parent
    files = ("-f", str(built / "kueue-config" / "crd" / "bases"), "-f", str(built / "kai-crds"))
    cluster.kubectl("apply", "--server-side", *files)
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", *files)


@pytest.mark.parametrize(
    ("placement", "version", "resource", "verbs"),
    [
        ("kueue", "kueue.x-k8s.io/v1beta2", "workloads", {"list", "watch", "delete"}),
        ("kai", "scheduling.run.ai/v2alpha2", "podgroups", {"create", "delete"}),
    ],
    ids=["kueue", "kai"],
)
def test_where_others_place_jobs_it_has_the_objects_of_their_gangs_and_may_not_bind(
    release: Release, others: None, placement: str, version: str, resource: str, verbs: set[str]
) -> None:
    places = {None: "", "jobs": release.jobs, "release": release.namespace}
    none = f"/apis/{version}/namespaces/{release.jobs}/{resource}/none"
    own = {("jobs", resource, verb) for verb in verbs}
    release.upgrade({**release.values, "placement": {"scheduler": placement}})
    try:
        eventually("its new rights are in force", lambda: release.api.delete(none).status_code == 404)
        assert _rights(release.cluster, release.api, places) == ALLOWED - {("jobs", "pods/binding", "create")} | own
    finally:
        release.upgrade(release.values)
        eventually("they are withdrawn", lambda: release.api.delete(none).status_code == 403)


def test_the_node_agents_account_has_no_rights(release: Release) -> None:
    token = release.cluster.token_of(f"{release.namespace}-nodes", "runai-node-agent")
    with release.cluster.client(token) as api:
        assert _rights(release.cluster, api, {None: ""}) == set()


def _rights(cluster: Cluster, api: httpx.Client, places: Mapping[str | None, str]) -> set[tuple[str | None, str, str]]:
    """The rights of a client, in namespaces by a name of their own (None: in all)."""
    questions = [
        (place, group, resource, verb)
        for group, resource, namespaced in _resources(cluster)
        for place in (places if namespaced else (None,))
        for verb in VERBS
    ]
    assert len(questions) > 500

    def allowed(question: tuple[str | None, str, str, str]) -> bool:
        place, group, resource, verb = question
        kind, _, part = resource.partition("/")
        asked = {"namespace": places[place], "group": group, "resource": kind, "subresource": part, "verb": verb}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer = api.post(path, json={"spec": {"resourceAttributes": asked}})
        assert answer.is_success, answer.text
        return bool(answer.json()["status"]["allowed"])

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(allowed, questions))
    return {(p, r, v) for (p, _, r, v), yes in zip(questions, answers, strict=True) if yes}


def _resources(cluster: Cluster) -> set[tuple[str, str, bool]]:
    """Every resource and subresource of the API server: its group, its name, whether it is namespaced."""
    groups = cluster.api.get("/apis").json()["groups"]
    versions = [version["groupVersion"] for group in groups for version in group["versions"]]
    paths = [("/api/v1", ""), *((f"/apis/{version}", version.split("/")[0]) for version in versions)]
    found = [(group, each) for path, group in paths for each in cluster.api.get(path).json()["resources"]]
    return {(group, each["name"], each["namespaced"]) for group, each in found if each["name"] not in EVERYBODYS}


def test_other_namespaces_and_other_nodes_are_closed(release: Release) -> None:
    secret = {"metadata": {"name": "any"}, "stringData": {"a": "b"}}
    for namespace in (release.namespace, "kube-system"):
        path = f"/api/v1/namespaces/{namespace}/secrets"
        assert release.api.get(path).status_code == 403
        assert release.api.post(path, json=secret).status_code == 403
    assert release.api.get(f"/api/v1/namespaces/{release.jobs}/secrets").status_code == 403
    assert release.api.patch("/api/v1/nodes/any", json={}).status_code == 403


def test_an_upgrade_applies_values_and_uninstalling_keeps_jobs_and_state(release: Release) -> None:
    options = ("runai", f"--namespace={release.namespace}")
    values = {**release.values, "pool": {"projects": [{"name": "default", "members": ["*"]}]}}
    release.upgrade(values)
    config = f"/api/v1/namespaces/{release.namespace}/configmaps/runai"
    assert "default" in release.cluster.api.get(config).json()["data"]["pool.yaml"]
    helm(release.folder, "uninstall", *options, cluster=release.cluster)
    kept = [
        f"/api/v1/namespaces/{release.jobs}",
        f"/api/v1/namespaces/{release.namespace}/persistentvolumeclaims/runai",
    ]
    assert all(release.cluster.api.get(path).is_success for path in kept)
    assert release.cluster.api.get(config).status_code == 404
    helm(release.folder, "install", options[0], str(CHART), options[1], values=values, cluster=release.cluster)
    assert release.cluster.api.get(config).is_success
