"""The invariants, each as a check of one plan for one snapshot. The design numbers them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from scheduler.model import JobId, Project, UserName, Workload
from scheduler.policy import Action, Decision, Plan, Snapshot, decide
from scheduler.policy.play import carry_out
from tests.policy.holdings import (
    allowed,
    amount,
    below,
    beside,
    bounds,
    domain,
    domains,
    guaranteed_beside,
    held,
    held_beside,
    is_job,
    known,
    may_stand,
    non_preemptible_only,
    partition_full,
    standing,
    within,
)
from tests.policy.pools import Floor

MORE = (Action.START, Action.GROW, Action.MOVE)


def has_promise(workload: Workload, decision: Decision) -> bool:
    """Whether it is stopping and will continue elsewhere."""
    return workload.stopping and decision.action is Action.KEEP and decision.placement != ()


def victims(snapshot: Snapshot, plan: Plan) -> dict[str, list[Workload]]:
    """The workloads that stop or shrink though they could continue, with those that wait for them."""
    by_id = {w.id: w for w in snapshot.workloads}
    found: dict[str, list[Workload]] = {
        w.id: []
        for w in snapshot.workloads
        if plan.decisions[w.id].action in (Action.STOP, Action.SHRINK)
        and len(known(snapshot, w.placement)) >= w.request.min_workers
    }
    for newcomer, decision in plan.decisions.items():
        for id in decision.after:
            if id in found:
                found[id].append(by_id[newcomer])
    return found


def every_workload_has_a_decision_with_a_reason(snapshot: Snapshot, plan: Plan) -> None:
    assert list(plan.decisions) == [w.id for w in snapshot.workloads]
    for workload in snapshot.workloads:
        decision = plan.decisions[workload.id]
        assert decision.reason
        assert (decision.action is Action.WAIT) == (decision.blocked_by is not None)
        assert workload.running == (decision.action not in (Action.START, Action.WAIT))


def no_gpu_is_given_twice(snapshot: Snapshot, plan: Plan) -> None:
    """Rule 1, after the plan is carried out, and immediately for those that wait for no victim."""
    at_once, in_the_end = Floor(snapshot.nodes), Floor(snapshot.nodes)
    for workload in snapshot.workloads:
        decision = plan.decisions[workload.id]
        grown = decision.action in MORE and not decision.after
        now = decision.placement if grown else workload.placement if workload.running else ()
        for worker, shape in standing(snapshot, workload, now):
            at_once.take(worker, shape)
        for worker, shape in standing(snapshot, workload, decision.placement):
            in_the_end.take(worker, shape)
    assert in_the_end.overfull() == []
    assert at_once.overfull() == []


def a_gang_is_whole_or_not_there(snapshot: Snapshot, plan: Plan) -> None:
    """Rule 2."""
    for workload in snapshot.workloads:
        decision, request = plan.decisions[workload.id], workload.request
        if decision.action in (*MORE, Action.SHRINK) or has_promise(workload, decision):
            assert request.min_workers <= len(decision.placement) <= request.workers
        elif decision.action in (Action.WAIT, Action.STOP):
            assert decision.placement == ()


def workers_stand_where_they_may(snapshot: Snapshot, plan: Plan) -> None:
    """Node pools, types, sizes and required topology; on existing nodes."""
    nodes = {node.name: node for node in snapshot.nodes}
    for workload in snapshot.workloads:
        decision, request = plan.decisions[workload.id], workload.request
        if decision.action not in MORE and not has_promise(workload, decision):
            continue
        before = {id(worker) for worker in workload.placement}
        shapes = request.shapes
        fresh = [
            (worker, shape)
            for worker, shape in zip(decision.placement, shapes, strict=False)
            if id(worker) not in before
        ]
        for worker, shape in fresh:
            node = nodes[worker.node]
            assert may_stand(snapshot, workload, node), (workload.id, node.name)
            if shape.gpu_memory:
                assert worker.share * (node.gpu_memory or 0) >= shape.gpu_memory * 1000
            else:
                assert len(worker.gpus) * worker.share == shape.gpus
        if decision.action is Action.GROW:
            before_domains = {domain(nodes[w.node], request.require) for w in workload.placement if w.node in nodes}
            now = {domain(nodes[w.node], request.require) for w, _ in fresh}
            assert request.require is None or not before_domains or now <= before_domains
            continue
        stands = [nodes[worker.node] for worker in decision.placement]
        if request.require:
            assert len({domain(node, request.require) for node in stands}) == 1
            assert None not in {domain(node, request.require) for node in stands}


def a_session_keeps_its_gpus_inside_its_quota(snapshot: Snapshot, plan: Plan) -> None:
    """Rule 3."""
    quotas = {user.name: user.build_quota for user in snapshot.pool.users}
    sessions = [w for w in snapshot.workloads if not is_job(w)]
    for user in {w.request.user for w in sessions}:
        quota = quotas.get(UserName(user or ""), snapshot.pool.default_build_quota)
        own = [w for w in sessions if w.request.user == user]
        before = sum(amount(known(snapshot, w.placement)) for w in own if w.running)
        after = sum(amount(known(snapshot, plan.decisions[w.id].placement)) for w in own)
        assert after <= max(quota, before)
    assert {plan.decisions[w.id].action for w in sessions} <= {Action.START, Action.KEEP, Action.WAIT}
    assert all(plan.decisions[w.id].action is Action.KEEP for w in sessions if w.running)


def limits_and_guarantees_hold_down_the_tree(snapshot: Snapshot, plan: Plan) -> None:
    after = carry_out(snapshot, plan)
    for project in snapshot.pool.projects:
        if project.limit is not None:
            assert held(after, project.name) <= max(project.limit, held(snapshot, project.name))
        if project.guaranteed is not None:
            fixed, fixed_before = (held(non_preemptible_only(s), project.name) for s in (after, snapshot))
            assert fixed <= max(project.guaranteed, fixed_before)
        for quota in project.quotas:
            nodes = {node.name for node in snapshot.nodes if quota.covers(node)}
            then, now = (held(within(s, nodes), project.name) for s in (snapshot, after))
            assert quota.limit is None or now <= max(quota.limit, then)
        for resource, bound in bounds(project).items():
            if bound.limit is not None:
                then, now = (held_beside(s, project.name)[resource] for s in (snapshot, after))
                assert now <= max(bound.limit, then), (project.name, resource)
            if bound.guaranteed is not None:
                alone = (non_preemptible_only(s) for s in (snapshot, after))
                then, now = (held_beside(s, project.name)[resource] for s in alone)
                assert now <= max(bound.guaranteed, then), (project.name, resource)


def limits_hold_at_once(snapshot: Snapshot, plan: Plan) -> None:
    """Starting workloads and stopping ones together stay within the project's limit."""
    for project in snapshot.pool.projects:
        if project.limit is None:
            continue
        names = below(snapshot, project.name)
        mine = [w for w in snapshot.workloads if w.request.project in names and is_job(w)]
        before = sum(amount(known(snapshot, w.placement)) for w in mine if w.running)
        now = before
        for w in mine:
            decision = plan.decisions[w.id]
            if decision.action in (Action.START, Action.GROW) and not decision.after:
                now += amount(decision.placement) - (amount(w.placement) if w.running else 0)
        assert now <= max(project.limit, before), project.name


