"""A spawner that holds a lease: the part to mix into any JupyterHub spawner.

What must hold: a notebook server runs only with the GPUs of an open session of the scheduler; the session is closed
when the server has ended or failed to start, and not before; a restart of the hub keeps both. A session that cannot be
closed now, because the scheduler is down, is closed by the reconciliation later.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from jupyterhub.spawner import Spawner
from tornado.web import HTTPError
from traitlets import Any as AnyTrait
from traitlets import Enum, Float, List, TraitError, Unicode, default, validate

from hub_spawner.choices import Fit, default_gpus, form, holders, place_in_line, plain, quota_view
from hub_spawner.profiles import Profile, choices_of, missing_ide, named, offered, read_profiles
from hub_spawner.reconciliation import Reconciliation, groups_of
from scheduler.client import AsyncClient
from scheduler.errors import Invalid, RunaiError, Unavailable
from scheduler.model import SessionState, duration
from scheduler.schema import ServerPodView, SessionOpen, SessionView

try:
    from jupyterhub.spawner import SpawnException
except ImportError:  # JupyterHub 5
    SpawnException = None

NO_GPUS = {"CUDA_VISIBLE_DEVICES": "", "RUNAI_GPUS": ""}
"""The environment of a server without a lease: it must not see the machine's GPUs either."""


def refusal(error: RunaiError) -> HTTPError:
    """The error page of a user, on every version of the hub."""
    status = error.status if error.status < 500 else 503
    if SpawnException is not None:
        refused: HTTPError = SpawnException(error.sentence, reason=error.slug, status_code=status)
    else:
        refused = HTTPError(status, error.sentence)
        refused.jupyterhub_message = error.sentence  # type: ignore[attr-defined]
    return refused


@dataclass
class Lease:
    """A session of the scheduler, as stored by its spawner; `pod` only until its server has started."""

    id: str
    gpus: float
    env: dict[str, str] = field(default_factory=dict)
    pod: ServerPodView | None = field(default=None, compare=False)
    closed: bool = field(default=False, compare=False)

    def state(self) -> dict[str, Any]:
        return {"id": self.id, "gpus": self.gpus, "env": self.env}


