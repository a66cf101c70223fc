"""Samples the GPUs of a machine every few seconds, in a thread: keeps their history and notices the ones that fail."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from scheduler.telemetry.health import QUIET, XIDS, Health, judged
from scheduler.telemetry.history import HistoryFiles
from scheduler.telemetry.machine_gpus import MachineGpus
from scheduler.telemetry.records import LEVELS, span_of
from scheduler.telemetry.sample import GpuSample

EVERY = 5.0
"""Seconds between two samples."""

STARTING = 10.0
"""For how many seconds the driver may take to answer when the scheduler starts."""

ENDING = 5.0
"""For how many seconds the driver may take to answer when the scheduler stops."""

_log = logging.getLogger(__name__)


class Sampler:
    """`latest` are the samples by device, `failures` the reasons of the GPUs that fail. `changed` is called, in the
    sampling thread, when `failures` has changed."""

    def __init__(
        self,
        gpus: MachineGpus,
        history: HistoryFiles,
        changed: Callable[[], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._gpus = gpus
        self._history = history
        self._changed = changed
        self._clock = clock
        self._begun, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpu-sampler", daemon=True)
        self._written = True
        self._health = self._known_errors()
        self.latest: Mapping[str, GpuSample] = {}
        self.failures: Mapping[str, str] = {}

    def start(self) -> None:
        """Start the thread, and wait until it has taken the first sample, so that no GPU that fails gets work."""
        self._thread.start()
        if not self._begun.wait(STARTING):
            _log.warning("The driver has not answered for %g s; the pool starts without samples.", STARTING)

    def close(self) -> bool:
        """Stop; false where the driver does not answer."""
        self._ended.set()
        self._thread.join(ENDING)
        return not self._thread.is_alive()

    def take(self) -> None:
        """Take one sample of each GPU."""
        samples, now = self._gpus.sample(), self._clock()
        before, self.latest = self.latest, samples
        self._health = {
            device: judged(self._health.get(device, Health()), samples.get(device), now)
            for device in self._gpus.devices
        }
        self._note({device: each.failure for device, each in self._health.items() if each.failure is not None})
        self._record(samples, before, int(now))

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self.take()
            except Exception:
                _log.exception("The GPUs could not be sampled; trying again in %g s.", EVERY)
            self._begun.set()
            self._ended.wait(EVERY)

    def _known_errors(self) -> dict[str, Health]:
        """The errors of the hardware before the scheduler was started."""
        now, found = self._clock(), {}
        for device in self._gpus.devices:
            spans = self._history.read(device, now - QUIET, now, now, int(QUIET) // LEVELS[0].step).spans
            errors = [Health(span.xid, span.start) for span in spans if span.xid in XIDS]
            if errors:
                found[device] = errors[-1]
        return found

    def _note(self, failures: Mapping[str, str]) -> None:
        before, self.failures = self.failures, failures
        for device, reason in failures.items():
            if before.get(device) is None:
                _log.warning("GPU %s gets no more work. %s", device, reason)
        for device in before.keys() - failures.keys():
            _log.warning("GPU %s works again and gets work.", device)
        if failures != before:
            self._changed()

    def _record(self, samples: Mapping[str, GpuSample], before: Mapping[str, GpuSample], now: int) -> None:
        try:
            for device, sample in samples.items():
                self._history.add(device, span_of(sample, before.get(device), now))
        except OSError as error:
            if self._written:
                _log.warning("The history of the GPUs cannot be written: %s", error)
            self._written = False
        else:
            self._written = True
