"""Who is next: the queue of each project, and the order of the projects.

Jobs of one project that ask for the same share one queue and are judged once: when the first of a class can't start,
none of it can, and the class is closed for this cycle. The order of the projects is asked again after every placement,
and only along the path where something changed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from itertools import count

from scheduler.model import Milli
from scheduler.policy.projects import ProjectState
from scheduler.policy.workloads import RequestClass, WorkloadState

UrgencyKey = tuple[int, float, str]
OrderKey = tuple[bool, bool, int, float, float, Milli, float]


class JobClassQueue:
    """Jobs of one project that ask for the same, the first in line first; `at` is the next, `asked` what it takes.

    Jobs that have a place already are passed over, unless the queue is for jobs that `grow`.
    """

    __slots__ = ("asked", "at", "grow", "request", "workloads")

    def __init__(self, request: RequestClass, asked: Milli, jobs: list[WorkloadState], grow: bool = False) -> None:
        self.request = request
        self.asked = asked
        self.workloads = jobs
        self.grow = grow
        self.at = -1
        self.advance()

    @property
    def first(self) -> WorkloadState:
        return self.workloads[self.at]

    @property
    def over(self) -> bool:
        return self.at >= len(self.workloads)

    def advance(self) -> None:
        self.at += 1
        while not self.grow and not self.over and self.workloads[self.at].placement:
            self.at += 1


class ProjectQueue:
    """The job classes of one leaf project, as a heap by their first job."""

    __slots__ = ("heap", "project")

    def __init__(self, project: ProjectState, classes: Iterable[JobClassQueue]) -> None:
        self.project = project
        self.heap = [(jobs.first.urgency, number, jobs) for number, jobs in enumerate(classes)]
        heapq.heapify(self.heap)

    @property
    def next(self) -> JobClassQueue | None:
        return self.heap[0][2] if self.heap else None

    def advance(self) -> None:
        """The first job was placed."""
        _, number, jobs = self.heap[0]
        jobs.advance()
        if not jobs.over:
            heapq.heapreplace(self.heap, (jobs.first.urgency, number, jobs))
        else:
            heapq.heappop(self.heap)

    def close(self) -> None:
        """No job of the first class can be placed."""
        heapq.heappop(self.heap)


class ProjectOrder:
    """The projects that have jobs waiting, as a tree of heaps."""

    def __init__(self, queues: dict[str, ProjectQueue]) -> None:
        self.queues = queues
        steps = {step.name: step for queue in queues.values() for step in queue.project.path}
        self._heaps: dict[str | None, list[tuple[OrderKey, str, int, ProjectState]]] = {
            name: [] for name in (None, *steps)
        }
        self._next: dict[str, Milli] = {}
        self._keys: dict[str, OrderKey | None] = dict.fromkeys(steps)
        self._pushed = count()
        for step in sorted(steps.values(), key=lambda step: -step.depth):
            self._push(step)

    def _push(self, project: ProjectState) -> None:
        asked = self._asked(project)
        if asked is None:
            self._keys[project.name] = None
            return
        self._next[project.name] = asked
        key = order_key(project, asked)
        if key != self._keys.get(project.name):
            self._keys[project.name] = key
            heap = self._heaps[project.parent.name if project.parent else None]
            heapq.heappush(heap, (key, project.name, next(self._pushed), project))

    def _asked(self, project: ProjectState) -> Milli | None:
        """What the next job of the project, or of the first of its children, asks for."""
        if project.children:
            first = self._first(project.name)
            return None if first is None else self._next[first.name]
        queue = self.queues.get(project.name)
        jobs = queue.next if queue is not None else None
        return None if jobs is None else jobs.asked

    def _first(self, name: str | None) -> ProjectState | None:
        heap = self._heaps[name]
        while heap and self._keys[heap[0][1]] != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][3] if heap else None

    def next(self) -> ProjectQueue | None:
        """The queue whose next job is to be judged."""
        project = self._first(None)
        while project is not None and project.children:
            project = self._first(project.name)
        return None if project is None else self.queues[project.name]

    def changed(self, project: ProjectState) -> None:
        """What the project holds, or what its next job asks for, has changed."""
        for step in project.path:
            if step.name in self._keys:
                self._push(step)


def order_key(project: ProjectState, asked: Milli) -> OrderKey:
    """The key by which projects are compared: the first difference decides."""
    held, due = project.allocated, project.due
    after = held + asked
    return (
        held > project.share,
        after > project.guarantee,
        -project.priority,
        after / due if due else float("inf"),
        held / due if due else float("inf"),
        due,
        project.created,
    )
