"""What an engine tells the agents of its workers, and what they tell it.

The engine starts an agent for each worker, somewhere, with the token that `admit` gives; everything else goes through
here.

```
jobs/<id>/attempts/<n>/attempt.json           what its workers run
jobs/<id>/attempts/<n>/stop                   when the last of them has to have ended
jobs/<id>/attempts/<n>/<rank>/agent.json      the agent that was accepted
jobs/<id>/attempts/<n>/<rank>/start.json      when the worker was started
jobs/<id>/attempts/<n>/<rank>/exit.json       how it ended
```

What must hold:
- All of these are durable before anybody acts on them.
- Of the agents that come with a worker's token the first is accepted, and no other ever.
- A token is good from `admit` until the end of its worker is durable, and for what is that worker's alone.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from scheduler import worker as beside
from scheduler.discovery.statefolder import StateFolder, write_durably
from scheduler.engines import outputs, throughput
from scheduler.engines.agents.tokens import Tokens, Worker
from scheduler.engines.agents.uploads import DISPLAYS, DISPLAYS_FILE, REPORTS, Uploads
from scheduler.engines.base import Launch, Report, WorkerState, WorkerStatus
from scheduler.engines.contract import worker_spec
from scheduler.engines.errorexcerpt import TAIL, with_error
from scheduler.engines.rendezvous import Rendezvous
from scheduler.errors import Conflict, NotFound, Unavailable
from scheduler.model import AttemptKey, Fault, JobId

LOG_LIMIT = 2**30
"""Bytes of output that are kept of a worker."""

GLOO = "gloo/sitecustomize.py"
TOOLS = frozenset({"horovod.py", "mpi.py", GLOO})
"""The files of `scheduler.worker` that stand beside a job's command."""


@dataclass(slots=True)
class LiveWorker:
    """A worker that is not over. `orders` counts what its agent is told; `stop` is when it has to have ended.

    `disturbed` is how others are ending it, as far as the engine has seen that.
    """

    worker: Worker
    spec: Mapping[str, Any]
    agent: str | None = None
    started: float | None = None
    stop: float | None = None
    orders: int = 0
    disturbed: str = ""
    told: asyncio.Event = field(default_factory=asyncio.Event)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def stands(self) -> WorkerState:
        if self.started is not None:
            return WorkerState.RUNNING
        return WorkerState.PENDING if self.agent is None else WorkerState.PULLING

    def order_stop(self, end: float) -> None:
        if self.stop is None or end < self.stop:
            self.stop, self.orders = end, self.orders + 1
            self.told.set()
            self.told = asyncio.Event()


@dataclass(frozen=True, slots=True)
class State:
    """What an agent says of its worker: `pulling`, `running` (since `started`), `exited` or `lost` (at `at`)."""

    agent: str
    state: WorkerState
    at: float = 0.0
    started: float | None = None
    exit_code: int | None = None
    reason: str = ""
    stopped: bool | None = None


