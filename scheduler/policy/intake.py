"""From a snapshot to what the policy works on: rooms, accounts, and the workloads sorted by what they do.

Requests that ask for the same become one `Ask`. Which rooms qualify for an ask is decided here once: the environment,
the node pools it names in its order of preference, the GPU types it accepts, and that the node is big enough.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.model import ONE, Environment, Milli, NodePool, PlacementStyle, Pool, Request
from scheduler.policy.accounts import Account, open_accounts
from scheduler.policy.needs import Need, need_of
from scheduler.policy.rooms import Room, Rooms
from scheduler.policy.state import State
from scheduler.policy.topology import Topology
from scheduler.policy.types import Snapshot
from scheduler.policy.work import Ask, Work


@dataclass(slots=True)
class Intake:
    """A snapshot, sorted. `strays` run where the pool has no (such) node any more; `train` is the rooms for jobs."""

    accounts: dict[str, Account]
    state: State
    topology: Topology
    works: dict[str, Work] = field(default_factory=dict)
    running: list[Work] = field(default_factory=list)
    waiting: dict[Account, dict[Ask, list[Work]]] = field(default_factory=dict)
    sessions: list[Work] = field(default_factory=list)
    sessions_waiting: list[Work] = field(default_factory=list)
    homeless: list[Work] = field(default_factory=list)
    strays: list[Work] = field(default_factory=list)
    capacity: Milli = 0
    train: int = 0


def take_in(snapshot: Snapshot) -> Intake:
    rooms = Rooms(snapshot.nodes)
    accounts = open_accounts(snapshot.pool.projects)
    intake = Intake(accounts, State(rooms), Topology(rooms.rooms, snapshot.pool.topology))
    asks = Asks(snapshot.pool, rooms)
    for room in rooms.rooms:
        if room.node.schedulable and asks.environment_of(room.node.node_pool) is Environment.TRAIN:
            intake.capacity += room.node.gpus * ONE
            intake.train |= room.bit
    for workload in snapshot.workloads:
        request = workload.request
        build = request.environment is Environment.BUILD
        account = None if build else accounts.get(request.project)
        work = Work(workload, account, asks.of(request))
        intake.works[workload.id] = work
        if workload.running:
            _stand(intake, work, build)
        elif build:
            intake.sessions_waiting.append(work)
        elif account is None or account.children:
            intake.homeless.append(work)
        else:
            intake.waiting.setdefault(account, {}).setdefault(work.ask, []).append(work)
    intake.sessions_waiting.sort(key=lambda work: (work.workload.submitted, work.id))
    _count_demand(intake)
    return intake


def _stand(intake: Intake, work: Work, build: bool) -> None:
    by_name = intake.state.rooms.by_name
    known = tuple(
        worker
        for worker in work.placement
        if (room := by_name.get(worker.node)) is not None and all(gpu < room.node.gpus for gpu in worker.gpus)
    )
    if len(known) < len(work.placement):
        intake.strays.append(work)
        work.stands_at(known)
    intake.state.load(work)
    (intake.sessions if build else intake.running).append(work)


def _count_demand(intake: Intake) -> None:
    """What each project holds and asks for: running jobs as far as they may grow, and those that wait."""
    for work in intake.running:
        if work.account is not None:
            missing = work.ask.workers - len(work.placement)
            _demand(work.account, work.amount + max(0, missing) * work.ask.each)
    for account, lines in intake.waiting.items():
        _demand(account, sum(ask.each * ask.workers * len(works) for ask, works in lines.items()))


def _demand(account: Account, amount: Milli) -> None:
    for step in account.path:
        step.demand += amount


class Asks:
    """One `Ask` for all requests that ask for the same."""

    def __init__(self, pool: Pool, rooms: Rooms) -> None:
        self.rooms = rooms.rooms
        self.pools = {node_pool.name: node_pool for node_pool in pool.node_pools}
        self._asks: dict[tuple[object, ...], Ask] = {}
        self._seen: dict[int, tuple[Request, Ask]] = {}
        self._qualifying: dict[tuple[object, ...], tuple[int, tuple[Room, ...]]] = {}
        self._needs: dict[Need, Need] = {}

    def environment_of(self, node_pool: str) -> Environment:
        known = self.pools.get(node_pool)
        if known is not None:
            return known.environment
        return Environment.BUILD if node_pool == Environment.BUILD else Environment.TRAIN

    def of(self, request: Request) -> Ask:
        seen = self._seen.get(id(request))
        if seen is not None:
            return seen[1]
        name = (
            request.environment, request.shape, request.workers, request.min_workers, request.priority,
            request.preemptible, request.gpu_types, request.node_pools, request.require, request.prefer,
        )  # fmt: skip
        ask = self._asks.get(name)
        if ask is None:
            ask = self._asks[name] = self._make(request)
        self._seen[id(request)] = (request, ask)
        return ask

    def _make(self, request: Request) -> Ask:
        need = need_of(request.shape)
        need = self._needs.setdefault(need, need)
        masks = tuple(
            mask for pools in self._pools_for(request) if (mask := self._mask(request, need, pools))
        )
        qualifies = 0
        for mask in masks:
            qualifies |= mask
        return Ask(
            need=need,
            workers=max(request.workers, request.min_workers),
            gang=request.min_workers,
            each=self._each(need, qualifies),
            preemptible=request.preemptible,
            priority=request.priority,
            require=request.require,
            prefer=request.prefer,
            masks=masks,
            spread=self._spreads(request),
            qualifies=qualifies,
            request=request,
        )

    def _pools_for(self, request: Request) -> list[tuple[str, ...] | None]:
        """The sets of node pools that are tried one after the other; None: all of the environment."""
        return [(name,) for name in request.node_pools] if request.node_pools else [None]

    def _mask(self, request: Request, need: Need, pools: tuple[str, ...] | None) -> int:
        bits = 0
        for room in self.rooms:
            node = room.node
            if (
                node.schedulable
                and (pools is None or node.node_pool in pools)
                and self.environment_of(node.node_pool) is request.environment
                and (request.gpu_types is None or node.gpu_type in request.gpu_types)
                and _big_enough(room, need)
            ):
                bits |= room.bit
        return bits

    def _each(self, need: Need, qualifies: int) -> Milli:
        """What one worker counts; for GPU memory the greatest share that it may come to."""
        if not need.gpu_memory:
            return need.whole * ONE + need.share
        return max((need.share_on(room.node) for room in self.rooms if qualifies & room.bit), default=ONE)

    def _spreads(self, request: Request) -> bool:
        names = request.node_pools or tuple(
            pool.name for pool in self.pools.values() if pool.environment is request.environment
        )
        pools: list[NodePool] = [self.pools[name] for name in names if name in self.pools]
        return bool(pools) and pools[0].placement is PlacementStyle.SPREAD


def _big_enough(room: Room, need: Need) -> bool:
    node = room.node
    return (
        need.whole <= node.gpus
        and (not need.partial or (node.gpus > 0 and need.share_on(node) <= ONE))
        and (node.cpus is None or need.cpus <= node.cpus)
        and (node.memory is None or need.memory <= node.memory)
    )
