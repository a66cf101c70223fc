"""One scheduling cycle: sessions first, then jobs in the order of their projects, then elastic jobs grow.

The job that is next gets, in this order: what is free now; what becomes free as others leave; what it may take back
from other projects, or from less important jobs of its own. If none of that gives it a place its class is closed for
this cycle. Classes that could get nothing in any of these ways are not even opened.
"""

from __future__ import annotations

from scheduler.model import Milli, WorkerPlacement
from scheduler.policy.blocking import Blocked, names
from scheduler.policy.consolidation import consolidate, rearrange, settle_elsewhere
from scheduler.policy.decisions import Decisions
from scheduler.policy.eligibility import Eviction, Preemption, Reclaim
from scheduler.policy.growth import NEVER, may_grow_from
from scheduler.policy.nominations import honour_nominations
from scheduler.policy.partitions import Partition
from scheduler.policy.placement import Placer
from scheduler.policy.plannerstate import PlannerState, Waiting
from scheduler.policy.projects import ProjectState
from scheduler.policy.queues import JobClassQueue, ProjectOrder, ProjectQueue
from scheduler.policy.reservation import Reservations, may_starve
from scheduler.policy.sessions import seat_sessions
from scheduler.policy.types import Action, Decision, Plan, ProjectFigures, together
from scheduler.policy.victims import Budget, SearchResult, VictimSearch
from scheduler.policy.why import Why
from scheduler.policy.workloads import RequestClass, WorkloadState

STALENESS = 60.0
"""How long a gang may run below its minimum, in seconds."""

LOOKS = 500_000
"""How many candidates all searches for victims of one cycle may look at."""


