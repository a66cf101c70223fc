"""A place in time for the gang that is first in line, so that a stream of small jobs does not starve it.

A reservation names the nodes in which the gang will fit, and the time. Both follow from the declared or learned end
times of the jobs there and from the GPUs that the gang may reclaim. If these are not enough, the nodes that lack the
fewest GPUs are reserved and the time is unknown.

A job that would still hold reserved nodes at that time may not use them, with two exceptions: jobs from which the gang
may reclaim its place, since an idle GPU would be of no use to it, and jobs inside their own guarantee, which no gang
may take. Both use reserved nodes only if they find no other place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduler.model import ONE, Milli, ProjectName, Settings, WorkloadId
from scheduler.policy.demands import Demand
from scheduler.policy.eligibility import Reclaim
from scheduler.policy.evictions import Eviction, Floor, Losses
from scheduler.policy.nodes import LATER, NodeState
from scheduler.policy.nodetrial import NodeTrial
from scheduler.policy.placement import Placer
from scheduler.policy.poolstate import PoolState
from scheduler.policy.projects import ProjectState
from scheduler.policy.sets import FIRST_NODE, NO_NODES, NodeSet, union
from scheduler.policy.topology import NODE
from scheduler.policy.workloads import RequestClass, WorkloadState

UNKNOWN = float("inf")

NODES = 256
"""How many nodes are looked at, those with most free GPUs first."""

Place = tuple[float, int, int]
"""When a node has one place more for the gang, how many GPUs are missing for it now, and the node's index."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """`nodes` are kept for a job until `at` (`UNKNOWN`: nobody can say)."""

    job: WorkloadState
    project: ProjectState
    at: float
    nodes: NodeSet


