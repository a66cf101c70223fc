"""The exchange between an engine and the agents of its workers.

The engine starts an agent for each worker with the token that `admit` returns; everything else goes through here.

```
jobs/<id>/attempts/<n>/attempt.json           what its workers run
jobs/<id>/attempts/<n>/stop                   when the last of them has to have ended
jobs/<id>/attempts/<n>/save                   until when they were last asked to save their state
jobs/<id>/attempts/<n>/<rank>/agent.json      the agent that was accepted
jobs/<id>/attempts/<n>/<rank>/start.json      when the worker was started
jobs/<id>/attempts/<n>/<rank>/exit.json       how it ended
```

What must hold:
- All of these files are durable before anything acts on them.
- Only the first agent that presents a worker's token is accepted.
- A token is valid from `admit` until the end of its worker is durable, and gives access to that worker's data alone.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from scheduler import worker as beside
from scheduler.discovery.statefolder import StateFolder, write_durably
from scheduler.engines import outputs, throughput
from scheduler.engines.agents.live import LiveWorker, State
from scheduler.engines.agents.tokens import Tokens, Worker
from scheduler.engines.agents.uploads import DISPLAYS, DISPLAYS_FILE, REPORTS, Uploads
from scheduler.engines.base import Launch, Report, WorkerState, WorkerStatus
from scheduler.engines.contract import worker_spec
from scheduler.engines.errorexcerpt import TAIL, with_error
from scheduler.engines.rendezvous import Rendezvous
from scheduler.errors import Conflict, NotFound, Unavailable
from scheduler.model import AttemptKey, Fault, JobId

LOG_LIMIT = 2**30
"""Bytes of a worker's output that are kept."""

GLOO = "gloo/sitecustomize.py"
TOOLS = frozenset({"horovod.py", "mpi.py", GLOO})
"""The files of `scheduler.worker` that an agent needs beside the job's command."""


