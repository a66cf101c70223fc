"""The queue of each project, and the order of the projects.

Jobs of one project that ask for the same share one queue and are judged once: when the first of a class can't start,
none of it can, and the class is closed for this cycle. The order of the projects is asked again after every placement,
and only along the path where something changed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from itertools import count

from scheduler.model import Milli, ProjectName
from scheduler.policy.projects import ProjectState
from scheduler.policy.workloads import RequestClass, UrgencyKey, WorkloadState

OrderKey = tuple[bool, bool, int, float, float, Milli, float]


class JobClassQueue:
    """Jobs of one project that ask for the same, the first in line first; `at` is the next, `asked` what it takes.

    Jobs that have a place already are skipped, unless the queue is for jobs that `grow`.
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
        workloads = self.workloads
        self.at += 1
        while not self.grow and self.at < len(workloads) and workloads[self.at].placement:
            self.at += 1


class ProjectQueue:
    """The job classes of one leaf project, as a heap by their first job.

    In the order `served` a class is that of one user, and who holds less of the project comes first.
    """

    __slots__ = ("_returns", "heap", "project")

    def __init__(self, project: ProjectState, classes: Iterable[JobClassQueue]) -> None:
        self.project = project
        self.heap = [(self._key(jobs), number, jobs) for number, jobs in enumerate(classes)]
        heapq.heapify(self.heap)
        self._returns = project.returns

    def _key(self, jobs: JobClassQueue) -> UrgencyKey:
        first, held = jobs.first, self.project.held
        return first.urgency_among(held) if held else first.urgency

    @property
    def next(self) -> JobClassQueue | None:
        if self.project.held is not None:
            self._order_again()
        return self.heap[0][2] if self.heap else None

    def _order_again(self) -> None:
        """What users hold has changed since: bring the first class to the top."""
        heap = self.heap
        if self._returns != self.project.returns:
            self._returns = self.project.returns
            heap[:] = [(self._key(jobs), number, jobs) for _, number, jobs in heap]
            heapq.heapify(heap)
        while heap and (key := self._key(heap[0][2])) != heap[0][0]:
            heapq.heapreplace(heap, (key, *heap[0][1:]))

    def advance(self, jobs: JobClassQueue) -> None:
        """The first job of a class was placed."""
        jobs.advance()
        if jobs.over:
            self._take_out(jobs)
        elif self.heap[0][2] is jobs:
            heapq.heapreplace(self.heap, (self._key(jobs), self.heap[0][1], jobs))
        else:
            number = self._take_out(jobs)
            heapq.heappush(self.heap, (self._key(jobs), number, jobs))

    def close(self, jobs: JobClassQueue) -> None:
        """No job of a class can be placed."""
        self._take_out(jobs)

    def _take_out(self, jobs: JobClassQueue) -> int:
        """The number of a class that was the next one; another one may be next since somebody was stopped for it."""
        if self.heap[0][2] is jobs:
            return heapq.heappop(self.heap)[1]
        at, number = next((at, number) for at, (_, number, other) in enumerate(self.heap) if other is jobs)
        del self.heap[at]
        heapq.heapify(self.heap)
        return number


class ProjectOrder:
    """The projects that have jobs waiting, as a tree of heaps."""

    def __init__(self, queues: dict[ProjectName, ProjectQueue]) -> None:
        self.queues = queues
        steps = {step.name: step for queue in queues.values() for step in queue.project.path}
        self._heaps: dict[ProjectName | None, list[tuple[OrderKey, ProjectName, int, ProjectState]]] = {
            name: [] for name in (None, *steps)
        }
        self._next: dict[ProjectName, Milli] = {}
        self._keys: dict[ProjectName, OrderKey | None] = dict.fromkeys(steps)
        self._pushed = count()
        for step in sorted(steps.values(), key=lambda step: -step.depth):
            self._push(step)

    def _push(self, project: ProjectState) -> None:
        name, asked = project.name, self._asked(project)
        if asked is None:
            self._keys[name] = None
            return
        self._next[name] = asked
        key = order_key(project, asked)
        if key != self._keys[name]:
            self._keys[name] = key
            heap = self._heaps[project.parent.name if project.parent else None]
            heapq.heappush(heap, (key, name, next(self._pushed), project))

    def _asked(self, project: ProjectState) -> Milli | None:
        """What the next job of the project, or of the first of its children, asks for."""
        if project.children:
            first = self._first(project.name)
            return None if first is None else self._next[first.name]
        queue = self.queues.get(project.name)
        jobs = queue.next if queue is not None else None
        return None if jobs is None else jobs.asked

    def _first(self, name: ProjectName | None) -> ProjectState | None:
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
