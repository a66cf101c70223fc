"""The project tree as accounts: what each project was promised, what it is due, and what it holds.

Amounts are thousandths of a GPU. What a project holds counts for each of its ancestors too. `held` and `firm` are as
they will be once the plan is carried out; `firm` is the part that can't be preempted, `leaving` what is held until then only.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.model import ONE, Milli, Project, Quota
from scheduler.policy.needs import UNBOUNDED
from scheduler.policy.quotas import REMAINDER, PartitionKey


class Cap:
    """What a project may hold of the nodes `mask` at the most, and what it holds there. Who leaves counts until it is gone."""

    __slots__ = ("held", "mask", "quota")

    def __init__(self, quota: Quota, mask: int) -> None:
        self.quota = quota
        self.mask = mask
        self.held: Milli = 0

    @property
    def limit(self) -> Milli:
        return UNBOUNDED if self.quota.limit is None else self.quota.limit

    def as_it_stands(self) -> Cap:
        twin = Cap(self.quota, self.mask)
        twin.held = self.held
        return twin


class Account:
    """One project in one partition of the pool, its place in the tree and its sums.

    `spill` is what its jobs ask for here because they can't have it in a partition that they prefer.
    """

    __slots__ = (
        "caps", "children", "created", "demand", "depth", "firm", "guarantee", "held", "leaving", "limit",
        "name", "parent", "partition", "path", "priority", "share", "spill", "usage", "wanted", "weight",
    )  # fmt: skip

    def __init__(self, project: Project, parent: Account | None) -> None:
        self.name = project.name
        self.parent = parent
        self.path: tuple[Account, ...] = (self, *(parent.path if parent else ()))
        self.depth = len(self.path)
        self.children: list[Account] = []
        self.guarantee = UNBOUNDED if project.guaranteed is None else project.guaranteed
        self.limit = UNBOUNDED if project.limit is None else project.limit
        self.weight = project.weight if project.weight is not None else project.guaranteed or ONE
        self.priority = project.priority
        self.created = project.created
        self.usage = project.usage
        self.partition: PartitionKey = REMAINDER
        self.demand: Milli = 0
        self.spill: Milli = 0
        self.wanted: Milli = 0
        self.share: Milli = 0
        self.held: Milli = 0
        self.firm: Milli = 0
        self.leaving: Milli = 0
        self.caps: tuple[Cap, ...] = ()

    @property
    def due(self) -> Milli:
        """What the project may count on: the greater of guarantee and fair share, within its limit."""
        return min(self.limit, max(self.guarantee, self.share))

    def as_it_stands(self) -> Account:
        """A copy that does not change any more, without its place in the tree."""
        twin = Account.__new__(Account)
        twin.name, twin.guarantee, twin.limit = self.name, self.guarantee, self.limit
        twin.share, twin.held, twin.firm = self.share, self.held, self.firm
        twin.partition = self.partition
        twin.caps = tuple([cap.as_it_stands() for cap in self.caps])
        return twin

    def add(self, amount: Milli, firm: bool) -> None:
        """Hold `amount` more (or less, where it is negative)."""
        for account in self.path:
            account.held += amount
        if firm:
            for account in self.path:
                account.firm += amount

    def add_leaving(self, amount: Milli) -> None:
        """Hold `amount` more (or less) until those who leave are gone."""
        for account in self.path:
            account.leaving += amount

    def capped(self, amount: Milli) -> int:
        """The nodes in which `amount` more would break a limit of the path."""
        nodes = 0
        for account in self.path:
            for cap in account.caps:
                if cap.held + amount > cap.limit:
                    nodes |= cap.mask
        return nodes

    def over_limit(self, amount: Milli) -> Account | None:
        """The account of the path whose limit `amount` more would break."""
        for account in self.path:
            if account.held + amount > account.limit:
                return account
        return None

    def over_guarantee(self, amount: Milli) -> Account | None:
        """The account of the path whose guarantee `amount` more that can't be preempted would break."""
        for account in self.path:
            if account.firm + amount > account.guarantee:
                return account
        return None


def open_accounts(projects: Iterable[Project]) -> dict[str, Account]:
    """An account for every project, parents before their children, else in the order given."""
    by_name = {project.name: project for project in projects}
    accounts: dict[str, Account] = {}

    def open_one(project: Project) -> Account:
        if project.name not in accounts:
            above = by_name.get(project.parent) if project.parent is not None else None
            parent = open_one(above) if above is not None else None
            account = accounts[project.name] = Account(project, parent)
            if parent is not None:
                parent.children.append(account)
        return accounts[project.name]

    for project in by_name.values():
        open_one(project)
    return accounts


def parting(one: Account, other: Account) -> tuple[Account, Account]:
    """The two ancestors (or the accounts themselves) at which the paths of two different leaves part."""
    pairs = list(zip(reversed(one.path), reversed(other.path), strict=False))
    return next((mine, theirs) for mine, theirs in pairs if mine is not theirs)