class Cycle:
    """Makes one plan; leaves the planner as the plan would have it."""

    def __init__(self, planner: PlannerState, now: float) -> None:
        self.planner = planner
        self.now = now
        self.settings = planner.pool.settings
        self.state = planner.state
        self.placer = Placer(planner.state, planner.topology)
        self.budget = Budget(LOOKS)
        self.blocked: dict[str, Blocked] = {}
        self.started: list[WorkloadState] = []
        self.grown: dict[str, WorkloadState] = {}
        self.stopped: dict[str, str] = {}
        self.evicted: dict[str, WorkloadState] = {}
        self.kept: dict[str, Decision] = {}
        self.again_at: float | None = None
        self.reservations = Reservations(self.state, self.placer, self.settings, now)
        self._in_vain: dict[tuple[int, int], int] = {}
        self._no_moves: dict[tuple[int, int], int] = {}
        self._no_victims: dict[tuple[object, ...], int] = {}

    def plan(self) -> Plan:
        self.planner.sort()
        self.planner.share_out()
        self._stop_the_stale()
        self._seat_sessions()
        self._start_jobs()
        self._settle_victims()
        self._grow()
        decisions = self._decisions()
        return Plan(decisions, self._figures(), self.again_at, decisions.changes)

    def _again(self, at: float | None) -> None:
        """Decide again at that time, though nothing happens."""
        if at is not None and at > self.now:
            self.again_at = at if self.again_at is None else min(self.again_at, at)

    # -- who can't go on, and who comes first -------------------------------------------------------------

    def _stop_the_stale(self) -> None:
        """Stop gangs that have been below their minimum for too long, or have lost their nodes."""
        for job in sorted(self.planner.reduced.values(), key=lambda job: job.id):
            if job.releasing:
                continue
            since = job.workload.started
            if since is not None and self.now <= since + STALENESS and job.placement:
                self._again(since + STALENESS)
                continue
            standing, least = len(job.placement), job.request.gang_size
            self.state.release(job)
            self.stopped[job.id] = (
                f"Only {standing} of at least {least} workers are left, so it is queued again."
            )

    def _seat_sessions(self) -> None:
        blocked, recalled = seat_sessions(self.planner, self.placer, self.now, self.budget)
        self.blocked.update(blocked)
        for job in self.planner.sessions.values():
            if job.placement and not job.workload.running:
                self.started.append(job)
        for id, evictions in recalled.items():
            self._note_evictions(evictions, f"The build GPU was on loan, and {id} has taken it back.")

    # -- jobs ---------------------------------------------------------------------------------------------

    def _start_jobs(self) -> None:
        """Go through the queues; once more if somebody left meanwhile, who may have held more than was needed."""
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
                queue.advance()
            else:
                queue.close()
                self._close_the_hopeless(queue)
            order.changed(queue.project)

    def _close_the_hopeless(self, queue: ProjectQueue) -> None:
        """Close the next classes as long as earlier trials have shown that they get nothing."""
        project = queue.project
        least_important = self._least_important(project)
        while (jobs := queue.next) is not None and jobs.request.priority <= least_important:
            if not self._hopeless(jobs, project):
                return
            queue.close()

    def _hopeless(self, jobs: JobClassQueue, project: ProjectState) -> bool:
        """Whether there is no place, nobody could move or be reclaimed from, and nothing would be reserved."""
        request, gains, name = jobs.request, self.state.gains, (jobs.request.fit_class, 0)
        return (
            self._in_vain.get(name) == gains
            and self._no_moves.get(name) == gains
            and project.allocated + request.gang_amount > max(project.guarantee, project.share)
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

    def _expect_gang(self, partition: Partition, queues: dict[str, ProjectQueue]) -> None:
        """The nodes of the first gang that others could starve are avoided by those whose turn is before it, too."""
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

    def _open_queues(self, partition: Partition, waiting: Waiting) -> dict[str, ProjectQueue]:
        """The classes that might get something of this partition in this cycle."""
        here = [
            (project, classes) for project, classes in waiting.items() if project.partition == partition.key
        ]
        if not here:
            return {}
        fits = {
            fit_class
            for fit_class, request in self.planner.request_classes.fit_classes.items()
            if self.placer.may_fit(request)
        }
        queues = {}
        for project, classes in here:
            reach = project.due - project.allocated  # what it may take back from others
            headroom = min([step.limit - step.allocated for step in project.path])
            least_important = self._least_important(project)
            may = [
                (request, jobs)
                for request, jobs in classes.items()
                if request.gang_amount <= reach
                or request.priority > least_important
                or (request.fit_class in fits and request.gang_amount <= headroom)
            ]
            if self.reservations.open_to(project):
                urgencies = [jobs[0].urgency for jobs in classes.values()]
                first = list(classes.items())[urgencies.index(min(urgencies))]
                if all(request is not first[0] for request, _ in may):
                    may.append(first)
            class_queues = [
                queue
                for request, jobs in may
                if not (queue := JobClassQueue(request, request.gang_amount, jobs)).over
            ]
            if class_queues:
                queues[project.name] = ProjectQueue(project, class_queues)
        return queues

    def _least_important(self, project: ProjectState) -> float:
        """Jobs above this priority may find somebody to preempt in their project."""
        candidates = self.state.candidates.get(project)
        if not candidates:
            return float("inf")
        least = min(candidates.classes)
        return min([least, *[job.priority - 1 for job in candidates.elastic.values()]])

    def _start(
        self, job: WorkloadState, project: ProjectState, request: RequestClass, order: ProjectOrder
    ) -> bool:
        """Find a place for the job that is next, and take it."""
        mark = self.state.mark()
        if job.project is not project:
            self.state.choose(job, project, request)
        full = project.nodes_at_limit(request.gang_amount) if self.state.limited else 0
        limited = self._refused(request, project) or bool(full and not request.eligible & ~full)
        reserved, better_not = self.reservations.kept_from(job, project)
        kept_from = reserved | full
        workers = None if limited else self._place(request, kept_from | better_not)
        if workers is None and better_not and not limited:
            workers = self._place(request, kept_from)
        if workers is None:
            result = self._take_back(job, project, limited, kept_from | better_not)
            if result is None and better_not:
                result = self._take_back(job, project, limited, kept_from)
            if result is None:
                if not limited:
                    if not job.options or job.options[-1][0] is project:
                        self.reservations.consider(job, project)
                    if reserved and self._place(request, 0) is not None:
                        self.reservations.note(request, project, reserved)
                self.state.undo(mark)
                return False
            workers = result.workers
            for eviction in result.evictions:
                victim = eviction.job.project
                assert victim is not None
                order.changed(victim)
            self._note_evictions(result.evictions, self._what_for(job, project, result))
        self.state.settle(job, workers)
        self.started.append(job)
        return True

    def _refused(self, request: RequestClass, project: ProjectState) -> bool:
        """Whether limits, or for what can't be preempted guarantees, forbid it on the path."""
        return project.over_limit(request.gang_amount) is not None or self._breaks_guarantee(request, project)

    def _breaks_guarantee(self, request: RequestClass, project: ProjectState) -> bool:
        return not request.preemptible and project.over_guarantee(request.gang_amount) is not None

    def _place(self, request: RequestClass, kept_from: int) -> list[WorkerPlacement] | None:
        """Places for the gang: now, or once those are gone who leave. What failed is not tried again."""
        name = (request.fit_class, kept_from)
        if self.state.gains in (self._in_vain.get(name), self._in_vain.get((request.fit_class, 0))):
            return None
        mask = ~kept_from if kept_from else None
        workers = self.placer.place(request, request.gang_size, False, mask)
        if workers is None and self.state.releasing_jobs:
            workers = self.placer.place(request, request.gang_size, True, mask)
        if workers is None:
            self._in_vain[name] = self.state.gains
        return workers

    # -- taking back --------------------------------------------------------------------------------------

    def _take_back(
        self, job: WorkloadState, project: ProjectState, limited: bool, kept_from: int
    ) -> SearchResult | None:
        """Take from other projects, or from less important jobs of the same one."""
        request = job.request
        if not request.eligible:
            return None
        delay, workload = self.settings.preemption_delay, job.workload
        since = workload.submitted if workload.preempted is None else workload.preempted
        if delay and since + delay > self.now:
            self._again(since + delay)
            return None
        if limited:
            return self._stop_others(job, project, limited, kept_from)
        mark = self.state.mark()
        moves = self._consolidate(job, kept_from)
        if moves is None:
            return self._stop_others(job, project, limited, kept_from)
        self.state.undo(mark)
        result = self._stop_others(job, project, limited, kept_from)
        if result is not None and result.loss < moves.loss:
            return result
        self.state.undo(mark)
        return self._consolidate(job, kept_from)

    def _consolidate(self, job: WorkloadState, kept_from: int) -> SearchResult | None:
        """Move others together. What failed is not tried again."""
        name, gains, least = (job.request.fit_class, kept_from), self.state.gains, job.request.gang_amount
        if gains in (self._no_moves.get(name), self._no_moves.get((job.request.fit_class, 0))):
            return None
        # Not only where the newcomer may stand: the others may go elsewhere.
        if self.state.nodes.left_over() < least:
            self._no_moves[job.request.fit_class, 0] = gains
            return None
        result = consolidate(self.state, self.placer, self.reservations, job, kept_from, self.now)
        if result is None:
            self._no_moves[name] = self.state.gains
        return result

    def _stop_others(
        self, job: WorkloadState, project: ProjectState, limited: bool, kept_from: int
    ) -> SearchResult | None:
        result = self._reclaim(job, project, limited, kept_from)
        if result is None and job.request.priority > self._least_important(project):
            result = self._preempt(job, project, limited, kept_from)
        return result

    def _reclaim(
        self, job: WorkloadState, project: ProjectState, limited: bool, kept_from: int
    ) -> SearchResult | None:
        request = job.request
        full = [step for step in project.path if step.allocated + request.gang_amount > step.limit]
        if limited and (not full or full[0] is project or self._breaks_guarantee(request, project)):
            return None  # nobody else's GPUs would help
        to_fair_share = self.settings.reclaim == "fair_share"
        within = full[0] if full else None
        rules = Reclaim(self.state, job, project, self.now, to_fair_share=to_fair_share, within=within)
        if not rules.possible():
            return None
        name = (request.fit_class, kept_from, project.parent, rules.inside_guarantee, within)
        if self._no_victims.get(name) == self.state.gains:
            return None
        over = max([step.allocated + request.gang_amount - step.limit for step in full], default=0)
        search = VictimSearch(self.state, self.placer, rules, self.budget, kept_from)
        result = search.search(over, project if full else None)
        self._again(rules.protected_until)
        if result is None and not full and rules.inside_guarantee:
            result = rearrange(self.state, self.placer, self.reservations, rules, self.budget, kept_from)
        if result is None:
            self._no_victims[name] = self.state.gains
        return result

    def _preempt(
        self, job: WorkloadState, project: ProjectState, limited: bool, kept_from: int
    ) -> SearchResult | None:
        request = job.request
        if self._breaks_guarantee(request, project):
            return None
        over = (
            max([step.allocated + request.gang_amount - step.limit for step in project.path])
            if limited
            else 0
        )
        rules = Preemption(self.state, job, project, self.now)
        result = VictimSearch(self.state, self.placer, rules, self.budget, kept_from).search(
            over, project if limited else None
        )
        self._again(rules.protected_until)
        return result

    def _what_for(self, job: WorkloadState, project: ProjectState, result: SearchResult) -> str:
        if all(eviction.job.moved for eviction in result.evictions):
            return f"Makes room for {job.id}."
        if all(eviction.job.project is project for eviction in result.evictions):
            return f"{job.id} of the same project has a higher priority."
        return f"Project {project.name} reclaims GPUs for {job.id}."

    def _note_evictions(self, evictions: list[Eviction], what_for: str) -> None:
        for eviction in evictions:
            self.evicted[eviction.job.id] = eviction.job
            self.stopped[eviction.job.id] = what_for

    def _settle_victims(self) -> None:
        """Who was stopped goes on elsewhere, where there is a place for it that nobody who waits could use."""
        victims = [job for job in self.evicted.values() if job.releasing and job.placement]
        for job in sorted(victims, key=lambda job: job.urgency):
            project = job.project
            if project is not None and project.over_limit(job.amount) is None:
                must, should = self.reservations.kept_from(job, project)
                settle_elsewhere(self.state, self.placer, job, must | should)

    # -- growing ------------------------------------------------------------------------------------------

    def _grow(self) -> None:
        """Elastic jobs get one worker after another of what nobody else could use."""
        classes: dict[ProjectState, list[JobClassQueue]] = {}
        too_early: list[tuple[float, str, WorkloadState]] = []
        for job in [*self.planner.elastic.values(), *self.started]:
            missing = job.request.workers - len(job.placement)
            if job.project is None or job.releasing or missing <= 0 or not job.placement:
                continue
            if job.id in self.evicted or job.id in self.kept or self._after(job):
                continue
            earliest = may_grow_from(job, self.settings.resize_interval, self.now)
            if earliest <= self.now:
                growth = JobClassQueue(job.request, job.request.worker_amount, [job] * missing, grow=True)
                classes.setdefault(job.project, []).append(growth)
            elif earliest < NEVER:
                too_early.append((earliest, job.id, job))
        for partition in self.planner.partitions:
            here = {
                project.name: ProjectQueue(project, growing)
                for project, growing in classes.items()
                if project.partition == partition.key
            }
            self._grow_in(here)
        for earliest, _, job in sorted(too_early):
            mark = self.state.mark()
            assert job.project is not None
            could = self._one_more(job, job.project)
            self.state.undo(mark)
            if could is not None:
                self._again(earliest)
                break

    def _grow_in(self, queues: dict[str, ProjectQueue]) -> None:
        order = ProjectOrder(queues)
        while (queue := order.next()) is not None:
            jobs = queue.next
            assert jobs is not None
            job = jobs.first
            workers = self._one_more(job, queue.project)
            if workers is not None:
                self.state.settle(job, workers)
                self.grown[job.id] = job
                queue.advance()
            else:
                queue.close()
            order.changed(queue.project)

    def _one_more(self, job: WorkloadState, project: ProjectState) -> list[WorkerPlacement] | None:
        """A place for one more worker."""
        request = job.request
        if project.over_limit(request.worker_amount) or (
            not request.preemptible and project.over_guarantee(request.worker_amount)
        ):
            return None
        over, nodes = project.nodes_at_limit(0), self.state.nodes.by_name
        if over and any(nodes[worker.node].bit & over for worker in job.placement):
            return None  # it could not begin again where it stands
        kept_from = project.nodes_at_limit(request.worker_amount) | self.reservations.kept_from_growing(
            job, project
        )
        beside = self.placer.beside(request, job.placement) & ~kept_from
        return self.placer.place(request, 1, False, beside) if beside else None

    # -- the plan -----------------------------------------------------------------------------------------

    def _after(self, job: WorkloadState) -> tuple[str, ...]:
        """Who must be gone before a job has its places."""
        if not self.state.releasing_jobs:
            return ()
        after = self.state.in_the_way(job.placement)
        if job.project is not None:
            after |= self.state.over_limit_until(job.project)
        return tuple(sorted(after - {job.id}))

    def _decisions(self) -> Decisions:
        changed: dict[str, Decision] = {}
        for job in self.started:
            after = self._after(job)
            reason = f"Starts when {names(after)} {_release(after)} GPUs." if after else "Starts now."
            changed[job.id] = Decision(Action.START, reason, job.placement, after)
        for id, what_for in self.stopped.items():
            job = self.planner.workloads[id]
            if job.moved:
                changed[id] = Decision(Action.MOVE, what_for, job.placement, self._after(job))
            elif job.releasing:
                changed[id] = Decision(Action.STOP, what_for)
            elif len(job.placement) < len(job.workload.placement):
                changed[id] = Decision(Action.SHRINK, what_for, job.placement)
        for job in self.grown.values():
            if job.workload.running:
                reason = f"Grows to {len(job.placement)} workers on idle GPUs."
                changed[job.id] = Decision(Action.GROW, reason, job.placement)
        why = Why(self.planner, self.reservations.kept)
        return Decisions(self.planner, changed, self.kept, self.blocked, self.reservations.starts, why)

    def _figures(self) -> dict[str, ProjectFigures]:
        by_partition = {partition.key: self._figures_in(partition) for partition in self.planner.partitions}
        if len(by_partition) == 1:
            return next(iter(by_partition.values()))
        return {
            name: together({key: figures[name] for key, figures in by_partition.items()})
            for name in self.planner.projects
        }

    def _figures_in(self, partition: Partition) -> dict[str, ProjectFigures]:
        free = self.state.nodes.free_gpus(self.planner.train & partition.nodes)
        left: dict[ProjectState | None, Milli] = {None: max(0, free)}  # parents come before their children
        figures = {}
        for name, project in partition.projects.items():
            left[project] = max(0, min(left[project.parent], project.limit - project.allocated))
            figures[name] = ProjectFigures(project.share, project.allocated, project.demand, left[project])
        return figures


def _release(after: tuple[str, ...]) -> str:
    return "has released its" if len(after) == 1 else "have released their"
