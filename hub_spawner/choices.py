"""What a user may choose when a server starts: how many build GPUs, within their fixed quota, or a profile.

The form is HTML that the hub puts into its page; foreign text is escaped. The scheduler makes the final decision.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from html import escape
from pathlib import Path
from urllib.parse import quote

from scheduler.client import AsyncClient
from scheduler.model import ONE, BuildQuota, Environment, gpu_count
from scheduler.schema import SessionView

CPU_ONLY = 0.0
HALF = 0.5
SCRIPT = Path(__file__).with_name("templates") / "stop-server.js"


class Fit(Enum):
    """Whether a server can start: now, after waiting in line for GPUs, or not."""

    NOW = auto()
    IN_LINE = auto()
    NO = auto()


@dataclass(frozen=True)
class Choice:
    """A number of GPUs, or the profile of a name; `note` says whether they are available, or why not."""

    gpus: float
    note: str
    fit: Fit
    name: str | None = None
    details: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return self.name or ("CPU only" if self.gpus == CPU_ONLY else plain(self.gpus))


@dataclass(frozen=True)
class QuotaView:
    """One user's fixed quota, and how much of it their other servers hold; all build GPUs and the free ones. `parts` is
    into how many parts the nodes divide a GPU, as in `schema.NodeView`; `servers` are the other servers that hold GPUs,
    by name. `line` is how many servers wait in line for GPUs; None where starts do not wait. An `admin`'s server has no
    GPU unless they choose one: administering needs none."""

    quota: float
    held: float
    gpus: float
    free: float
    parts: frozenset[int] = frozenset({0})
    servers: tuple[tuple[str, float], ...] = ()
    line: int | None = None
    admin: bool = False

    @property
    def usual(self) -> float:
        """The default: one GPU, or as much as there is of one within the quota; none where the pool has no build
        GPUs, and for administrators."""
        if self.admin:
            return CPU_ONLY
        most = min(1.0, self.quota)
        if self.gpus and 0 in self.parts:
            return most
        return max((gpus for gpus in self._amounts() if gpus <= most), default=CPU_ONLY)

    def _amounts(self) -> list[float]:
        """What a server can have within the quota."""
        most = min(self.quota, self.gpus)
        shares = {ONE // parts / ONE for parts in self.parts if parts > 1} | ({HALF} if 0 in self.parts else set())
        whole = range(1, int(most) + 1) if self.parts & {0, 1} else ()
        return [*(share for share in sorted(shares) if share <= most), *map(float, whole)]

    def choices(self) -> list[Choice]:
        amounts = [*self._amounts(), CPU_ONLY]
        return [self._choice(gpus) for gpus in sorted(amounts, key=lambda gpus: (gpus != self.usual, not gpus, gpus))]

    def _choice(self, gpus: float) -> Choice:
        return Choice(gpus, *self.judge(gpus))

    def judge(self, gpus: float) -> tuple[str, Fit]:
        """Whether a server with so many GPUs can start, with the reason."""
        if gpus == CPU_ONLY:
            return "jobs can still use the train pool", Fit.NOW
        if gpus > self.quota:
            return f"more than your fixed quota of {self.quota:g}", Fit.NO
        if gpus > self.quota - self.held:
            return f"your other servers hold {self.held:g} of your fixed quota of {self.quota:g}", Fit.NO
        if gpus > self.gpus:
            return f"more than the {self.gpus:g} build GPUs of the pool", Fit.NO
        free = f"only {self.free:g}" if self.free else "none"
        taken = f"{free} of {self.gpus:g} build GPUs free now"
        if self.line:
            return f"waits in line: {self.line} {'server' if self.line == 1 else 'servers'} ahead", Fit.IN_LINE
        if gpus > self.free:
            return (taken, Fit.NO) if self.line is None else (f"waits in line: {taken}", Fit.IN_LINE)
        return f"fits: {self.held:g} of {self.quota:g} in use", Fit.NOW

    def fits(self, gpus: float) -> bool:
        return self.judge(gpus)[1] is Fit.NOW


def plain(gpus: float) -> str:
    if gpus == HALF:
        return "Half a GPU"
    share = round(gpus * ONE)
    if 0 < share < ONE and ONE // (parts := ONE // share) == share:
        return f"1/{parts} of a GPU"
    return gpu_count(share)


def place_in_line(session: SessionView) -> str:
    """`Number 2 in line for 1 GPU. GPUs are likely to be free at about 14:10 UTC.`"""
    place = "Next in line" if session.position == 1 else f"Number {session.position} in line"
    if session.estimated_start is None:
        when = "When GPUs become free is not known: the servers that hold them have no time limit."
    else:
        at = time.strftime("%H:%M %Z", time.localtime(session.estimated_start))
        when = f"GPUs are likely to be free at about {at}."
    return f"{place} for {plain(session.gpus).lower() if session.gpus < 1 else plain(session.gpus)}. {when}"


async def quota_view(
    client: AsyncClient,
    user: str,
    server: str | None = None,
    *,
    groups: Iterable[str] = (),
    waits: bool = False,
    admin: bool = False,
) -> QuotaView:
    """What `user`, who is in these groups, may have for `server`, beside what their other servers hold. `waits`: a
    start waits in line where no GPUs are free."""
    pool = await client.pool()
    file = await client.pool_file()
    users = {entry.name: entry.build_quota for entry in file.users}
    of_groups = {entry.name: entry.build_quota for entry in file.groups}
    quota = BuildQuota.of(user, groups, users, of_groups, file.default_build_quota).gpus
    listed = await client.session_list()
    mine = [each for each in listed.sessions if each.user == user and each.server != server]
    others = tuple((each.server, each.gpus) for each in mine if each.gpus)
    held = sum(gpus for _, gpus in others)
    parts = frozenset(node.gpu_parts for node in pool.nodes if node.environment is Environment.BUILD and node.gpus)
    line = len(listed.line) if waits else None
    return QuotaView(quota, held, pool.build.gpus, pool.build.free, parts, others, line, admin)


async def default_gpus(client: AsyncClient, user: str, *, groups: Iterable[str] = (), admin: bool = False) -> float:
    """The GPUs of a server whose user was not asked."""
    return (await quota_view(client, user, groups=groups, admin=admin)).usual


def form(choices: list[Choice]) -> str:
    chosen = min(choices, key=lambda choice: choice.fit.value)
    rows = "\n".join(_row(choice, checked=choice is chosen) for choice in choices)
    return f'<fieldset class="list-group mb-3"><legend>Start your notebook</legend>\n{rows}\n</fieldset>'


def _row(choice: Choice, *, checked: bool) -> str:
    possible = choice.fit is not Fit.NO
    state = ("checked" if checked else "") if possible else "disabled"
    field, value = ("gpus", f"{choice.gpus:g}") if choice.name is None else ("profile", escape(choice.name))
    details = "".join(f'<span class="d-block small">{escape(detail)}</span>' for detail in choice.details if detail)
    return (
        f'<label class="list-group-item d-flex gap-2 {"" if possible else "text-body-secondary"}">'
        f'<input class="form-check-input" type="radio" name="{field}" value="{value}" {state} required>'
        f"<span><strong>{escape(choice.title)}</strong>{details}</span>"
        f'<span class="ms-auto text-end text-body-secondary">{escape(choice.note)}</span></label>'
    )


def holders(user: str, view: QuotaView) -> str:
    """The user's other servers that hold GPUs, each with a button that stops it; empty where there are none."""
    if not view.servers:
        return ""
    rows = "\n".join(_holder(user, name, gpus) for name, gpus in view.servers)
    title = f"Your servers hold {view.held:g} of your fixed quota of {view.quota:g}"
    script = SCRIPT.read_text()
    return f'<fieldset class="list-group mb-3"><legend>{title}</legend>\n{rows}\n</fieldset>\n<script>{script}</script>'


def _holder(user: str, server: str, gpus: float) -> str:
    name = f"Server {server}" if server else "Default server"
    path = f"users/{quote(user, safe='')}/" + (f"servers/{quote(server, safe='')}" if server else "server")
    return (
        '<div class="list-group-item d-flex flex-wrap align-items-center gap-2">'
        f'<strong>{escape(name)}</strong><span class="text-body-secondary">{escape(plain(gpus))}</span>'
        '<span class="ms-auto text-danger-emphasis" role="alert"></span>'
        f'<button type="button" class="btn btn-sm btn-danger" data-stops="{escape(path)}" '
        f'aria-label="Stop {escape(name[0].lower() + name[1:])}">Stop</button></div>'
    )
