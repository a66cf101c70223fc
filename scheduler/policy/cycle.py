"""One scheduling cycle: sessions first, then jobs in the order of their projects, then elastic jobs grow.

The next job gets GPUs that are free now, or else GPUs that are being released, or else GPUs that it may reclaim from
other projects or preempt from jobs of lower priority in its own. If none of these give it a place, its request class is
closed for this cycle. Classes that could not get a place in any of these ways are not opened.
"""

from __future__ import annotations

from itertools import chain

from scheduler.model import Milli, ProjectName, WorkerPlacement, WorkloadId
from scheduler.policy.blocking import Blocked, names
from scheduler.policy.consolidation import settle_elsewhere
from scheduler.policy.decisions import Decisions
from scheduler.policy.evictions import Eviction
from scheduler.policy.figures import Frozen, project_figures
from scheduler.policy.growth import Growth
from scheduler.policy.lookahead import LookAhead
from scheduler.policy.nodes import LATER, NOW
from scheduler.policy.nominations import honour_nominations
from scheduler.policy.partitions import Partition
from scheduler.policy.placement import Placer
from scheduler.policy.plannerstate import PlannerState, Waiting
from scheduler.policy.positions import held_by_user
from scheduler.policy.preemptor import Preemptor, breaks_guarantee
from scheduler.policy.projects import ProjectState
from scheduler.policy.queues import JobClassQueue, ProjectOrder, ProjectQueue
from scheduler.policy.reservation import Reservations, may_starve
from scheduler.policy.service import paused_for
from scheduler.policy.sessions import seat_sessions
from scheduler.policy.sets import NO_NODES, NodeSet
from scheduler.policy.types import Action, Decision, Plan
from scheduler.policy.victims import Budget, SearchResult
from scheduler.policy.wakeup import Wakeup
from scheduler.policy.why import Why
from scheduler.policy.workloads import RequestClass, WorkloadState

STALENESS = 60.0
"""How long a gang may run below its minimum, in seconds."""

LOOKS = 46_000
"""Once all searches for victims of one cycle have looked at so many candidates, no other begins."""