class LeaseSpawner(Spawner):
    """Leases build GPUs for the server and puts them into its environment."""

    scheduler_url = Unicode(help="The scheduler's address.").tag(config=True)
    scheduler_token = Unicode(help="A token with the scope custom:runai:admin.").tag(config=True)
    scheduler_timeout = Float(30, help="Seconds to wait for a scheduler that is still starting.").tag(config=True)
    ask = Enum(
        ["always", "when_needed"],
        default_value="always",
        help="When to ask how many GPUs a server gets: at every start, or only where the usual choice does not fit. "
        "Administrators are always asked; their usual choice is no GPU.",
    ).tag(config=True)

    longest_wait = Float(
        3600,
        min=0,
        help="Seconds that a start waits in line where no GPUs are free; 0: it is refused. `start_timeout` does not "
        "include them.",
    ).tag(config=True)

    profiles: List[Any] = List(
        help="What users choose from instead of a number of GPUs: dicts with a `name` and, optional, `description`, "
        "`gpus`, `cpus`, `memory_gib`, `image`, `ide` and `groups`."
    ).tag(config=True)

    lease = AnyTrait(help="The Lease, or None.")
    gpus = Float(None, allow_none=True, help="What the user asked for; None: the usual choice.")

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._said: list[str] = []
        self._said_more = asyncio.Event()
        self._opened = False
        self._set_aside: dict[str, Any] = {}
        self._own_start_timeout = self.start_timeout
        self.start_timeout += math.ceil(self.longest_wait)  # the hub reads it before the start
        if self.user is not None:
            self._reconciliation()

    @validate("profiles")
    def _validate_profiles(self, proposal: Any) -> list[Any]:
        try:
            return list(read_profiles(proposal["value"], type(self)))
        except Invalid as error:
            raise TraitError(error.sentence) from error

    # -- what the user asks for --------------------------------------------------------------------------

    @default("options_form")
    def _default_options_form(self) -> Any:
        return start_form

    @default("options_from_form")
    def _default_options_from_form(self) -> Any:
        return lambda form: {key: form[key][0] for key in ("gpus", "profile") if form.get(key)}

    @default("apply_user_options")
    def _default_apply_user_options(self) -> Any:
        return LeaseSpawner._apply_choice

    def _apply_choice(self, options: dict[str, Any]) -> None:
        """Read `profile` or `gpus` from the untrusted input of a form or of the hub's API."""
        if not self.profiles:
            self._apply_gpus(options)
            return
        for name, value in self._set_aside.items():  # an earlier start may have failed with another profile
            setattr(self, name, value)
        try:
            mine = self.offered_profiles()
            if "gpus" in options and "profile" not in options:
                raise Invalid("This hub offers profiles; choose one instead of a number of GPUs.", field="gpus")
            profile = named(mine, options.get("profile", mine[0].name))
            if missing := missing_ide(profile, self):
                raise Invalid(f"{missing}; choose another profile.", field="profile")
            traits = profile.traits()
        except RunaiError as error:
            raise refusal(error) from error
        self._set_aside = {name: getattr(self, name) for name in traits}
        for name, value in traits.items():
            setattr(self, name, value)

    def offered_profiles(self) -> list[Profile]:
        """The profiles of this server's user, the usual choice first: for administrators one without GPUs."""
        found = offered(self.profiles, groups_of(self.user))
        return sorted(found, key=lambda profile: bool(profile.gpus)) if self.user.admin else found

    def _apply_gpus(self, options: dict[str, Any]) -> None:
        """Read the untrusted `gpus`."""
        asked = options.get("gpus")
        if asked is None:
            self.gpus = None
            return
        try:
            gpus = float(asked)
        except (TypeError, ValueError):
            gpus = -1
        if not math.isfinite(gpus) or gpus < 0:
            raise refusal(RunaiError("Ask for a number of GPUs: 0 for none, 0.5 for half a GPU, 1, 2 and so on."))
        self.gpus = gpus

    # -- start and stop ----------------------------------------------------------------------------

    async def start(self) -> Any:
        self._said, self._opened = [], False
        try:
            self.lease = await self._open()
            self._opened = True
            async with asyncio.timeout(self._own_start_timeout):
                return await super().start()
        except BaseException:
            # Also if the hub timed out while the scheduler was answering: then the lease is unknown.
            await asyncio.shield(self._release(self.lease))
            self._reconciliation().begin()
            self.lease = None
            raise

    async def stop(self, now: bool = False) -> None:
        lease = self.lease
        try:
            await super().stop(now)
        finally:
            await self._release(lease)

    async def poll(self) -> int | None:
        lease = self.lease
        status: int | None = await super().poll()
        if status is not None and lease is not None:
            if self._start_pending:
                self.lease = lease  # the caller releases it, also where polling clears the state
            else:
                await self._release(lease)
                self.lease = None
        return status

    def get_env(self) -> dict[str, str]:
        env: dict[str, str] = super().get_env()
        return {"RUNAI_URL": self.scheduler_url, **env, **(self.lease.env if self.lease else NO_GPUS)}

    def get_state(self) -> dict[str, Any]:
        state: dict[str, Any] = super().get_state()
        if self.lease is not None:
            state["lease"] = self.lease.state()
        return state

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        lease = state.get("lease")
        self.lease = Lease(**lease) if lease else None

    def clear_state(self) -> None:
        super().clear_state()
        self.lease = None

    async def progress(self) -> AsyncIterator[dict[str, Any]]:
        told = 0
        while not (self._opened and told == len(self._said)):
            if told == len(self._said):
                self._said_more.clear()
                await self._said_more.wait()
            else:
                told += 1
                yield {"progress": min(10 * told, 50), "message": self._said[told - 1]}
        async for event in super().progress():
            yield event

    # -- the lease ---------------------------------------------------------------------------------------

    def client(self) -> AsyncClient:
        return AsyncClient(self.scheduler_url, token=self.scheduler_token)

    def adopt(self, session: SessionView) -> None:
        """Adopt the lease that an earlier hub opened for this server."""
        self.lease = Lease(session.id, session.gpus, session.env)

    def _reconciliation(self) -> Reconciliation:
        return Reconciliation.of_hub(self.user.settings, self.client, self.log)

    async def _open(self) -> Lease | None:
        """The lease of this server, or None where it gets no GPU; a refusal with the scheduler's sentence."""
        await self._reconciliation().settled(self.scheduler_timeout)
        try:
            async with self.client() as client:
                usual = await self._usual_gpus(client)
                gpus = usual if self.gpus is None else self.gpus
                if not gpus:
                    self._say("No GPU for this server; jobs can still use the train pool.")
                    return None
                self._say(f"Leasing {plain(gpus)} …")
                groups = groups_of(self.user)
                asked = SessionOpen(user=self.user.name, server=self.name, gpus=gpus, groups=groups)
                session = await self._lease_of(client, asked)
                self._say(f"{plain(gpus)} leased.")
                return Lease(session.id, session.gpus, session.env, session.pod)
        except RunaiError as error:
            raise refusal(error) from error

    async def _lease_of(self, client: AsyncClient, asked: SessionOpen) -> SessionView:
        """The lease, after waiting in line for it; a server that does not get one leaves the line."""
        if not self.longest_wait:
            return await client.open_session(asked)
        begun = time.time()
        asked = asked.model_copy(update={"wait": True, "since": begun})
        session = None
        try:
            while True:
                session = await self._asked(client, asked, in_line=session is not None)
                if session.state is not SessionState.REQUESTED:
                    return session
                self._say(place_in_line(session))
                if time.time() - begun > self.longest_wait:
                    raise Unavailable(f"{session.reason} Its turn did not come within {duration(self.longest_wait)}.")
        except BaseException:
            if session is not None and session.state is SessionState.REQUESTED:
                await asyncio.shield(self._leave(client, session))
            raise

    async def _asked(self, client: AsyncClient, asked: SessionOpen, *, in_line: bool) -> SessionView:
        """The answer of the scheduler; who stands in line keeps the place while the scheduler is restarted."""
        until = asyncio.get_running_loop().time() + self.scheduler_timeout
        while True:
            try:
                return await client.open_session(asked)
            except Unavailable:
                if not in_line or asyncio.get_running_loop().time() > until:
                    raise
            await asyncio.sleep(0.3)

    async def _leave(self, client: AsyncClient, session: SessionView) -> None:
        with contextlib.suppress(RunaiError):  # it has left anyway if it does not ask again
            await client.close_session(session.id)

    async def _usual_gpus(self, client: AsyncClient) -> float:
        """The server's GPUs where the user was not asked; waits for the scheduler."""
        until = asyncio.get_running_loop().time() + self.scheduler_timeout
        while True:
            try:
                user = self.user
                return await default_gpus(client, user.name, groups=groups_of(user), admin=user.admin)
            except Unavailable:
                if asyncio.get_running_loop().time() > until:
                    raise
            self._say("Waiting for the GPU scheduler …")
            await asyncio.sleep(0.3)

    async def _release(self, lease: Lease | None) -> None:
        """Close the lease's session; later, when the scheduler cannot be reached now."""
        if lease is None or lease.closed:
            return
        lease.closed = True
        try:
            async with self.client() as client:
                await client.close_session(lease.id)
        except RunaiError as error:
            if error.status >= 500:
                self.log.warning("The lease of %s is closed later: %s", self._log_name, error.sentence)
                self._reconciliation().begin()

    def _say(self, sentence: str) -> None:
        if sentence not in self._said[-1:]:
            self._said.append(sentence)
            self._said_more.set()


async def start_form(spawner: LeaseSpawner) -> str:
    """The form, or nothing where the user need not be asked."""
    user = spawner.user
    try:
        profiles = spawner.offered_profiles() if spawner.profiles else []
    except RunaiError as error:
        raise refusal(error) from error
    try:
        async with spawner.client() as client:
            waits = spawner.longest_wait > 0
            view = await quota_view(
                client, user.name, spawner.name, groups=groups_of(user), waits=waits, admin=user.admin
            )
    except RunaiError:  # the start waits for the scheduler, or reports the error
        return form(choices_of(profiles, None, spawner)) if profiles else ""
    choices = choices_of(profiles, view, spawner) if profiles else view.choices()
    usual_fits = choices[0].fit is Fit.NOW if profiles else view.fits(view.usual)
    if spawner.ask == "when_needed" and usual_fits and not user.admin:
        return ""
    return holders(user.name, view) + form(choices)
