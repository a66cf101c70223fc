"""A pool over time: jobs and sessions arrive and end, nodes fail and return, guarantees change, plans are carried out.

A stopped workload takes a while to end, as in production: until then it holds its place, and the nominated one waits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from scheduler.model import (
    Environment,
    ForeignUse,
    GpuType,
    JobId,
    Node,
    NodeName,
    Project,
    ProjectName,
    ReclaimUpTo,
    Request,
    Settings,
    SurplusOrder,
    Workload,
)
from scheduler.policy import Action, Plan, Snapshot
from scheduler.policy.play import after
from tests.policy.pools import requests

KINDS = (
    *("job", "job", "job", "job", "end", "end", "gone", "gone"),
    *("session", "save", "wait", "node", "lose", "project", "settings"),
)


NODE_CHANGES = ("node", "node", "lose", "lose", "come", "foreign", "foreign")
"""Events of nodes: also while jobs run on them, and with foreign use of GPUs that jobs hold."""


@dataclass(frozen=True)
class Event:
    """An event: `kind`, its target `which`, and its delay `after` in seconds."""

    kind: str
    which: int
    after: float
    request: Request


def leaves(snapshot: Snapshot) -> list[ProjectName]:
    parents = {project.parent for project in snapshot.pool.projects}
    return [project.name for project in snapshot.pool.projects if project.name not in parents]


@st.composite
def events(draw: st.DrawFn, leaves: list[ProjectName], most: int = 25, kinds: tuple[str, ...] = KINDS) -> list[Event]:
    """The events of a pool with these leaf projects."""
    return [
        Event(
            draw(st.sampled_from(kinds)),
            draw(st.integers(0, 50)),
            float(draw(st.sampled_from([0, 1, 30, 100, 700]))),
            draw(requests(leaves)),
        )
        for _ in range(draw(st.integers(1, most)))
    ]


class Stream:
    """`snapshot` is the pool's current state. Every event and every executed plan replaces it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.nodes = snapshot.nodes
        self.ended: list[str] = []
        self._count = 0

    def carry_out(self, plan: Plan) -> None:
        """As the controller does: starts that wait for victims are nominations, and victims are stopping."""
        self.snapshot = replace(
            self.snapshot,
            workloads=tuple(self._after(w, plan) for w in self.snapshot.workloads),
        )

    def _after(self, workload: Workload, plan: Plan) -> Workload:
        decision, now = plan.decisions[workload.id], self.snapshot.now
        promised = plan.promises.get(workload.id)
        match decision.action:
            case Action.STOP | Action.MOVE:
                return replace(workload, stopping=True, nomination=decision.placement)
            case Action.GROW if decision.after:
                return replace(workload, stopping=True, nomination=decision.placement)
            case Action.KEEP if workload.stopping:
                return replace(workload, nomination=decision.placement)
            case Action.START | Action.WAIT if promised or decision.action is Action.WAIT:
                return replace(workload, nomination=promised or ())
            case _:
                return after(workload, decision, now)

    def happens(self, event: Event) -> None:
        """The pool after an event."""
        self.snapshot = replace(self.snapshot, now=self.snapshot.now + event.after)
        match event.kind:
            case "job":
                self._add(event.request)
            case "session":
                self._add(replace(event.request, project=ProjectName(""), environment=Environment.BUILD, groups=()))
            case "end":
                self._end(event.which)
            case "gone":
                self._gone(event.which)
            case "save":
                self._with(event.which, "running", lambda w: replace(w, checkpointed=self.snapshot.now))
            case "node":
                self._turn(event.which)
            case "lose":
                self._lose(event.which)
            case "come":
                self._come(event.which)
            case "foreign":
                self._use(event.which)
            case "project":
                self._promise(event.which, event.request)
            case "settings":
                self._set(event.which)

    def _add(self, request: Request) -> None:
        self._count += 1
        new = Workload(JobId(f"s{self._count:03}"), request, submitted=self.snapshot.now)
        self.snapshot = replace(self.snapshot, workloads=(*self.snapshot.workloads, new))

    def _of(self, state: str) -> list[Workload]:
        return [w for w in self.snapshot.workloads if _state(w) == state]

    def _with(self, which: int, state: str, change: Any) -> None:
        found = self._of(state)
        if not found:
            return
        chosen = found[which % len(found)]
        changed = (change(w) if w is chosen else w for w in self.snapshot.workloads)
        self.snapshot = replace(self.snapshot, workloads=tuple(w for w in changed if w is not None))

    def _end(self, which: int) -> None:
        self._with(which, "running", lambda w: self.ended.append(w.id))

    def _gone(self, which: int) -> None:
        """A stopping workload is queued again, with its age."""
        now = self.snapshot.now
        self._with(
            which,
            "stopping",
            lambda w: Workload(w.id, w.request, w.submitted, preempted=now, nomination=w.nomination),
        )

    def _turn(self, which: int) -> None:
        """Cordon a node, or uncordon it."""
        node = self.nodes[which % len(self.nodes)]
        self._nodes([replace(n, schedulable=not n.schedulable) if n.name == node.name else n for n in self.nodes])

    def _lose(self, which: int) -> None:
        """Remove a node with its workloads, or bring it back."""
        name = self.nodes[which % len(self.nodes)].name
        there = {node.name for node in self.snapshot.nodes}
        left = there ^ {name}
        self._nodes(self.nodes, left)

    def _come(self, which: int) -> None:
        """Add a new node, or bring a lost one back at the end of the list."""
        there = {node.name for node in self.snapshot.nodes}
        lost = [node for node in self.nodes if node.name not in there]
        new = (
            lost[which % len(lost)]
            if lost
            else Node(NodeName(f"m{len(self.nodes)}"), (1, 4)[which % 2], GpuType("A100"))
        )
        nodes = [node for node in self.nodes if node is not new]
        self._nodes([*nodes, new], there | {new.name})

    def _use(self, which: int) -> None:
        """Change the foreign use of a node, also of what jobs hold."""
        node = self.nodes[which % len(self.nodes)]
        shares = [(gpu, (250, 1000)[(which + gpu) % 2]) for gpu in range(node.gpus) if which >> gpu & 2]
        used = ForeignUse(
            tuple(shares), unnumbered=500 * (which % 5), cpus=1000 * (which % 3), memory=8192 * (which % 4)
        )
        used = ForeignUse() if node.foreign.amount else used
        self._nodes([replace(n, foreign=used) if n.name == node.name else n for n in self.nodes])

    def _nodes(self, nodes: tuple[Node, ...] | list[Node], left: set[NodeName] | None = None) -> None:
        there = {node.name for node in self.snapshot.nodes} if left is None else left
        self.nodes = tuple(nodes)
        back = there - {node.name for node in self.snapshot.nodes}
        work = tuple(
            w for w in self.snapshot.workloads if not (w.running and any(p.node in back for p in w.placement))
        )  # a node returns empty
        self.snapshot = replace(self.snapshot, nodes=tuple(n for n in self.nodes if n.name in there), workloads=work)

    def _promise(self, which: int, request: Request) -> None:
        """Change a project's guarantee, limit and weight."""
        pool = self.snapshot.pool
        chosen = pool.projects[which % len(pool.projects)]
        guaranteed = (0, 1000, 4000, None)[which % 4]
        limit = None if request.preemptible or guaranteed is None else max(guaranteed, 3000)
        changed: tuple[Project, ...] = tuple(
            replace(p, guaranteed=guaranteed, limit=limit) if p is chosen else p for p in pool.projects
        )
        usage = {**self.snapshot.usage, chosen.name: 0.3 * (which % 3)}
        self.snapshot = replace(self.snapshot, pool=replace(pool, projects=changed), usage=usage)

    def _set(self, which: int) -> None:
        settings = Settings(
            reclaim=(ReclaimUpTo.FAIR_SHARE, ReclaimUpTo.GUARANTEE)[which % 2],
            reservations=which // 2 % 2,
            time_aware=(0.0, 1.0)[which // 4 % 2],
            lending=bool(which // 8 % 2),
            preemption_delay=(0.0, 100.0)[which // 16 % 2],
            surplus=(SurplusOrder.WEIGHT, SurplusOrder.SERVED)[which // 32 % 2],
            service_levels=(0.2, 1.0),
        )
        self.snapshot = replace(self.snapshot, pool=replace(self.snapshot.pool, settings=settings))


def _state(workload: Workload) -> str:
    if workload.stopping:
        return "stopping"
    return "running" if workload.running else "waiting"