class Cycle:
    """Makes one plan, and leaves the planner's state as it is after the plan."""

    def __init__(self, planner: PlannerState, now: float) -> None:
        self.planner = planner
        self.now = now
        self.settings = planner.pool.settings
        self.state = planner.state
        self.placer = Placer(planner.state, planner.topology)
        self.budget = Budget(LOOKS)
        self.blocked: dict[WorkloadId, Blocked] = {}
        self.started: list[WorkloadState] = []
        self.restored: list[WorkloadState] = []
        self.held_before = held_by_user(chain(*[part.projects.values() for part in planner.partitions]))
        self.stopped: dict[WorkloadId, str] = {}
        self.evicted: dict[WorkloadId, WorkloadState] = {}
        self.kept: dict[WorkloadId, Decision] = {}
        self.wakeup = Wakeup(now)
        self.reservations = Reservations(self.state, self.placer, self.settings, now)
        self.preemptor = Preemptor(
            self.state, self.placer, self.reservations, self.settings, self.budget, self.wakeup, planner.levels
        )
        self.growth = Growth(
            self.state, self.placer, self.reservations, self.preemptor, planner.partitions, self.wakeup
        )
        self.ahead = LookAhead(planner.state, planner.partitions, planner.changes_ahead, self.started, now)
        self._in_vain: dict[tuple[int, NodeSet], int] = {}

    def plan(self) -> Plan:
        self.planner.prepare()
        self.wakeup.note(self.planner.apply_aging(self.now))
        self.wakeup.note(self.planner.next_change)
        if self.planner.by_level is not None:
            next_level = self.planner.by_level.advance(self.now)
            self.wakeup.note(next_level if self.planner.waiting else None)
        self.planner.share_out()
        self._stop_broken_gangs()
        self._seat_sessions()
        self._start_jobs()
        self._settle_victims()
        self._grow()
        frozen = self.planner.frozen_projects()
        decisions = self._decisions(frozen)
        figures = project_figures(self.planner, frozen)
        return Plan(decisions, figures, self.wakeup.at, decisions.changes, in_line=decisions.in_line)

    # -- broken gangs and nominations -------------------------------------------------------------

    def _stop_broken_gangs(self) -> None:
        """Stop gangs that have been below their minimum for too long, or have lost their nodes."""
        for job in sorted(self.planner.reduced.values(), key=lambda job: job.id):
            if job.releasing:
                continue
            since = job.workload.started
            if since is not None and self.now <= since + STALENESS and job.placement:
                self.wakeup.note(since + STALENESS)
                continue
            standing, least = len(job.placement), job.request.gang_size
            self.state.release(job)
            self.stopped[job.id] = f"Only {standing} of at least {least} workers are left, so it is queued again."

    def _seat_sessions(self) -> None:
        seated = seat_sessions(self.planner, self.placer, self.now, self.budget)
        self.blocked.update(seated.blocked)
        self.restored = seated.restored
        for job in self.planner.sessions.values():
            if job.placement and not job.workload.running:
                self.started.append(job)
        for id, evictions in seated.recalled.items():
            self._note_evictions(evictions, f"The build GPU was on loan, and {id} has taken it back.")

    # -- jobs ---------------------------------------------------------------------------------------------

    def _start_jobs(self) -> None:
        """Go through the queues, and again if a job was stopped meanwhile: it may have held more than was needed."""
        self._honour_nominations()
        gains = -1
        while gains != self.state.gains:
            gains = self.state.gains
            for number in range(len(self.planner.partitions)):
                waiting = self.planner.waiting_at(number)
                for partition in self.planner.partitions:
                    self._go_through_queues(partition, waiting)

    def _go_through_queues(self, partition: Partition, waiting: Waiting) -> None:
        queues = self._open_queues(partition, waiting)
        self._expect_gang(partition, queues)
        order = ProjectOrder(queues)
        while (queue := order.next()) is not None:
            jobs = queue.next
            assert jobs is not None
            if self._start(jobs.first, queue.project, jobs.request, order):
                queue.advance(jobs)
            elif self.ahead.passes_over(jobs.first, queue.project, jobs.request):
                queue.advance(jobs)  # others of the class may end in time
            else:
                queue.close(jobs)
                self._close_unsatisfiable(queue)
            order.changed(queue.project)

    def _close_unsatisfiable(self, queue: ProjectQueue) -> None:
        """Close the next classes as long as earlier trials have shown that they get nothing."""
        project = queue.project
        least_important = self.preemptor.least_important(project)
        while (jobs := queue.next) is not None and jobs.request.priority <= least_important:
            if not self._is_unsatisfiable(jobs, project):
                return
            queue.close(jobs)

    def _is_unsatisfiable(self, jobs: JobClassQueue, project: ProjectState) -> bool:
        """Whether there is no place, no job to move or to reclaim from, and nothing to reserve."""
        request, gains, name = jobs.request, self.state.gains, (jobs.request.fit_class, NO_NODES)
        return (
            self._in_vain.get(name) == gains
            and self.preemptor.cannot_consolidate_for(request)
            and not self.preemptor.may_pause(project, jobs.first)
            and project.allocated + request.gang_amount > max(project.guarantee, project.share)
            and (request.gang_amount > 0 or not project.due_beside(request.gang_beside))
            and not (self.reservations.open_to(project) and request.gang_amount <= project.due)
        )

    def _honour_nominations(self) -> None:
        for job in honour_nominations(self.planner):
            if job.moved:
                self.kept[job.id] = Decision(
                    Action.KEEP, "Continues elsewhere once this attempt has ended.", job.placement
                )
            else:
                self.started.append(job)

    def _expect_gang(self, partition: Partition, queues: dict[ProjectName, ProjectQueue]) -> None:
        """Find the nodes of the first gang that others could starve, so that jobs ahead of it avoid these nodes,
        too."""
        self.reservations.expected = None
        first = {
            name: ProjectQueue(queue.project, [jobs])
            for name, queue in queues.items()
            if (jobs := queue.next) is not None
            and self.reservations.open_to(queue.project)
            and may_starve(jobs.request)
        }
        gang = ProjectOrder(first).next() if first else None
        if gang is not None and gang.next is not None and len(queues) > 1:
            self.reservations.expect(gang.next.first, gang.project, gang.next.request)

    def _open_queues(self, partition: Partition, waiting: Waiting) -> dict[ProjectName, ProjectQueue]:
        """The queues of the classes that may get GPUs of this partition in this cycle."""
        here = [(project, classes) for project, classes in waiting.items() if project.partition == partition.key]
        if not here:
            return {}
        fits = {
            fit_class
            for fit_class, request in self.planner.request_classes.fit_classes.items()
            if self.placer.may_fit(request)
        }
        queues, left_over = {}, self.state.nodes.left_over(self.planner.train & partition.nodes)
        for project, classes in here:
            reach = project.due - project.allocated  # what it may take back from others
            headroom = min([step.limit - step.allocated for step in project.path])
            least_important = self.preemptor.least_important(project)
            may = [
                (request, jobs)
                for request, jobs in classes.items()
                if (request.gang_amount <= reach and (request.gang_amount or not project.beside))
                or (not request.gang_amount and project.due_beside(request.gang_beside))
                or request.priority > least_important
                or self.preemptor.may_pause(project, jobs[0])
                or (request.gang_amount <= headroom and self._could_stand(request, fits, left_over))
            ]
            if self.reservations.open_to(project):
                urgencies = [jobs[0].urgency for jobs in classes.values()]
                first = list(classes.items())[urgencies.index(min(urgencies))]
                if all(request is not first[0] for request, _ in may):
                    may.append(first)
            class_queues = [
                queue for request, jobs in may if not (queue := JobClassQueue(request, request.gang_amount, jobs)).over
            ]
            if class_queues:
                queues[project.name] = ProjectQueue(project, class_queues)
        return queues

    def _could_stand(self, request: RequestClass, fits: set[int], left_over: Milli) -> bool:
        """Whether there is a place for it, or might be one if others moved."""
        return request.fit_class in fits or (
            request.gang_amount <= left_over and not self.preemptor.cannot_consolidate_for(request)
        )

    def _start(self, job: WorkloadState, project: ProjectState, request: RequestClass, order: ProjectOrder) -> bool:
        """Find a place for the job that is next, and take it."""
        with self.state.trial() as trial:
            if job.project is not project:
                self.state.choose(job, project, request)
            workers = self._find_place(job, project, request, order)
            if workers is None:
                return False
            trial.commit()
        self.state.settle(job, workers)
        self.started.append(job)
        return True

    def _find_place(
        self, job: WorkloadState, project: ProjectState, request: RequestClass, order: ProjectOrder
    ) -> list[WorkerPlacement] | None:
        """Free places, or else places of other jobs. If there are none, nodes may be reserved."""
        if self.ahead.in_the_way(job, project, request):
            return None
        full = project.nodes_at_limit(request.gang_amount) if self.state.limited else NO_NODES
        limited = self._refused(request, project) or bool(full and not request.eligible & ~full)
        reserved, better_not = self.reservations.kept_from(job, project)
        kept_from = reserved | full
        workers = None if limited else self._place(request, kept_from | better_not)
        if workers is None and better_not and not limited:
            workers = self._place(request, kept_from)
        if workers is not None:
            return workers
        result = self.preemptor.find(job, project, limited, kept_from | better_not)
        if result is None and better_not:
            result = self.preemptor.find(job, project, limited, kept_from)
        if result is None:
            if not limited:
                if not job.options or job.options[-1][0] is project:
                    self.reservations.consider(job, project)
                if reserved and self._place(request, NO_NODES) is not None:
                    self.reservations.note(request, project, reserved)
            return None
        for eviction in result.evictions:
            victim = eviction.job.project
            assert victim is not None
            order.changed(victim)
        self._note_evictions(result.evictions, self._what_for(job, project, result))
        return result.workers

    def _refused(self, request: RequestClass, project: ProjectState) -> bool:
        """Whether a limit on the path forbids it or, if it can't be preempted, a guarantee."""
        return (
            project.over_limit(request.gang_amount) is not None
            or (self.state.beside and project.over_limit_beside(request.gang_beside))
            or breaks_guarantee(request, project)
        )

    def _place(self, request: RequestClass, kept_from: NodeSet) -> list[WorkerPlacement] | None:
        """Places for the gang: now, or after the releasing workloads have ended. A search that failed is not
        repeated."""
        name, in_vain = (request.fit_class, kept_from), self._in_vain
        if in_vain and self.state.gains in (in_vain.get(name), in_vain.get((request.fit_class, NO_NODES))):
            return None
        mask = ~kept_from if kept_from else None
        workers = self.placer.place(request, request.gang_size, NOW, mask)
        if workers is None and self.state.releasing_jobs:
            workers = self.placer.place(request, request.gang_size, LATER, mask)
        if workers is None:
            in_vain[name] = self.state.gains
        return workers

    def _what_for(self, job: WorkloadState, project: ProjectState, result: SearchResult) -> str:
        if all(eviction.job.moved for eviction in result.evictions):
            return f"Makes room for {job.id}."
        if all(eviction.job.project is project for eviction in result.evictions):
            if any(eviction.job.priority < job.priority for eviction in result.evictions):
                return f"{job.id} of the same project has a higher priority."
            if any(eviction.worker is None for eviction in result.evictions):
                return paused_for(job.id)
            return f"{job.id} of the same project needs their GPUs."
        what = "GPUs" if any(eviction.amount for eviction in result.evictions) else "CPUs and memory"
        return f"Project {project.name} reclaims {what} for {job.id}."

    def _note_evictions(self, evictions: list[Eviction], what_for: str) -> None:
        for eviction in evictions:
            self.evicted[eviction.job.id] = eviction.job
            self.stopped[eviction.job.id] = what_for

    def _settle_victims(self) -> None:
        """Move stopped jobs to places that no waiting job can use, if there are any."""
        full = self.state.nodes.all_taken()
        victims = [
            job for job in self.evicted.values() if job.releasing and job.placement and not (full and job.amount)
        ]
        for job in sorted(victims, key=lambda job: job.urgency):
            project = job.project
            if (
                project is not None
                and project.over_limit(job.amount) is None
                and not project.over_limit_beside(job.beside)
            ):
                must, should = self.reservations.kept_from(job, project)
                settle_elsewhere(self.state, self.placer, job, must | should)

    def _grow(self) -> None:
        """Grow the elastic jobs that this plan does not change otherwise."""
        elastic = [
            job
            for job in (*self.planner.elastic.values(), *self.started)
            if len(job.placement) < job.request.workers
            and job.id not in self.evicted
            and job.id not in self.kept
            and not self._after(job)
        ]
        self.growth.grow(elastic, self.settings.resize_interval)
        for job, result in self.growth.reclaimed:
            assert job.project is not None
            self._note_evictions(result.evictions, self._what_for(job, job.project, result))
        if self.growth.reclaimed:
            self._settle_victims()

    # -- the plan -----------------------------------------------------------------------------------------

    def _after(self, job: WorkloadState) -> tuple[WorkloadId, ...]:
        """The workloads that must end before a job gets its places."""
        if not self.state.releasing_jobs:
            return ()
        after = self.state.in_the_way(job.placement)
        if job.project is not None:
            after |= self.state.over_limit_until(job.project)
        return tuple(sorted(after - {job.id}))

    def _decisions(self, frozen: Frozen) -> Decisions:
        changed: dict[WorkloadId, Decision] = {}
        for job in self.started:
            after = self._after(job)
            reason = f"Starts when {names(after)} {_release(after)} GPUs." if after else "Starts now."
            changed[job.id] = Decision(Action.START, reason, job.placement, after)
        for job in self.restored:
            after = tuple(sorted(self.state.in_the_way(job.workload.claim)))
            reason = f"Gets its GPUs back when {names(after)} {_release(after)}." if after else "Gets its GPUs back."
            changed[job.id] = Decision(Action.START, reason, job.workload.claim, after)
        for id, what_for in self.stopped.items():
            job = self.planner.workloads[id]
            if job.moved:
                changed[id] = Decision(Action.MOVE, what_for, job.placement, self._after(job))
            elif job.releasing:
                changed[id] = Decision(Action.STOP, what_for)
            elif len(job.placement) < len(job.workload.placement):
                changed[id] = Decision(Action.SHRINK, what_for, job.placement)
        for job in self.growth.grown.values():
            if job.workload.running:
                after = self._after(job)
                where = "inside its project's guarantee" if after else "on idle GPUs"
                reason = f"Grows to {len(job.placement)} workers {where}."
                changed[job.id] = Decision(Action.GROW, reason, job.placement, after)
        why = Why(self.planner, frozen, self.reservations.kept, self.ahead.found)
        return Decisions(
            self.planner, changed, self.kept, self.blocked, self.reservations.starts, self.held_before, why
        )


def _release(after: tuple[WorkloadId, ...]) -> str:
    return "has released its" if len(after) == 1 else "have released their"