class Agents:
    """The agents of one state folder; `files` holds what they upload. `awaited` is whether a worker's attempt may still
    be accepted after its agent has started."""

    def __init__(self, folder: StateFolder, *, log_limit: int = LOG_LIMIT) -> None:
        self._folder = folder
        self.log_limit = log_limit
        self._live: dict[Worker, LiveWorker] = {}
        self._by_attempt: dict[tuple[JobId, int], dict[int, LiveWorker]] = {}
        self._turns: WeakValueDictionary[tuple[str, int], asyncio.Lock] = WeakValueDictionary()
        self._tokens: Tokens | None = None
        self._recovered = False
        self._report: Report | None = None
        self.awaited: Callable[[Worker], bool] = lambda worker: False
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
        self._by_attempt.clear()

    async def admit(
        self, launch: Launch, rendezvous: Rendezvous, kept: Mapping[str, Any] | None = None
    ) -> tuple[str, ...]:
        """Accept an attempt durably and return its workers' tokens, by rank. Idempotent.

        `kept` is what the engine needs to resume the attempt after a restart (`Agents.kept`).
        """
        file = self._attempt(launch.job, launch.attempt) / "attempt.json"
        async with self._turn(launch.job, launch.attempt):
            specs = [self._spec(launch, rank, rendezvous) for rank in range(rendezvous.size)]
            accepted = {"specs": specs, "ports": rendezvous.ports, "kept": kept}
            if await asyncio.to_thread(_write_new, file, accepted):
                await self._take_up(launch.job, launch.attempt)
        return self.tokens(launch.job, launch.attempt, rendezvous.size)

    def tokens(self, job: JobId, attempt: int, size: int) -> tuple[str, ...]:
        """The tokens of an attempt's workers, by rank."""
        assert self._tokens is not None
        return tuple(self._tokens.of(Worker(job, attempt, rank)) for rank in range(size))

    async def kept(self, job: JobId, attempt: int) -> Mapping[str, Any]:
        """The `kept` that was passed to `admit`."""
        known = await asyncio.to_thread(_read, self._attempt(job, attempt) / "attempt.json")
        return known.get("kept") or {}

    async def stop(self, job: JobId, attempt: int, grace: float) -> None:
        """Have the agents of an attempt stop their workers; an earlier deadline stays in force."""
        folder, end = self._attempt(job, attempt), time.time() + grace
        async with self._turn(job, attempt):
            before = (await asyncio.to_thread(_read, folder / "stop")).get("end", math.inf)
            if end < before:
                await asyncio.to_thread(_write, folder / "stop", {"end": end})
                for live in self._of(job, attempt):
                    live.order_stop(end)

    async def ask_to_save(self, job: JobId, attempt: int, until: float) -> None:
        """Have the agents of an attempt ask their workers to save their state; once for each `until`."""
        file = self._attempt(job, attempt) / "save"
        async with self._turn(job, attempt):
            lives = self._of(job, attempt)
            if lives and (await asyncio.to_thread(_read, file)).get("until", 0.0) < until:
                await asyncio.to_thread(_write, file, {"until": until})
                for live in lives:
                    live.order_save(until)

    async def recover(self, attempts: Iterable[tuple[JobId, int, int]]) -> frozenset[AttemptKey]:
        """Report the states of these attempts' workers and return the attempts that were never accepted. All other
        tokens become invalid."""
        never = set[AttemptKey]()
        for job, attempt, _ in attempts:
            if not await self._take_up(job, attempt):
                never.add(AttemptKey((job, attempt)))
        self._recovered = True
        return frozenset(never)

    async def lose(self, worker: Worker, reason: str, fault: Fault | None = None) -> None:
        """Report a worker as lost because its agent is gone for good; no effect if its end is known."""
        live = self._live.get(worker)
        if live is not None:
            async with live.turn:
                await self._end(live, WorkerState.LOST, time.time(), None, reason, fault)
            live.order()  # it asks again, if it still runs, and learns that the attempt is over

    async def never_start(self, worker: Worker) -> None:
        """Report a worker as stopped before its agent started."""
        live = self._live.get(worker)
        if live is not None:
            async with live.turn:
                reason = "it was stopped before it started."
                await self._end(live, WorkerState.EXITED, time.time(), None, reason, None, stopped=True)

    def live(self, worker: Worker) -> LiveWorker | None:
        """A worker that has not ended."""
        return self._live.get(worker)

    def running(self, job: JobId, attempt: int) -> tuple[Worker, ...]:
        """The workers of an attempt that have not ended."""
        return tuple(live.worker for live in self._of(job, attempt))

    # -- for agents -----------------------------------------------------------------------------------------

    def worker(self, token: str) -> LiveWorker | None:
        """The worker that a token belongs to; `None` if the token is not valid.

        Raises `Unavailable` before `recover`, after `close` and before the attempt is accepted, so that no agent
        concludes that its worker has ended.
        """
        if not self._recovered:
            raise Unavailable("The scheduler is starting or stopping; try again.")
        worker = None if self._tokens is None else self._tokens.worker(token)
        live = None if worker is None else self._live.get(worker)
        if live is None and worker is not None and self.awaited(worker):
            raise Unavailable("The job is being started; try again.")
        return live

    async def hear(self, live: LiveWorker, said: State) -> None:
        """Process a state that an agent reports. Raises `Conflict` if the agent was not accepted."""
        async with live.turn:
            if live.worker not in self._live:
                return  # a repeated report
            if live.agent is None:
                await asyncio.to_thread(_write, self.files.folder(live.worker) / "agent.json", {"agent": said.agent})
                live.agent = said.agent
            if live.agent != said.agent:
                raise Conflict(f"Another agent runs worker {live.worker.rank} already.")
            if said.started is not None and live.started is None:
                started = min(said.started, time.time())
                await asyncio.to_thread(_write, self.files.folder(live.worker) / "start.json", {"at": started})
                live.started = started
                self._be_ready(live)
            self._tell(live)
            at = min(said.at, time.time())
            if said.state is WorkerState.LOST:
                await self._end(live, said.state, at, None, said.reason, Fault.PLACE)
            elif said.state is WorkerState.EXITED and said.stopped and live.stop is None:
                # For example, its node is being drained. Whatever its exit code, it may have work left.
                reason = live.disturbed or "it was stopped, but not by the scheduler."
                await self._end(live, WorkerState.LOST, at, None, reason, live.disturbed_by)
            elif said.state is WorkerState.EXITED:
                await self._end(live, said.state, at, said.exit_code, said.reason, None, stopped=said.stopped)

    async def orders(
        self, live: LiveWorker, after: int, wait: float, *, ready: bool = False
    ) -> tuple[int, float | None, bool]:
        """The number of the latest order, the seconds until the worker must have ended (if any), and whether it may
        begin: all of its gang are `ready` or have begun.

        If `after` is the latest, waits up to `wait` seconds for another one.
        """
        if ready:
            self._be_ready(live)
        if live.orders == after:
            try:
                async with asyncio.timeout(wait):
                    await live.told.wait()
            except TimeoutError:
                pass
        stop = None if live.stop is None else max(0.0, live.stop - time.time())
        return live.orders, stop, not live.awaited

    def _be_ready(self, live: LiveWorker) -> None:
        if live.worker in live.awaited:
            live.awaited.discard(live.worker)
            if not live.awaited:
                for each in self._of(live.worker.job, live.worker.attempt):
                    each.order()

    def blob(self, live: LiveWorker, digest: str) -> None:
        """Raises `NotFound` if the blob is not part of the worker's job."""
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
            "names": sorted(set(rendezvous.addresses)) if rendezvous.ports else [],
            "grace": launch.program.grace,
            "log_limit": self.log_limit,
        }

    async def _take_up(self, job: JobId, attempt: int) -> bool:
        """Load the workers of an attempt and report their states; False if it was never accepted."""
        workers = await asyncio.to_thread(self._read_workers, job, attempt)
        for live, end in workers:
            self._tell(live)
            if end:
                await self._tell_end(live, end)
            else:
                self._live[live.worker] = live
                self._by_attempt.setdefault((job, attempt), {})[live.worker.rank] = live
        return bool(workers)

    def _read_workers(self, job: JobId, attempt: int) -> list[tuple[LiveWorker, dict[str, Any]]]:
        """The workers of an attempt, each with its end (empty until it ends). Reads all in one thread switch, which
        costs more than a read."""
        folder = self._attempt(job, attempt)
        known = _read(folder / "attempt.json")
        stop, save = _read(folder / "stop").get("end"), _read(folder / "save").get("until")
        workers = []
        awaited = {Worker(job, attempt, rank) for rank in range(len(known.get("specs", ())))}
        for rank, spec in enumerate(known.get("specs", ())):
            live = LiveWorker(Worker(job, attempt, rank), {**spec, "ports": known["ports"]}, awaited)
            own = self.files.folder(live.worker)
            live.agent = _read(own / "agent.json").get("agent")
            live.started = _read(own / "start.json").get("at")
            live.save = save
            if stop is not None:
                live.order_stop(stop)
            if live.started is not None:
                awaited.discard(live.worker)
            workers.append((live, _read(own / "exit.json")))
        return workers

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
        self._forget(live.worker)
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
        """Report the state of a worker that has not ended."""
        if self._report is not None:
            self._report(WorkerStatus(**asdict(live.worker), state=live.stands, at=live.started or time.time()))

    def _forget(self, worker: Worker) -> None:
        self._live.pop(worker, None)
        of_attempt = self._by_attempt.get((worker.job, worker.attempt), {})
        of_attempt.pop(worker.rank, None)
        if not of_attempt:
            self._by_attempt.pop((worker.job, worker.attempt), None)

    def _runs(self, job: JobId, worker: Worker | None) -> bool:
        """Whether a worker, or any worker of a job, has not ended."""
        return worker in self._live if worker else any(each.job == job for each in self._live)

    def _of(self, job: JobId, attempt: int) -> list[LiveWorker]:
        return list(self._by_attempt.get((job, attempt), {}).values())

    def _turn(self, job: JobId, attempt: int) -> asyncio.Lock:
        return self._turns.setdefault((job, attempt), asyncio.Lock())

    def _attempt(self, job: JobId, attempt: int) -> Path:
        return self.files.job(job) / "attempts" / str(attempt)


def tool(name: str) -> Path:
    """The path of one of `TOOLS`. Raises `NotFound` for any other name."""
    if name not in TOOLS:
        raise NotFound(f"There is no tool {name!r}.")
    return Path(beside.__file__).parent / name


def _write(file: Path, content: Mapping[str, Any]) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_durably(file, json.dumps(content))


def _write_new(file: Path, content: Mapping[str, Any]) -> bool:
    """Write a file that does not exist; False if it does."""
    if file.exists():
        return False
    _write(file, content)
    return True


def _read(file: Path) -> dict[str, Any]:
    """The content of a file; empty if it does not exist."""
    try:
        found: dict[str, Any] = json.loads(file.read_bytes())
    except FileNotFoundError:
        return {}
    return found