def nobody_is_stopped_for_nothing(snapshot: Snapshot, plan: Plan) -> None:
    """Rule 7: each victim is needed by a workload that starts; non-preemptible workloads are no victims."""
    for id, newcomers in victims(snapshot, plan).items():
        victim = next(w for w in snapshot.workloads if w.id == id)
        assert newcomers
        assert victim.request.preemptible
        recalled = not all(map(is_job, newcomers))
        assert recalled or (victim.started or 0) + victim.request.min_runtime <= snapshot.now
    for decision in plan.decisions.values():
        for id in decision.after:
            stopping = any(w.id == id and w.stopping for w in snapshot.workloads)
            assert stopping or plan.decisions[id].action in (Action.STOP, Action.SHRINK, Action.MOVE)


def nobody_is_stopped_who_could_stay(snapshot: Snapshot, plan: Plan) -> None:
    """Rule 7: no victim's place stays free in the end."""
    if any(p.limit is not None or p.quotas or p.cpus.limit or p.memory.limit for p in snapshot.pool.projects):
        return  # a limit may be the reason for a stop
    floor = Floor(snapshot.nodes)
    for workload in snapshot.workloads:
        for worker, shape in standing(snapshot, workload, plan.decisions[workload.id].placement):
            floor.take(worker, shape)
    for workload in snapshot.workloads:
        whole = len(known(snapshot, workload.placement)) >= workload.request.min_workers
        if plan.decisions[workload.id].action is Action.STOP and whole:
            for worker, shape in standing(snapshot, workload, workload.placement):
                floor.take(worker, shape)
            assert floor.overfull(), f"{workload.id} could have stayed"
            for worker, shape in standing(snapshot, workload, workload.placement):
                floor.give_back(worker, shape)


def nothing_inside_a_guarantee_is_lost_to_others(snapshot: Snapshot, plan: Plan) -> None:
    """Rule 4, at every level of the tree: down to its guarantee at most, but for one gang that straddles it.

    Starts of the project in the same plan count, too: they may precede the preemptions. An unbounded guarantee ends at
    the limit. A project is inside its guarantee if it is in GPUs, CPUs and memory.
    """
    by_id = {w.id: w for w in snapshot.workloads}
    for project in snapshot.pool.projects:
        names = below(snapshot, project.name)
        lost = [
            amount(by_id[JobId(id)].placement) - amount(plan.decisions[JobId(id)].placement)
            for id, newcomers in victims(snapshot, plan).items()
            if by_id[JobId(id)].request.project in names
            and all(is_job(n) and n.request.project not in names for n in newcomers)
        ]
        begun = [
            amount(plan.decisions[w.id].placement) - amount(w.placement)
            for w in snapshot.workloads
            if w.request.project in names and plan.decisions[w.id].action in (Action.START, Action.GROW)
        ]
        if lost:
            kept = project.limit if project.guaranteed is None else project.guaranteed
            over = kept is not None and held(snapshot, project.name) + sum(begun) - sum(lost) + max(lost) > kept
            assert over or _was_over_beside(snapshot, plan, project)