class Agents:
    """Those of one state folder; `files` are what they upload."""

    def __init__(self, folder: StateFolder, *, log_limit: int = LOG_LIMIT) -> None:
        self._folder = folder
        self.log_limit = log_limit
        self._live: dict[Worker, LiveWorker] = {}
        self._turns: WeakValueDictionary[tuple[str, int], asyncio.Lock] = WeakValueDictionary()
        self._tokens: Tokens | None = None
        self._recovered = False
        self._report: Report | None = None
        self.files = Uploads(folder.path, log_limit, self._runs)

    # -- for the engine -------------------------------------------------------------------------------------

    async def open(self, report: Report) -> None:
        self._tokens = await asyncio.to_thread(Tokens, self._folder)
        self._report = report

    async def close(self) -> None:
        self._report = None
        self._recovered = False
        for live in self._live.values():
            live.told.set()
        self._live.clear()

    async def admit(
        self, launch: Launch, rendezvous: Rendezvous, kept: Mapping[str, Any] | None = None
    ) -> tuple[str, ...]:
        """Accept an attempt, durably; returns the token of each of its workers, by rank. Harmless if it was accepted.

        `kept` is what the engine needs to begin again with it after a restart (`Agents.kept`).
        """
        file = self._attempt(launch.job, launch.attempt) / "attempt.json"
        async with self._turn(launch.job, launch.attempt):
            if not await asyncio.to_thread(file.exists):
                specs = [self._spec(launch, rank, rendezvous) for rank in range(rendezvous.size)]
                await asyncio.to_thread(_write, file, {"specs": specs, "ports": rendezvous.ports, "kept": kept})
                await self._take_up(launch.job, launch.attempt)
        return self.tokens(launch.job, launch.attempt, rendezvous.size)

    def tokens(self, job: JobId, attempt: int, size: int) -> tuple[str, ...]:
        """The tokens of an attempt's workers, by rank."""
        assert self._tokens is not None
        return tuple(self._tokens.of(Worker(job, attempt, rank)) for rank in range(size))

    async def kept(self, job: JobId, attempt: int) -> Mapping[str, Any]:
        """What `admit` was given to keep."""
        known = await asyncio.to_thread(_read, self._attempt(job, attempt) / "attempt.json")
        return known.get("kept") or {}

    async def stop(self, job: JobId, attempt: int, grace: float) -> None:
        """Have the agents of an attempt stop their workers; an earlier end holds."""
        folder, end = self._attempt(job, attempt), time.time() + grace
        async with self._turn(job, attempt):
            before = (await asyncio.to_thread(_read, folder / "stop")).get("end", math.inf)
            if end < before:
                await asyncio.to_thread(_write, folder / "stop", {"end": end})
                for live in self._of(job, attempt):
                    live.order_stop(end)

    async def recover(self, attempts: Iterable[tuple[JobId, int, int]]) -> frozenset[AttemptKey]:
        """Report how the workers of these attempts stand; returns those that were never accepted. No other token is
        good."""
        never = set[AttemptKey]()
        for job, attempt, _ in attempts:
            if not await self._take_up(job, attempt):
                never.add(AttemptKey((job, attempt)))
        self._recovered = True
        return frozenset(never)

    async def lose(self, worker: Worker, reason: str, fault: Fault | None = None) -> None:
        """A worker's agent is gone and will not come back; nothing, where its end is known."""
        live = self._live.get(worker)
        if live is not None:
            async with live.turn:
                await self._end(live, WorkerState.LOST, time.time(), None, reason, fault)

    async def never_start(self, worker: Worker) -> None:
        """A worker was stopped before its agent began, and none will come."""
        live = self._live.get(worker)
        if live is not None:
            async with live.turn:
                reason = "it was stopped before it started."
                await self._end(live, WorkerState.EXITED, time.time(), None, reason, None, stopped=True)

    def live(self, worker: Worker) -> LiveWorker | None:
        """A worker that is not over."""
        return self._live.get(worker)

    def running(self, job: JobId, attempt: int) -> tuple[Worker, ...]:
        """The workers of an attempt that are not over."""
        return tuple(live.worker for live in self._of(job, attempt))

    # -- for agents -----------------------------------------------------------------------------------------

    def worker(self, token: str) -> LiveWorker | None:
        """The worker whose token this is; `None` where it is not good, or no longer.

        Raises `Unavailable` where nobody can say: before `recover` and after `close` no agent is to believe that it is
        over.
        """
        if not self._recovered:
            raise Unavailable("The scheduler is starting or stopping; try again.")
        worker = None if self._tokens is None else self._tokens.worker(token)
        return None if worker is None else self._live.get(worker)

    async def hear(self, live: LiveWorker, said: State) -> None:
        """An agent tells how its worker stands. Raises `Conflict` for one that was not accepted."""
        async with live.turn:
            if live.worker not in self._live:
                return  # it has said so before
            if live.agent is None:
                await asyncio.to_thread(_write, self.files.folder(live.worker) / "agent.json", {"agent": said.agent})
                live.agent = said.agent
            if live.agent != said.agent:
                raise Conflict(f"Another agent runs worker {live.worker.rank} already.")
            if said.started is not None and live.started is None:
                started = min(said.started, time.time())
                await asyncio.to_thread(_write, self.files.folder(live.worker) / "start.json", {"at": started})
                live.started = started
            self._tell(live)
            at = min(said.at, time.time())
            if said.state is WorkerState.LOST:
                await self._end(live, said.state, at, None, said.reason, Fault.PLACE)
            elif said.state is WorkerState.EXITED and said.stopped and live.stop is None:
                # Its node is being drained, say. However it has ended then, it may have work left.
                reason = live.disturbed or "it was stopped, but not by the scheduler."
                await self._end(live, WorkerState.LOST, at, None, reason, Fault.PLACE)
            elif said.state is WorkerState.EXITED:
                await self._end(live, said.state, at, said.exit_code, said.reason, None, stopped=said.stopped)

    async def orders(self, live: LiveWorker, after: int, wait: float) -> tuple[int, float | None]:
        """The number of the newest order, and in how many seconds the worker has to have ended, if it has to.

        Where `after` is the newest, another is waited for, for `wait` seconds.
        """
        if live.orders == after:
            try:
                async with asyncio.timeout(wait):
                    await live.told.wait()
            except TimeoutError:
                pass
        return live.orders, None if live.stop is None else max(0.0, live.stop - time.time())

    def blob(self, live: LiveWorker, digest: str) -> None:
        """Raises `NotFound` where a job has not sent this blob."""
        blobs = {blob for file in live.spec["files"] for blob in file["blobs"]} | {live.spec["bundle"]}
        if digest not in blobs:
            raise NotFound(f"The job has no blob {digest}.")

    # -- inside ---------------------------------------------------------------------------------------------

    def _spec(self, launch: Launch, rank: int, rendezvous: Rendezvous) -> dict[str, Any]:
        spec = worker_spec(launch, rank, rendezvous)
        tools = [spec.wrapper.file] if spec.wrapper else []
        streams = {REPORTS: throughput.FILE}
        if rank == 0:
            streams[DISPLAYS] = DISPLAYS_FILE.format(launch.attempt)
        return {
            "command": spec.command,
            "env": spec.env,
            "own": spec.own,
            "wrapper": asdict(spec.wrapper) if spec.wrapper else None,
            "python_path": spec.python_path,
            "tools": [*tools, GLOO] if spec.python_path else tools,
            "bundle": launch.program.bundle,
            "files": [asdict(file) for file in launch.program.files],
            "streams": streams,
            "grace": launch.program.grace,
            "log_limit": self.log_limit,
        }

    async def _take_up(self, job: JobId, attempt: int) -> bool:
        """Know the workers of an attempt as they stand, and tell; False where it was never accepted."""
        folder = self._attempt(job, attempt)
        known = await asyncio.to_thread(_read, folder / "attempt.json")
        stop = (await asyncio.to_thread(_read, folder / "stop")).get("end")
        for rank, spec in enumerate(known.get("specs", ())):
            live = LiveWorker(Worker(job, attempt, rank), {**spec, "ports": known["ports"]})
            own = self.files.folder(live.worker)
            live.agent = (await asyncio.to_thread(_read, own / "agent.json")).get("agent")
            live.started = (await asyncio.to_thread(_read, own / "start.json")).get("at")
            end = await asyncio.to_thread(_read, own / "exit.json")
            if stop is not None:
                live.order_stop(stop)
            self._tell(live)
            if end:
                await self._tell_end(live, end)
            else:
                self._live[live.worker] = live
        return bool(known)

    async def _end(
        self,
        live: LiveWorker,
        state: WorkerState,
        at: float,
        code: int | None,
        reason: str,
        fault: Fault | None,
        *,
        stopped: bool | None = None,
    ) -> None:
        if self._live.get(live.worker) is not live:
            return
        end = {"state": state, "at": at, "exit_code": code, "reason": reason, "fault": fault, "stopped": stopped}
        await asyncio.to_thread(self.files.keep, live.worker)
        await asyncio.to_thread(_write, self.files.folder(live.worker) / "exit.json", end)
        self._live.pop(live.worker, None)
        await self._tell_end(live, end)
        self.files.tell(live.worker)

    async def _tell_end(self, live: LiveWorker, end: Mapping[str, Any]) -> None:
        worker = live.worker
        log = await asyncio.to_thread(outputs.tail, self.files.folder(worker), "log", TAIL)
        output = self.files.job(worker.job) / "output"
        reports = await asyncio.to_thread(outputs.tail, output, throughput.FILE, throughput.TAIL)
        speed = throughput.steps_per_second(reports, worker.attempt) if worker.rank == 0 else None
        status = WorkerStatus(
            **asdict(worker),
            state=WorkerState(end["state"]),
            at=end["at"],
            exit_code=end["exit_code"],
            reason=end["reason"],
            throughput=speed,
            fault=None if end["fault"] is None else Fault(end["fault"]),
            stopped=end.get("stopped"),
        )
        if status.state is WorkerState.EXITED:
            failed = log.decode(errors="replace") if status.exit_code else ""
            status = with_error(status, failed, live.spec["ports"], started=live.started is not None)
        if self._report is not None:
            self._report(status)

    def _tell(self, live: LiveWorker) -> None:
        """How it stands on its way."""
        if self._report is not None:
            self._report(WorkerStatus(**asdict(live.worker), state=live.stands, at=live.started or time.time()))

    def _runs(self, job: JobId, worker: Worker | None) -> bool:
        """Whether a worker, or any of a job, is not over."""
        return worker in self._live if worker else any(each.job == job for each in self._live)

    def _of(self, job: JobId, attempt: int) -> list[LiveWorker]:
        return [live for worker, live in self._live.items() if (worker.job, worker.attempt) == (job, attempt)]

    def _turn(self, job: JobId, attempt: int) -> asyncio.Lock:
        return self._turns.setdefault((job, attempt), asyncio.Lock())

    def _attempt(self, job: JobId, attempt: int) -> Path:
        return self.files.job(job) / "attempts" / str(attempt)


def tool(name: str) -> Path:
    """Where one of `TOOLS` is. Raises `NotFound` for any other."""
    if name not in TOOLS:
        raise NotFound(f"There is no tool {name!r}.")
    return Path(beside.__file__).parent / name


def _write(file: Path, content: Mapping[str, Any]) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_durably(file, json.dumps(content))


def _read(file: Path) -> dict[str, Any]:
    """Empty where there is no such file."""
    try:
        found: dict[str, Any] = json.loads(file.read_bytes())
    except FileNotFoundError:
        return {}
    return found
