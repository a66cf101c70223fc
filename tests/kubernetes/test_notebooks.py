"""Build and train on one real cluster: the scheduler places the pods of users' servers and of their jobs."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.hub.notebook import Notebook
from tests.hub.running import TOKEN, eventually
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.hub import KubeHub, running_hub
from tests.kubernetes.node import SHARED, Node, running_node

PROFILES = """
c.JupyterHub.allow_named_servers = True
c.KubeSpawner.profile_list = [
    {"display_name": "Usual"},
    {"display_name": "Half", "kubespawner_override": {"gpus": 0.5}},
    {"display_name": "Two", "kubespawner_override": {"gpus": 2}},
    {"display_name": "As with KubeSpawner", "kubespawner_override": {"extra_resource_limits": {"nvidia.com/gpu": "2"}}},
]
"""


@pytest.fixture(scope="module")
def hub(cluster: Cluster, node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeHub]:
    with (
        running_node(cluster, tmp_path_factory.mktemp("build"), gpus=2, place=2) as build,
        running_hub(tmp_path_factory.mktemp("hub"), cluster, build, node, more=PROFILES) as hub,
    ):
        yield hub


def scheduler_pid(hub: KubeHub) -> int:
    return int(json.loads((hub.folder / "pool" / "endpoint.json").read_text())["pid"])


def is_served(hub: KubeHub) -> bool:
    """Whether the scheduler responds, and knows what holds its GPUs."""
    try:
        return httpx.get(f"{hub.url}/services/runai/readyz").is_success
    except httpx.TransportError:
        return False


async def test_a_cell_of_a_pod_runs_in_another_pod(hub: KubeHub) -> None:
    hub.add("ann")
    hub.spawn("ann")
    (pod,) = hub.pods(hub.notebooks)
    assert pod["spec"]["schedulerName"] == "jupyter-runai", "it is in the notebooks_namespace of the scheduler"
    notebook = Notebook(f"{hub.url}/user/ann", TOKEN)
    await notebook.run("import os; n = 20")
    assert (await notebook.run("os.environ['RUNAI_GPUS'], os.uname().nodename")).value == "('0', 'jupyter-ann')"
    cell = await notebook.run(
        "%%runai_train --gpus 2 --out answer,host\n"
        "import os\nhost, answer = os.uname().nodename, n * 2 + 2\nprint('on GPUs', os.environ['RUNAI_GPUS'])"
    )
    assert not cell.error, (cell, hub.log.read_text())
    assert "on GPUs 0,1" in cell.printed
    assert (await notebook.run("answer")).value == "42"
    assert (await notebook.run("host[:8]")).value == "'runai-j-'"
    hub.stop_server("ann")
    assert hub.session("ann") is None
    assert not hub.pods(hub.notebooks)


def test_a_profile_says_how_many_gpus(hub: KubeHub) -> None:
    hub.add("bea")
    hub.spawn("bea", profile="two")
    (pod,) = hub.pods(hub.notebooks)
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    pool = hub.scheduler.pool()
    assert (pool.build.allocated, pool.build.foreign) == (2, 0)
    hub.stop_server("bea")
    assert hub.scheduler.pool().build.allocated == 0


def test_servers_share_a_gpu_as_the_device_plugin_divides_it(hub: KubeHub) -> None:
    def divided(parts: int) -> bool:
        return {node.gpu_parts for node in hub.scheduler.pool().nodes if node.environment == "build"} == {parts}

    with hub.build.sharing(2, "mps"):
        eventually("the scheduler knows that its GPU is divided", lambda: divided(2))
        for user, profile in (("fay", "half"), ("gus", "usual")):
            hub.add(user)
            hub.spawn(user, profile=profile)
        limits = [pod["spec"]["containers"][0]["resources"]["limits"] for pod in hub.pods(hub.notebooks)]
        assert limits == [{SHARED: "1"}] * 2
        pool = hub.scheduler.pool()
        assert (pool.build.gpus, pool.build.allocated, pool.build.foreign) == (1, 1, 0)
        for user in ("fay", "gus"):
            hub.stop_server(user)
    eventually("it is whole again", lambda: divided(1))


def test_a_user_who_is_refused_or_waits_sees_the_reason_and_gets_no_pod(hub: KubeHub) -> None:
    for user in ("one", "half", "cid", "nobody"):
        hub.add(user)
    with pytest.raises(AssertionError, match="one's build quota is 1 GPU; ask for no more"):
        hub.spawn("one", profile="as-with-kubespawner")
    with pytest.raises(AssertionError, match="only whole GPUs are available"):
        hub.spawn("half", gpus=0.5)
    hub.spawn("cid", profile="two")
    hub.api.post("/users/one/server", json={"gpus": 1}).raise_for_status()
    eventually("one waits in line", lambda: [each.user for each in hub.scheduler.session_list().line] == ["one"])
    refused = hub.api.post("/users/cid/servers/second", json={"gpus": 1})
    assert "quota" in refused.json()["message"]
    (pod,) = hub.pods(hub.notebooks)
    assert pod["metadata"]["name"] == "jupyter-cid"
    hub.stop_server("one")
    hub.stop_server("cid")
    hub.spawn("nobody")
    (pod,) = hub.pods(hub.notebooks)
    assert "runai.jupyter.org/session" not in pod["metadata"]["labels"], "it has no GPU, so it is none of ours"
    hub.stop_server("nobody")


def test_the_lease_is_correct_after_any_kill(hub: KubeHub) -> None:
    hub.add("dan")
    hub.spawn("dan")
    session = hub.session("dan")
    assert session is not None
    os.kill(scheduler_pid(hub), signal.SIGKILL)
    eventually("there is another scheduler", lambda: is_served(hub))
    hub.kill()
    hub.start()
    server, found = hub.server("dan"), hub.session("dan")
    assert server is not None
    assert server["ready"]
    assert found is not None
    assert (found.id, found.workers) == (session.id, session.workers)
    pool = hub.scheduler.pool()
    assert (pool.build.allocated, pool.build.foreign) == (1, 0)
    hub.stop_server("dan")
    assert hub.session("dan") is None


def test_a_server_of_a_hub_that_was_killed_while_it_started_has_its_lease_or_is_ended(hub: KubeHub) -> None:
    hub.add("eve")
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(hub.api.post, "/users/eve/server", json={})
        eventually("the server has its pod", lambda: hub.pods(hub.notebooks))
        hub.kill()
        asked.exception()
    hub.start()

    def settled() -> bool:
        server, session = hub.server("eve"), hub.session("eve")
        if server is None or not server["ready"]:
            return session is None and not hub.pods(hub.notebooks)
        return session is not None

    eventually("it is one or the other", settled)
    if hub.server("eve") is not None:
        hub.stop_server("eve")
    eventually("nothing of it is left", lambda: hub.session("eve") is None and not hub.pods(hub.notebooks))