def _was_over_beside(snapshot: Snapshot, plan: Plan, project: Project) -> bool:
    """Whether a project held or got more CPUs or memory than its guarantee."""
    names = below(snapshot, project.name)
    begun = beside(
        placed
        for w in snapshot.workloads
        if w.request.project in names and plan.decisions[w.id].action in (Action.START, Action.GROW)
        for placed in standing(snapshot, w, plan.decisions[w.id].placement)
    )
    before = held_beside(snapshot, project.name)
    return any(
        before[resource] + begun[resource] > guaranteed_beside(snapshot, project, resource) for resource in before
    )


def no_gpu_is_idle_while_a_job_that_fits_waits(snapshot: Snapshot, plan: Plan) -> None:
    """Rule 5, without reservations: a waiting job that fits is blocked by a limit or a guarantee."""
    if snapshot.pool.settings.reservations:
        settings = replace(snapshot.pool.settings, reservations=0)
        snapshot = replace(snapshot, pool=replace(snapshot.pool, settings=settings))
        plan = decide(snapshot)
    floor = Floor(snapshot.nodes)
    for workload in snapshot.workloads:
        decision = plan.decisions[workload.id]
        goes_on = decision.action is Action.MOVE or has_promise(workload, decision)
        stands = decision.placement if decision.action in MORE or goes_on else workload.placement
        left = workload.placement if goes_on else ()
        for worker, shape in (*standing(snapshot, workload, stands), *standing(snapshot, workload, left)):
            floor.take(worker, shape)
    after = carry_out(snapshot, plan)
    leave = {w.id for w in snapshot.workloads if w.stopping or plan.decisions[w.id].action is Action.STOP}
    there = replace(after, workloads=(*after.workloads, *(w for w in snapshot.workloads if w.id in leave)))
    for workload in snapshot.workloads:
        decision, request = plan.decisions[workload.id], workload.request
        if decision.action is not Action.WAIT or not is_job(workload):
            continue
        for nodes in domains(snapshot, request.require):
            usable = [node for node in nodes if may_stand(snapshot, workload, node)]
            if floor.has_capacity(request, usable):
                assert decision.blocked_by is not None
                assert decision.details["kind"] in ("limit", "guarantee"), (workload.id, decision)
                allowed_nodes = [node for node in usable if not partition_full(there, workload, node)]
                fits = allowed(after, workload) and floor.has_capacity(request, allowed_nodes)
                assert not fits, f"{workload.id} fits on {[node.name for node in usable]}: {decision}"


def the_same_snapshot_gives_the_same_plan(snapshot: Snapshot, plan: Plan) -> None:
    """Rule 8, in any order of the snapshot's workloads."""
    workloads = list(snapshot.workloads)
    mixed = Random(len(workloads)).sample(workloads, len(workloads))
    for order in (workloads, workloads[::-1], mixed):
        again = decide(replace(snapshot, workloads=tuple(order)))
        assert dict(plan.decisions) == dict(again.decisions)
        assert plan.projects == again.projects
        assert plan.again_at == again.again_at


def nobody_takes_turns(snapshot: Snapshot, plan: Plan) -> None:
    """Rule 7: plans carried out repeatedly at one instant converge."""
    stops = 0
    for _ in range(3 * len(snapshot.workloads) + 3):
        if not plan.changes:
            return
        stops += sum(decision.action is Action.STOP for decision in plan.changes.values())
        snapshot = carry_out(snapshot, plan)
        plan = decide(snapshot)
    raise AssertionError(f"no rest after {stops} stops")


RULES: tuple[Callable[[Snapshot, Plan], None], ...] = (
    every_workload_has_a_decision_with_a_reason,
    no_gpu_is_given_twice,
    a_gang_is_whole_or_not_there,
    workers_stand_where_they_may,
    a_session_keeps_its_gpus_inside_its_quota,
    limits_and_guarantees_hold_down_the_tree,
    limits_hold_at_once,
    nobody_is_stopped_for_nothing,
    nobody_is_stopped_who_could_stay,
    nothing_inside_a_guarantee_is_lost_to_others,
    no_gpu_is_idle_while_a_job_that_fits_waits,
    the_same_snapshot_gives_the_same_plan,
    nobody_takes_turns,
)
