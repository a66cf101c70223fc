"""A node whose kubelet is simulated by a test: pods bound to it run as processes of this machine.

The objects, the API server and the agent in a pod's container are real. This kubelet implements what engines rely on:
a pod's states, SIGTERM, the grace period, the termination message, and that a deleted pod is gone when its processes
are.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from scheduler.engines.kubernetes.api import Api, ApiError
from scheduler.engines.kubernetes.mirror import Mirror
from scheduler.engines.local.processes import ended

MERGE_PATCH = "application/merge-patch+json"

HEARTBEAT = 5.0
"""In seconds; the control plane's limit is 40."""

Pod = Mapping[str, Any]


class Kubelet:
    """`folder` has a folder for each container. Images are ignored: this machine is the image.

    It sees the pods of one namespace.
    """

    def __init__(self, kubeconfig: Path, name: str, namespace: str, folder: Path, gpus: int = 64) -> None:
        self.name = name
        self.folder = folder
        self._gpus = gpus
        self.api = Api(str(kubeconfig))
        self._pods = Mirror(self.api, f"/api/v1/namespaces/{namespace}/pods", dict, self._see)
        self._started: dict[str, asyncio.Task[None]] = {}
        self._agents: dict[str, subprocess.Popen[bytes]] = {}
        self._deadlines: dict[str, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        await self.api.open()
        amounts = {"cpu": "64", "memory": "256Gi", "pods": "256", "nvidia.com/gpu": str(self._gpus)}
        node = {"metadata": {"name": self.name}, "status": {"capacity": amounts, "allocatable": amounts}}
        await self.api.create("/api/v1/nodes", node)
        self._run(self._beat())
        await self._pods.open()
        while await self._tainted():  # noqa: ASYNC110
            await asyncio.sleep(0.02)

    async def close(self) -> None:
        """Switch the machine off and remove it."""
        await self._pods.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for agent in self._agents.values():
            agent.kill()
            agent.wait()
        await self.api.delete(f"/api/v1/nodes/{self.name}")
        await self.api.close()

    def kill(self, pod: str) -> None:
        """Kill the container of a pod."""
        self._agents[pod].kill()

    def shown(self, pod: str) -> str:
        """The output of `kubectl logs` for a pod."""
        return (self.folder / pod / "log").read_text()

    def has_left_its_end(self, pod: str) -> bool:
        """Whether the agent of a pod has written its termination message."""
        end = self.folder / pod / "end"
        return end.exists() and bool(end.read_text())  # it is created first, and written then

    # -- the node -------------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        while True:
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            ready = {
                "type": "Ready",
                "status": "True",
                "reason": "KubeletReady",
                "lastHeartbeatTime": now,
                "lastTransitionTime": now,
            }
            status = {"status": {"conditions": [ready]}}
            await self.api.call("PATCH", f"/api/v1/nodes/{self.name}/status", status, content=MERGE_PATCH)
            await asyncio.sleep(HEARTBEAT)

    async def _tainted(self) -> bool:
        return bool((await self.api.get(f"/api/v1/nodes/{self.name}"))["spec"].get("taints"))

    # -- its pods -------------------------------------------------------------------------------------------

    def _see(self, before: Pod | None, after: Pod | None) -> None:
        if after is None or after["spec"].get("nodeName") != self.name:
            return
        uid = after["metadata"]["uid"]
        if uid not in self._started:
            self._started[uid] = self._run(self._live(after))
        elif "deletionTimestamp" in after["metadata"]:
            self._stop(after)

    async def _live(self, pod: Pod) -> None:
        """Run a pod from its start to its end."""
        name = pod["metadata"]["name"]
        container = pod["spec"]["containers"][0]
        home = self.folder / name
        home.mkdir(parents=True)
        await self._tell(pod, "Pending", {"waiting": {"reason": "ContainerCreating"}})
        (home / "agent.pyz").write_bytes(await self._agent(pod))
        env = {entry["name"]: await self._value(pod, entry) for entry in container["env"]}
        (home / "home").mkdir()
        self._agents[name] = agent = _container(home, env)
        await self._tell(pod, "Running", {"running": {}})
        if "deletionTimestamp" in (await self._now(pod))["metadata"]:
            self._stop(await self._now(pod))
        await ended(agent.pid, lambda: agent.poll() is None)
        code = agent.wait()
        message = (home / "end").read_text() if (home / "end").exists() else ""
        status = code if code >= 0 else 128 - code
        terminated = {"exitCode": status, "reason": "Error" if status else "Completed", "message": message}
        await self._tell(pod, "Failed" if status else "Succeeded", {"terminated": terminated})
        if "deletionTimestamp" in (await self._now(pod))["metadata"]:
            await self.api.delete(_path(pod), grace=0)

    def _stop(self, pod: Pod) -> None:
        """SIGTERM now, SIGKILL after the grace period; an earlier deadline holds."""
        name = pod["metadata"]["name"]
        agent = self._agents.get(name)
        if agent is None or agent.poll() is not None:
            return
        end = time.monotonic() + pod["metadata"].get("deletionGracePeriodSeconds", 0)
        if end >= self._deadlines.get(name, float("inf")):
            return
        self._deadlines[name] = end
        agent.send_signal(signal.SIGTERM)
        asyncio.get_running_loop().call_later(end - time.monotonic(), _kill, agent)

    async def _agent(self, pod: Pod) -> bytes:
        (volume,) = (each for each in pod["spec"]["volumes"] if "configMap" in each)
        namespace = pod["metadata"]["namespace"]
        found = await self.api.get(f"/api/v1/namespaces/{namespace}/configmaps/{volume['configMap']['name']}")
        return base64.b64decode(found["binaryData"]["agent.pyz"])

    async def _value(self, pod: Pod, entry: Mapping[str, Any]) -> str:
        if "value" in entry:
            return str(entry["value"])
        reference = entry["valueFrom"]["secretKeyRef"]
        namespace = pod["metadata"]["namespace"]
        found = await self.api.get(f"/api/v1/namespaces/{namespace}/secrets/{reference['name']}")
        return base64.b64decode(found["data"][reference["key"]]).decode()

    async def _tell(self, pod: Pod, phase: str, state: Mapping[str, Any]) -> None:
        container = {"name": "worker", "image": "any", "imageID": "", "ready": False, "restartCount": 0, "state": state}
        status = {"status": {"phase": phase, "containerStatuses": [container]}}
        with contextlib.suppress(ApiError):  # it may be gone
            await self.api.call("PATCH", f"{_path(pod)}/status", status, content=MERGE_PATCH)

    async def _now(self, pod: Pod) -> Pod:
        try:
            now: Pod = await self.api.get(_path(pod))
        except ApiError:
            return {"metadata": {}}
        return now

    def _run(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _container(home: Path, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    with (home / "log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(home / "agent.pyz")],
            cwd=home / "home",
            env={"PATH": os.defpath, **env, "RUNAI_AGENT_END": str(home / "end")},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _kill(agent: subprocess.Popen[bytes]) -> None:
    """Kill a container with all its processes."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in (*psutil.Process(agent.pid).children(recursive=True), psutil.Process(agent.pid)):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def _path(pod: Pod) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
