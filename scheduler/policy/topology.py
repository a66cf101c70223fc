"""Domains of the topology as sets of nodes: `node` is the narrowest level, then the labels from narrow to wide."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.policy.nodes import NodeState
from scheduler.policy.sets import NO_NODES, NodeSet

NODE = "node"


class Topology:
    """`levels` names the labels from widest to narrowest; a rack of one block is not the rack of that name in
    another."""

    def __init__(self, nodes: Sequence[NodeState], levels: Sequence[str]) -> None:
        self.levels = tuple(reversed(levels))
        self._domains: dict[str, list[NodeSet]] = {}
        for depth, level in enumerate(levels, start=1):
            found: dict[tuple[str | None, ...], NodeSet] = {}
            for node in nodes:
                labels = node.spec.labels
                if level in labels:
                    name = tuple(labels.get(wider) for wider in levels[:depth])
                    found[name] = found.get(name, NO_NODES) | node.bit
            self._domains[level] = [found[name] for name in sorted(found, key=str)]

    def knows(self, level: str) -> bool:
        return level == NODE or level in self._domains

    def domains(self, level: str) -> list[NodeSet]:
        """The nodes of each domain of a level above the node."""
        return self._domains.get(level, [])
