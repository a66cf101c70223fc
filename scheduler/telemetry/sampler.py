"""Samples the GPUs of a machine every few seconds, in a thread: keeps their history and notices the ones that fail."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from scheduler.telemetry.history import HistoryFiles
from scheduler.telemetry.machine_gpus import MachineGpus
from scheduler.telemetry.observer import Observer
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
        self._clock = clock
        self._begun, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpu-sampler", daemon=True)
        self._observer = Observer(history, changed, gpus.devices, clock())

    @property
    def latest(self) -> Mapping[str, GpuSample]:
        return self._observer.latest

    @property
    def failures(self) -> Mapping[str, str]:
        return self._observer.failures

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
        samples = self._gpus.sample()
        self._observer.take({device: samples.get(device) for device in self._gpus.devices}, self._clock())

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self.take()
            except Exception:
                _log.exception("The GPUs could not be sampled; trying again in %g s.", EVERY)
            self._begun.set()
            self._ended.wait(EVERY)
