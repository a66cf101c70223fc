"""The rules that always hold, each as a check of one plan for one snapshot. The design numbers them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from scheduler.model import Environment, Milli, Node, Project, Shape, WorkerPlacement, Workload
from scheduler.policy import Action, Plan, Snapshot, decide
from scheduler.policy.play import carry_out
from tests.policy.pools import Floor

MORE = (Action.START, Action.GROW, Action.MOVE)


def amount(placement: Iterable[WorkerPlacement]) -> Milli:
    return sum(len(worker.gpus) * worker.share for worker in placement)


def is_job(workload: Workload) -> bool:
    return workload.request.environment is Environment.TRAIN


def below(snapshot: Snapshot, project: str) -> set[str]:
    """A project and all below it."""
    names = {project}
    for _ in snapshot.pool.projects:
        names |= {p.name for p in snapshot.pool.projects if p.parent in names}
    return names


def known(snapshot: Snapshot, placement: Iterable[WorkerPlacement]) -> tuple[WorkerPlacement, ...]:
    """The workers whose nodes are there."""
    names = {node.name for node in snapshot.nodes}
    return tuple(worker for worker in placement if worker.node in names)


def held(snapshot: Snapshot, project: str, leaving: bool = False) -> Milli:
    """What the jobs of a project and of those below it hold (those on their way out left aside, unless `leaving`)."""
    names = below(snapshot, project)
    return sum(
        amount(known(snapshot, w.placement))
        for w in snapshot.workloads
        if w.request.project in names and w.running and (leaving or not w.stopping) and is_job(w)
    )


def standing(
    snapshot: Snapshot, workload: Workload, placement: tuple[WorkerPlacement, ...]
) -> list[tuple[WorkerPlacement, Shape]]:
    """Each worker that stands somewhere, with its shape."""
    names = {node.name for node in snapshot.nodes}
    return [
        (worker, shape)
        for worker, shape in zip(placement, workload.request.shapes, strict=False)
        if worker.node in names
    ]


def every_workload_has_a_decision_with_a_reason(snapshot: Snapshot, plan: Plan) -> None:
    assert list(plan.decisions) == [w.id for w in snapshot.workloads]
    for workload in snapshot.workloads:
        decision = plan.decisions[workload.id]
        assert decision.reason
        assert (decision.action is Action.WAIT) == (decision.blocked_by is not None)
        assert workload.running == (decision.action not in (Action.START, Action.WAIT))


def no_gpu_is_given_twice(snapshot: Snapshot, plan: Plan) -> None:
    """Rule 1, once the plan is carried out, and at once by those who wait for nobody."""
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
        if decision.action in (*MORE, Action.SHRINK):
            assert request.min_workers <= len(decision.placement) <= request.workers
        elif decision.action in (Action.WAIT, Action.STOP):
            assert decision.placement == ()


def workers_stand_where_they_may(snapshot: Snapshot, plan: Plan) -> None:
    """Node pools, types, sizes and the topology that is a rule."""
    nodes = {node.name: node for node in snapshot.nodes}
    for workload in snapshot.workloads:
        decision, request = plan.decisions[workload.id], workload.request
        if decision.action not in MORE:
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
            before_domains = {
                domain(nodes[w.node], request.require) for w in workload.placement if w.node in nodes
            }
            now = {domain(nodes[w.node], request.require) for w, _ in fresh}
            assert request.require is None or not before_domains or now <= before_domains
            continue
        stands = [nodes[worker.node] for worker in decision.placement]
        if request.require:
            assert len({domain(node, request.require) for node in stands}) == 1
            assert None not in {domain(node, request.require) for node in stands}


def may_stand(snapshot: Snapshot, workload: Workload, node: Node) -> bool:
    request = workload.request
    own = node.node_pool == ("train" if is_job(workload) else "build")
    lent = snapshot.pool.settings.lending and request.preemptible and is_job(workload)
    return (
        node.schedulable
        and (own or (lent and node.node_pool == "build"))
        and (request.gpu_types is None or node.gpu_type in request.gpu_types)
    )


def domain(node: Node, level: str | None) -> object:
    """The domain in which a node is; None where it is in none."""
    if level in (None, "node"):
        return node.name
    if level not in node.labels:
        return None
    return node.labels.get("block"), (node.labels.get("rack") if level == "rack" else "")


def a_session_keeps_its_gpus_inside_its_quota(snapshot: Snapshot, plan: Plan) -> None:
    """Rule 3."""
    quotas = {user.name: user.build_quota for user in snapshot.pool.users}
    sessions = [w for w in snapshot.workloads if not is_job(w)]
    for user in {w.request.user for w in sessions}:
        quota = quotas.get(user or "", snapshot.pool.default_build_quota)
        own = [w for w in sessions if w.request.user == user]
        before = sum(amount(known(snapshot, w.placement)) for w in own if w.running)
        after = sum(amount(known(snapshot, plan.decisions[w.id].placement)) for w in own)
        assert after <= max(quota, before)
    assert {plan.decisions[w.id].action for w in sessions} <= {Action.START, Action.KEEP, Action.WAIT}
    assert all(plan.decisions[w.id].action is Action.KEEP for w in sessions if w.running)


def limits_and_guarantees_hold_down_the_tree(snapshot: Snapshot, plan: Plan) -> None:
    after = carry_out(snapshot, plan)
    before = replace(snapshot, workloads=tuple(w for w in snapshot.workloads if w.running))
    for project in snapshot.pool.projects:
        if project.limit is not None:
            assert held(after, project.name) <= max(project.limit, held(before, project.name))
        if project.guaranteed is not None:
            firm, firm_before = (_firm(s) for s in (after, before))
            assert held(firm, project.name) <= max(project.guaranteed, held(firm_before, project.name))
        for quota in project.quotas:
            nodes = {node.name for node in snapshot.nodes if quota.covers(node)}
            then, now = (held(within(s, nodes), project.name) for s in (before, after))
            assert quota.limit is None or now <= max(quota.limit, then)


def _firm(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, workloads=tuple(w for w in snapshot.workloads if not w.request.preemptible))


def within(snapshot: Snapshot, nodes: set[str]) -> Snapshot:
    """Only what stands on these nodes."""
    return replace(
        snapshot,
        workloads=tuple(
            replace(w, placement=tuple(worker for worker in w.placement if worker.node in nodes))
            for w in snapshot.workloads
        ),
    )


def limits_hold_at_once(snapshot: Snapshot, plan: Plan) -> None:
    """Who starts now starts beside those on their way out, and the project holds no more than its limit even so."""
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
    """Rule 7: who is stopped or shrinks is awaited by somebody who starts; who may not be stopped is not."""
    awaited = {id for decision in plan.decisions.values() for id in decision.after}
    for workload in snapshot.workloads:
        decision, request = plan.decisions[workload.id], workload.request
        if decision.action is Action.STOP and len(known(snapshot, workload.placement)) < request.min_workers:
            continue  # it can't go on
        if decision.action in (Action.STOP, Action.SHRINK):
            assert workload.id in awaited
            assert request.preemptible
            protected = (workload.started or 0) + request.min_runtime > snapshot.now
            assert not protected or snapshot.pool.settings.lending
    for decision in plan.decisions.values():
        for id in decision.after:
            stopping = any(w.id == id and w.stopping for w in snapshot.workloads)
            assert stopping or plan.decisions[id].action in (Action.STOP, Action.SHRINK, Action.MOVE)


def nobody_is_stopped_who_could_stay(snapshot: Snapshot, plan: Plan) -> None:
    """Rule 7: nobody is stopped whose place stays free in the end."""
    if any(project.limit is not None or project.quotas for project in snapshot.pool.projects):
        return  # a limit may be what somebody was stopped for
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
    """Rule 4, at every level of the tree: down to its guarantee at the most, but for one gang that straddles it."""
    by_id = {w.id: w for w in snapshot.workloads}
    takers: dict[str, list[Workload]] = {}
    for newcomer, decision in plan.decisions.items():
        for id in decision.after:
            if plan.decisions[id].action in (Action.STOP, Action.SHRINK):
                takers.setdefault(id, []).append(by_id[newcomer])
    after = carry_out(snapshot, plan)
    for project in snapshot.pool.projects:
        guarantee = 1 << 60 if project.guaranteed is None else project.guaranteed
        names = below(snapshot, project.name)
        lost = [
            amount(by_id[id].placement) - amount(plan.decisions[id].placement)
            for id, newcomers in takers.items()
            if by_id[id].request.project in names
            and all(is_job(n) and n.request.project not in names for n in newcomers)
        ]
        if lost:
            assert held(after, project.name) + max(lost) > min(guarantee, held(snapshot, project.name) - 1)


def no_gpu_is_idle_while_a_job_that_fits_waits(snapshot: Snapshot, plan: Plan) -> None:
    """Rule 5, where nothing is reserved."""
    if snapshot.pool.settings.reservations:
        return
    floor = Floor(snapshot.nodes)
    for workload in snapshot.workloads:
        decision = plan.decisions[workload.id]
        stands = (
            decision.placement if decision.action in MORE else workload.placement if workload.running else ()
        )
        left = workload.placement if decision.action is Action.MOVE else ()
        for worker, shape in (
            *standing(snapshot, workload, stands),
            *standing(snapshot, workload, left),
        ):
            floor.take(worker, shape)
    after = carry_out(snapshot, plan)
    leave = {w.id for w in snapshot.workloads if w.stopping or plan.decisions[w.id].action is Action.STOP}
    there = replace(after, workloads=(*after.workloads, *(w for w in snapshot.workloads if w.id in leave)))
    for workload in snapshot.workloads:
        decision, request = plan.decisions[workload.id], workload.request
        if decision.action is not Action.WAIT or not is_job(workload) or request.groups:
            continue
        if not allowed(after, workload):
            continue
        for nodes in domains(snapshot, request.require):
            usable = [
                n for n in nodes if may_stand(snapshot, workload, n) and not part_full(there, workload, n)
            ]
            seats = sum(floor.fits(node, request.shape) for node in usable)
            if request.require == "node" or request.workers == 1:
                seats = max([floor.fits(node, request.shape) for node in usable], default=0)
            assert seats < request.min_workers, (
                f"{workload.id} fits on {[n.name for n in usable]}: {decision}"
            )


def domains(snapshot: Snapshot, level: str | None) -> list[list[Node]]:
    """The nodes, by the domains of a level."""
    if level is None:
        return [list(snapshot.nodes)]
    found: dict[object, list[Node]] = {}
    for node in snapshot.nodes:
        if (name := domain(node, level)) is not None:
            found.setdefault(name, []).append(node)
    return list(found.values())


def ancestors(snapshot: Snapshot, name: str | None) -> list[Project]:
    by_name = {p.name: p for p in snapshot.pool.projects}
    found = []
    while name is not None:
        found.append(by_name[name])
        name = by_name[name].parent
    return found


def gang_amount(snapshot: Snapshot, workload: Workload) -> Milli:
    """What a job's gang counts at the most."""
    request = workload.request
    if request.groups:
        return sum(group.workers * group.shape.gpus for group in request.groups)
    shape, each = request.shape, request.shape.gpus
    if shape.gpu_memory:
        shares = [
            -(-shape.gpu_memory * 1000 // n.gpu_memory)
            for n in snapshot.nodes
            if n.gpu_memory
            and n.gpus
            and n.gpu_memory >= shape.gpu_memory
            and may_stand(snapshot, workload, n)
        ]
        each = max(shares, default=1000)
    return request.min_workers * each


def allowed(after: Snapshot, workload: Workload) -> bool:
    """Whether limits, and for what can't be preempted guarantees, allow it beside what is held."""
    asked = gang_amount(after, workload)
    for project in ancestors(after, workload.request.project):
        if project.limit is not None and held(after, project.name) + asked > project.limit:
            return False
        firm = held(_firm(after), project.name)
        if (
            not workload.request.preemptible
            and project.guaranteed is not None
            and firm + asked > project.guaranteed
        ):
            return False
    return True


def part_full(after: Snapshot, workload: Workload, node: Node) -> bool:
    """Whether a limit in a part of the pool keeps a job from a node. Who is on its way out counts until it is gone."""
    asked = gang_amount(after, workload)
    for project in ancestors(after, workload.request.project):
        for quota in project.quotas:
            nodes = {n.name for n in after.nodes if quota.covers(n)}
            if quota.limit is not None and quota.covers(node):
                there = held(within(after, nodes), project.name, leaving=True)
                if there + asked > quota.limit:
                    return True
    return False


def the_same_snapshot_gives_the_same_plan(snapshot: Snapshot, plan: Plan) -> None:
    """Rule 8."""
    turned = decide(replace(snapshot, workloads=snapshot.workloads[::-1]))
    assert dict(plan.decisions) == dict(turned.decisions)
    assert plan.projects == turned.projects
    assert plan.again_at == turned.again_at


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
)
