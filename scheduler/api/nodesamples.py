"""`/node-samples`: the samples of the GPUs of a node, from the node's agent.

What must hold: the token determines the node, never the body. Every request may be repeated.
"""

from __future__ import annotations

from scheduler.api.access import Caller, Scope
from scheduler.api.auth import token_of
from scheduler.api.base import ApiHandler, unauthenticated
from scheduler.api.endpoint import endpoint
from scheduler.engines.backend import NodeAgents
from scheduler.model import NodeName, UserName
from scheduler.schema.nodesamples import GpuReading, NodeSample, NodeSamples, NodeSamplesTaken
from scheduler.telemetry import GpuProcess, GpuSample, Reading, Throttle


class NodeSamplesHandler(ApiHandler):
    node: NodeName

    async def authenticate(self, scope: Scope) -> Caller:
        token, agents = token_of(self.request), self.api.node_agents
        node = None if agents is None or token is None else await agents.node(token)
        if node is None:
            raise unauthenticated(self)
        self.node = node
        return Caller(UserName(f"node {node}"), frozenset({scope}))

    @property
    def agents(self) -> NodeAgents:
        assert self.api.node_agents is not None
        return self.api.node_agents

    @endpoint("Report the GPUs of a node", Scope.NODE, body=NodeSamples, answer=NodeSamplesTaken)
    async def post(self) -> None:
        body = self.body(NodeSamples)
        every = await self.agents.take(self.node, body.run, [_reading(each) for each in body.samples])
        self.answer(NodeSamplesTaken(every=every))


def _reading(sample: NodeSample) -> Reading:
    return Reading(sample.number, sample.age, {gpu.device: None if gpu.lost else _sample(gpu) for gpu in sample.gpus})


def _sample(gpu: GpuReading) -> GpuSample:
    return GpuSample(
        utilisation=gpu.utilisation,
        used=gpu.used,
        memory=gpu.memory,
        power=gpu.power,
        temperature=gpu.temperature,
        throttle=None if gpu.throttle is None else Throttle(gpu.throttle),
        corrected=gpu.corrected,
        uncorrected=gpu.uncorrected,
        xids=tuple(gpu.xids),
        reset_required=gpu.reset_required,
        processes=tuple(GpuProcess(each.pid, each.memory, pod=each.pod) for each in gpu.processes),
    )
