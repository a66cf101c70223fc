"""The objects of an attempt, and what an administrator's template may change in them."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from traitlets import TraitError
from traitlets.config import Config

from scheduler.engines.agents.tokens import Worker
from scheduler.engines.kubernetes import manifests
from scheduler.engines.kubernetes.manifests import PodPlan
from scheduler.engines.kubernetes.settings import Kubernetes
from scheduler.engines.kubernetes.template import KEYS, merge
from scheduler.errors import Invalid
from scheduler.model import Container, JobId, Shape

PLAN = PodPlan(Worker(JobId("j-1"), 2, 3), "n1", 4, Shape(cpus=1500, memory=2048))

NOTHING_CHOSEN = Container()


def settings(**own: Any) -> Kubernetes:
    given = {"namespace": "team", "image": "team/train:1", "url": "http://runai:8000/", **own}
    return Kubernetes(config=Config(Kubernetes=given))


def made(size: int = 1, container: Container = NOTHING_CHOSEN, **own: Any) -> Any:
    about = {"runai.jupyter.org/user": "ann"}
    return manifests.pod(PLAN, size, 30.0, about, container, "runai-agent-0", settings(**own))


def test_a_pod_is_a_worker_with_its_agent() -> None:
    pod = made(size=8)
    assert pod["metadata"] == {
        "name": "runai-j-1-2-3",
        "namespace": "team",
        "labels": {
            "app.kubernetes.io/managed-by": "jupyter-runai",
            "runai.jupyter.org/instance": "default",
            "runai.jupyter.org/job": "j-1",
            "runai.jupyter.org/attempt": "2",
            "runai.jupyter.org/rank": "3",
        },
        "annotations": {"runai.jupyter.org/user": "ann"},
        "ownerReferences": [],
    }
    spec = pod["spec"]
    assert (spec["schedulerName"], spec["restartPolicy"], "nodeName" in spec) == ("jupyter-runai", "Never", False)
    assert (spec["hostname"], spec["subdomain"]) == ("worker-3", "runai-j-1-2")
    assert spec["terminationGracePeriodSeconds"] == 330
    (container,) = spec["containers"]
    assert container["command"] == ["python3", "-I", "-S", "/runai/agent/agent.pyz"]
    assert container["resources"] == {
        "requests": {"cpu": "1500m", "memory": "2048Mi"},
        "limits": {"nvidia.com/gpu": "4", "memory": "2048Mi"},
    }
    token = {"name": "RUNAI_AGENT_TOKEN", "valueFrom": {"secretKeyRef": {"name": "runai-j-1-2", "key": "3"}}}
    assert token in container["env"]


def test_a_pod_keeps_to_the_restricted_standard() -> None:
    spec = made()["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = spec["containers"]
    own = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert container["securityContext"] == own
    assert spec["automountServiceAccountToken"] is False
    assert {kind for volume in spec["volumes"] for kind in volume if kind != "name"} == {"configMap", "emptyDir"}


def test_a_template_adds_to_a_pod_and_changes_what_is_its_to_change() -> None:
    template = {
        "metadata": {"labels": {"team": "vision", "runai.jupyter.org/rank": "0"}, "annotations": {"a": "b"}},
        "spec": {
            "serviceAccountName": "training",
            "securityContext": {"runAsUser": 2000},
            "containers": [
                {
                    "name": "worker",
                    "image": "team/other:2",
                    "env": [{"name": "HF_HOME", "value": "/data"}, {"name": "RUNAI_AGENT_URL", "value": "http://evil"}],
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                }
            ],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        },
    }
    pod = made(pod_template=template)
    assert pod["metadata"]["labels"]["team"] == "vision"
    assert pod["metadata"]["labels"]["runai.jupyter.org/rank"] == "3"
    spec = pod["spec"]
    assert spec["serviceAccountName"] == "training"
    assert (spec["securityContext"]["runAsUser"], spec["securityContext"]["runAsNonRoot"]) == (2000, True)
    (container,) = spec["containers"]
    assert container["image"] == "team/other:2"
    env = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert (env["HF_HOME"], env["RUNAI_AGENT_URL"]) == ("/data", "http://runai:8000/")
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/data", "/runai/agent", "/runai/home"]
    assert [volume["name"] for volume in spec["volumes"]] == ["runai-home", "data", "runai-agent"]


def test_the_template_decides_where_work_is_stored() -> None:
    volume: dict[str, Any] = {"name": "runai-home", "emptyDir": None, "ephemeral": {"volumeClaimTemplate": {}}}
    found = made(pod_template={"spec": {"volumes": [volume]}})["spec"]["volumes"]
    assert {"name": "runai-home", "ephemeral": {"volumeClaimTemplate": {}}} in found


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ({"kind": "Pod"}, "no field 'kind'"),
        ({"metadata": {"name": "x"}}, "no field 'name'"),
        ({"spec": {"nodeName": "n1"}}, "nodeName cannot be set"),
        ({"spec": {"restartPolicy": "Always"}}, "restartPolicy cannot be set"),
        ({"spec": {"tolerations": []}}, "set c.Kubernetes.tolerations"),
        ({"spec": {"volumes": {"name": "x"}}}, "must be a list"),
        ({"spec": {"containers": [{"image": "x"}]}}, "each have 'name'"),
        ({"spec": {"containers": [{"name": "worker", "command": ["sh"]}]}}, "the job sets it"),
        ({"spec": {"containers": [{"name": "worker", "env": {"A": "1"}}]}}, "must be a list"),
        ({"spec": []}, "must be an object"),
    ],
)
def test_an_invalid_template_is_refused_with_a_sentence(template: dict[str, Any], words: str) -> None:
    with pytest.raises((Invalid, TraitError), match=words):
        made(pod_template=template)


@pytest.mark.parametrize("missing", ["image", "url"])
def test_missing_settings_are_named(missing: str) -> None:
    with pytest.raises(Invalid, match=f"set c.Kubernetes.{missing}"):
        settings(**{missing: ""}).check()


NAME = st.text(max_size=3).filter(lambda name: name not in KEYS)  # lists of these are checked before
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAME, inner, max_size=3),
    max_leaves=10,
)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return value


ENV = st.lists(
    st.fixed_dictionaries({"name": NAME}, optional={"value": NAME}), max_size=3, unique_by=itemgetter("name")
)
OBJECT = st.builds(
    lambda fields, env: fields | env, st.dictionaries(NAME, JSON), st.fixed_dictionaries({}, optional={"env": ENV})
)


@given(OBJECT, OBJECT)
def test_merging_twice_is_merging_once(base: dict[str, Any], over: dict[str, Any]) -> None:
    once = merge(base, over)
    assert merge(once, over) == once
    assert merge(base, {}) == base
    assert all(name not in once for name, value in over.items() if value is None)


def test_the_belongings_of_a_gang_go_with_its_first_pod() -> None:
    owners = [manifests.owner("runai-j-1-2-0", "uid-0")]
    secret = manifests.secret(JobId("j-1"), 2, ["first", "second"], owners, settings())
    assert secret["stringData"] == {"0": "first", "1": "second"}
    assert secret["metadata"]["ownerReferences"] == owners
    service = manifests.service(JobId("j-1"), 2, owners, settings())
    assert service["metadata"]["ownerReferences"] == owners
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"].items() <= made()["metadata"]["labels"].items()
    assert manifests.address(PLAN.worker, "team") == "worker-3.runai-j-1-2.team.svc"


def test_another_agent_has_another_name() -> None:
    one, other = (manifests.agent_config_map(content, settings()) for content in (b"a", b"b"))
    assert one["metadata"]["name"] != other["metadata"]["name"]
    assert one["immutable"] is True