class Reservations:
    """The reservations of one cycle; `kept` names the job for which GPUs are reserved that another job could use.

    `expected` is where the first gang will run, or what will be reserved for it: jobs that are ahead of it avoid these
    nodes if they can.
    """

    def __init__(self, state: PoolState, placer: Placer, settings: Settings, now: float) -> None:
        self.state = state
        self.placer = placer
        self.settings = settings
        self.now = now
        self.made: list[Reservation] = []
        self.expected: Reservation | None = None
        self.kept: dict[tuple[ProjectName, RequestClass], str] = {}
        self.starts: dict[WorkloadId, float] = {}
        self._vain: dict[int, int] = {}
        self._known: dict[tuple[WorkloadState, ProjectState, Milli], Reclaim] = {}

    def open_to(self, project: ProjectState) -> bool:
        """Whether the first in line of this project may have one."""
        return len(self.made) < self.settings.reservations and project.allocated <= project.due

    def expect(self, job: WorkloadState, project: ProjectState, request: RequestClass) -> None:
        """A gang will be judged in this cycle: note where it will stand, or what will be reserved for it."""
        if not self._qualifies(request, project):
            return
        with self.state.trial():
            workers = self.placer.place(request, request.gang_size, LATER)
        if workers is None:
            self.expected = self._reserve(job, project, request)
        else:
            nodes = {self.state.nodes.by_name[worker.node].index for worker in workers}
            self.expected = Reservation(job, project, self.now, union(FIRST_NODE << index for index in nodes))

    def consider(self, job: WorkloadState, project: ProjectState) -> None:
        """Reserve for the first in line that fits nowhere although its project is due."""
        request = job.request
        if not self.open_to(project) or not self._qualifies(request, project):
            return
        if (
            any(reservation.job is job for reservation in self.made)
            or self._vain.get(request.fit_class) == self.state.gains
        ):
            return
        reservation = self.expected
        if reservation is None or reservation.job is not job or reservation.at <= self.now:
            reservation = self._reserve(job, project, request)
        if reservation is not None:
            self.expected = None
            self.made.append(reservation)
            if self.now < reservation.at != UNKNOWN:
                self.starts[job.id] = reservation.at
        else:
            self._vain[request.fit_class] = self.state.gains

    def _qualifies(self, request: RequestClass, project: ProjectState) -> bool:
        return bool(request.eligible) and request.gang_amount <= project.due and may_starve(request)

    # -- who keeps away -----------------------------------------------------------------------------------

    def kept_from(
        self, job: WorkloadState, project: ProjectState, moving_for: WorkloadState | None = None
    ) -> tuple[NodeSet, NodeSet]:
        """The reserved nodes that a job must keep away from, and those that it should."""
        must = should = NO_NODES
        for reservation in self.made:
            if reservation.job in (job, moving_for) or self._ends_in_time(job, reservation):
                continue
            if self._makes_way(job, project, job.request.gang_amount, reservation):
                should |= reservation.nodes
            else:
                must |= reservation.nodes
        expected = self.expected
        if expected is not None and expected.job not in (job, moving_for) and not expected.job.placement:
            should |= NO_NODES if self._ends_in_time(job, expected) else expected.nodes
        return must, should & ~must

    def kept_from_growing(self, job: WorkloadState, project: ProjectState) -> NodeSet:
        """The reserved nodes in which an elastic job must not grow."""
        nodes = NO_NODES
        for reservation in self.made:
            own = project is reservation.project and job.priority <= reservation.job.priority
            surplus = own and job.preemptible and not job.request.spec.min_runtime
            if not surplus and not self._may_be_taken_back(job, project, job.request.worker_amount, reservation):
                nodes |= reservation.nodes
        return nodes

    def _ends_in_time(self, job: WorkloadState, reservation: Reservation) -> bool:
        runtime = job.workload.request.expected_runtime
        return runtime is not None and self.now + runtime <= reservation.at != UNKNOWN

    def _makes_way(self, job: WorkloadState, project: ProjectState, asked: Milli, reservation: Reservation) -> bool:
        """Whether a job may be stopped for the other, or has a guarantee to its place."""
        if project is not reservation.project and project.allocated + asked <= project.guarantee:
            return True
        return self._may_be_taken_back(job, project, asked, reservation)

    def _may_be_taken_back(
        self, job: WorkloadState, project: ProjectState, asked: Milli, reservation: Reservation
    ) -> bool:
        """Whether the gang may have `asked` more of a project at any time: an idle GPU would be of no use to it."""
        if not job.preemptible or job.workload.request.min_runtime:
            return False
        owner = reservation.project
        if project is owner:
            return job.priority < reservation.job.priority
        name = (reservation.job, owner, owner.allocated)
        rules = self._known.get(name)
        if rules is None:
            rules = self._known[name] = self._rules(reservation.job, owner)
        floors = rules.floors(project)
        return floors is not None and all(step.allocated + asked > floor for step, floor in floors)

    def _rules(self, job: WorkloadState, project: ProjectState) -> Reclaim:
        return Reclaim(self.state, job, project, self.now, up_to=self.settings.reclaim)

    def note(self, request: RequestClass, project: ProjectState, kept_from: NodeSet) -> None:
        """A job would fit into reserved nodes: remember which job they are reserved for."""
        self.kept[project.name, request] = next(r.job.id for r in self.made if r.nodes & kept_from)

    # -- when and where -----------------------------------------------------------------------------------

    def _reserve(self, job: WorkloadState, project: ProjectState, request: RequestClass) -> Reservation | None:
        """The earliest time at which the gang fits, and where."""
        topology = self.placer.topology
        domains: Iterable[NodeSet] = (request.eligible,)
        if request.require not in (None, NODE):
            domains = [mask for domain in topology.domains(str(request.require)) if (mask := domain & request.eligible)]
        ends = Ends(self._rules(job, project), project, self._patient_until(job))
        found = [entry for mask in domains if (entry := self._in_domain(request, mask, ends)) is not None]
        if not found:
            return None
        at, _, nodes = min(found)
        return Reservation(job, project, at, nodes)

    def _patient_until(self, job: WorkloadState) -> float:
        """From when on a newcomer may take from others."""
        workload = job.workload
        since = workload.submitted if workload.preempted is None else workload.preempted
        return max(self.now, since + self.settings.preemption_delay)

    def _in_domain(self, request: RequestClass, mask: NodeSet, ends: Ends) -> tuple[float, int, NodeSet] | None:
        """When and in which nodes of `mask` the gang fits; at equal times the number of GPUs that are missing
        decides."""
        count = request.gang_size
        if request.groups:  # about as many of its largest workers: a time is an estimate, and so are the nodes
            count = -(-request.gang_amount // request.worker_amount) if request.worker_amount else request.gang_size
        together = count if request.require == NODE else 1
        count //= together
        places: list[Place] = []
        for node in most_free(self.state, mask, NODES):
            standing = self.state.standing.get(node.index, {}).values()
            places.extend(_places(node, request.demand, together, count, ends.of(standing), self.now))
        if len(places) < count:
            return None
        places.sort()
        chosen = places[:count]
        nodes = NO_NODES
        for _, _, index in chosen:
            nodes |= FIRST_NODE << index
        return chosen[-1][0], sum([missing for _, missing, _ in chosen]), nodes


class Ends:
    """When those who run will be gone, be it that they end or that a gang may take their places."""

    def __init__(self, rules: Reclaim, project: ProjectState, patient_until: float) -> None:
        self._rules = rules
        self._project = project
        self._patient_until = patient_until
        self._losses: Losses = {}
        self._known: dict[WorkloadState, float] = {}

    def of(self, jobs: Iterable[WorkloadState]) -> list[tuple[float, WorkloadId, WorkloadState]]:
        """The first end first."""
        ends = [(self._end(job), job.id, job) for job in sorted(jobs, key=_name)]
        ends.sort()
        return ends

    def _end(self, job: WorkloadState) -> float:
        end = self._known.get(job)
        if end is None:
            end = end_of(job, self._rules.now)
            if end > self._patient_until and self._may_be_taken(job):
                end = min(end, max(self._patient_until, job.protected_until))
            self._known[job] = end
        return end

    def _may_be_taken(self, job: WorkloadState) -> bool:
        if job.project is None or not job.preemptible:
            return False
        if job.project is self._project:
            return job.priority < self._rules.newcomer.priority
        if self._rules.floors(job.project) is None:
            return False
        eviction = Eviction(job, 0.0, job.amount)
        if not self._rules.may_lose(eviction, self._losses, Floor.CROSSED):
            return False
        for step in job.project.path:
            self._losses[step] = self._losses.get(step, 0) + job.amount
        return True


def _name(job: WorkloadState) -> str:
    return job.id


def _places(
    node: NodeState,
    demand: Demand,
    together: int,
    most: int,
    ends: Sequence[tuple[float, WorkloadId, WorkloadState]],
    now: float,
) -> list[Place]:
    """The places that the node will have for the gang, up to `most`."""
    trial, before, at = NodeTrial(node), node.keys[LATER][0], now
    places: list[Place] = []
    for end, _, job in (*ends, (UNKNOWN, "", None)):
        while len(places) < most and trial.fits(demand, together * (len(places) + 1)):
            places.append((at, max(0, demand.whole * together * (len(places) + 1) - before), node.index))
        if len(places) == most or job is None:
            break
        at = end
        trial.vacate(job)
    return places


def may_starve(request: RequestClass) -> bool:
    """Whether smaller ones can keep it waiting for ever: one GPU, or a share of one, is found soon enough."""
    return request.demand.whole > 0 and request.gang_amount > ONE


def most_free(state: PoolState, mask: NodeSet, most: int) -> list[NodeState]:
    """The nodes of `mask` with the most free GPUs, up to a bound."""
    buckets = state.nodes.buckets[LATER]
    found: list[NodeState] = []
    for key in sorted(buckets, reverse=True):
        for node in state.nodes.each(buckets[key] & mask):
            found.append(node)
            if len(found) == most:
                return found
    return found


def end_of(job: WorkloadState, now: float) -> float:
    """When a running job is expected to end."""
    started, runtime = job.workload.started, job.workload.request.expected_runtime
    if runtime is None:
        return UNKNOWN
    return max(now, (now if started is None else started) + runtime)
