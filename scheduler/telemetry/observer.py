"""Takes the samples of GPUs: keeps their history and notices the ones that fail."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from scheduler.telemetry.health import QUIET, XIDS, Health, judged
from scheduler.telemetry.history import HistoryFiles
from scheduler.telemetry.records import LEVELS, span_of
from scheduler.telemetry.sample import GpuSample

_log = logging.getLogger(__name__)


class Observer:
    """The GPUs of one machine. `latest` are their samples by device, `failures` the reasons of those that fail;
    `changed` is called when `failures` has changed. `recorded` is the end of the latest span in the history at the
    start."""

    def __init__(self, history: HistoryFiles, changed: Callable[[], None], devices: Iterable[str], now: float) -> None:
        self._history = history
        self._changed = changed
        self._written = True
        self.latest: Mapping[str, GpuSample] = {}
        self.failures: Mapping[str, str] = {}
        self.recorded = 0.0
        self._health = self._known_errors(devices, now)

    def take(self, samples: Mapping[str, GpuSample | None], now: float) -> None:
        """Take a sample of each GPU, `None` of one that does not respond."""
        before, self.latest = self.latest, {device: each for device, each in samples.items() if each is not None}
        self._health = {device: judged(self._health.get(device, Health()), samples[device], now) for device in samples}
        self._note({device: each.failure for device, each in self._health.items() if each.failure is not None})
        self._record(self.latest, before, int(now))

    def _known_errors(self, devices: Iterable[str], now: float) -> dict[str, Health]:
        """The errors of the hardware before the start."""
        found = {}
        for device in devices:
            spans = self._history.read(device, now - QUIET, now, now, int(QUIET) // LEVELS[0].step).spans
            errors = [Health(span.xid, span.start) for span in spans if span.xid in XIDS]
            if errors:
                found[device] = errors[-1]
            if spans:
                self.recorded = max(self.recorded, spans[-1].start + LEVELS[0].step)
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
