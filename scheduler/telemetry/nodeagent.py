"""`python -m scheduler.telemetry.nodeagent`: samples the GPUs of a node of a cluster, and sends the samples to the
scheduler.

What must hold:
- While the scheduler does not answer, the samples of the last hour are kept, and sent later.
- Samples may arrive twice: they are numbered. They have an age, so that the clocks of nodes need not agree.
- It needs no rights in the cluster. Its token, which is read anew for each request, only proves in which pod it runs.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from scheduler.errors import Unavailable
from scheduler.telemetry.nvml import NvmlGpus, find
from scheduler.telemetry.processes import process_of_pod
from scheduler.telemetry.sample import GpuSample
from scheduler.telemetry.sampler import EVERY

KEPT = int(3600 / EVERY)
"""How many samples are kept while the scheduler does not answer."""

AT_ONCE = 12
"""The most samples of a request."""

MOST_PROCESSES = 32
"""The most processes of a GPU in a sample, so that a request has less than a megabyte."""

UNUSABLE = (413, 422)
"""Statuses with which the same samples would be answered again."""

PATIENCE = 10.0
"""Seconds until an unanswered request fails."""

LONGEST = 60.0
"""The most seconds between two requests while the scheduler accepts no samples: each pause is twice the one before, so
that many agents do not keep a busy scheduler busy."""

NO_GPUS = 60.0
"""Seconds between two searches for GPUs where there are none, or their driver does not answer."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Taken:
    """A sample of all GPUs at an instant of the monotonic clock."""

    number: int
    at: float
    gpus: list[dict[str, Any]]


class Sender:
    """Sends samples to `url` with the token in a file. `every`: the seconds between two requests that the scheduler
    asks for."""

    def __init__(self, url: str, token: Path) -> None:
        self._url = url
        self._token = token
        self._run = secrets.token_hex(16)
        self._numbered = 0
        self._kept: deque[Taken] = deque(maxlen=KEPT)
        self._lost: set[str] = set()
        self._due = 0.0
        self._pause = EVERY
        self._refusal = ""

    def add(self, samples: Mapping[str, GpuSample | None]) -> None:
        """Keep a sample of each GPU by its device (`None`: it does not respond)."""
        self._numbered += 1
        gpus = [_as_json(device, sample) for device, sample in samples.items()]
        self._kept.append(Taken(self._numbered, time.monotonic(), gpus))
        lost = {device for device, sample in samples.items() if sample is None}
        if lost != self._lost or any(sample is not None and sample.xids for sample in samples.values()):
            self._due = 0.0  # at once: a GPU may fail
        self._lost = lost

    def send(self) -> None:
        """Send what has been kept, if it is time."""
        while self._kept and time.monotonic() >= self._due:
            first = list(islice(self._kept, AT_ONCE))
            every = self._post(first)
            if every is None:
                self._due = time.monotonic() + self._pause
                self._pause = min(2 * self._pause, LONGEST)
                return
            self._pause = EVERY
            for _ in first:
                self._kept.popleft()
            if not self._kept:
                self._due = time.monotonic() + every

    def _post(self, samples: list[Taken]) -> float | None:
        """Seconds until the next request; `None` if this one was not accepted."""
        now = time.monotonic()
        taken = [{"number": each.number, "age": now - each.at, "gpus": each.gpus} for each in samples]
        body = json.dumps({"run": self._run, "samples": taken}).encode()
        try:
            headers = {"Authorization": f"Bearer {self._token.read_text().strip()}", "Content-Type": "application/json"}
            with urlopen(Request(self._url, body, headers), timeout=PATIENCE) as answer:
                every = float(json.load(answer)["every"])
        except (OSError, HTTPException, ValueError, KeyError) as error:
            said = f"{error.code} {error.reason}" if isinstance(error, HTTPError) else str(error)
            if said != self._refusal:
                _log.warning("The scheduler at %s does not accept samples (%s).", self._url, said)
            self._refusal = said
            return EVERY if isinstance(error, HTTPError) and error.code in UNUSABLE else None
        if self._refusal:
            _log.warning("The scheduler accepts samples again.")
            self._refusal = ""
        return every


def _as_json(device: str, sample: GpuSample | None) -> dict[str, Any]:
    if sample is None:
        return {"device": device, "lost": True}
    processes = [
        {"pid": each.pid, "memory": each.memory, "pod": each.pod} for each in sample.processes[:MOST_PROCESSES]
    ]
    return {
        "device": device,
        "utilisation": sample.utilisation,
        "used": sample.used,
        "memory": sample.memory,
        "power": sample.power,
        "temperature": sample.temperature,
        "throttle": None if sample.throttle is None else int(sample.throttle),
        "corrected": sample.corrected,
        "uncorrected": sample.uncorrected,
        "xids": list(sample.xids),
        "reset_required": sample.reset_required,
        "processes": processes,
    }


def _gpus() -> NvmlGpus:
    """The GPUs of this node; waits for them."""
    said = ""
    while True:
        try:
            found = find(instances=False)  # of which the device plugin tells nobody who has which
            sentence = "NVML finds no GPU here."
        except Unavailable as error:
            found, sentence = None, error.sentence
        if found is not None:
            return NvmlGpus(found, process_of_pod)
        if sentence != said:
            _log.warning("%s Trying again every %g s.", sentence, NO_GPUS)
            said = sentence
        time.sleep(NO_GPUS)


def main() -> None:
    """Runs until it is ended."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    sender = Sender(os.environ["RUNAI_URL"].rstrip("/") + "/api/v1/node-samples", Path(os.environ["RUNAI_TOKEN_FILE"]))
    gpus = _gpus()
    for note in gpus.notes:
        _log.warning(note)
    while True:
        samples = gpus.sample()
        sender.add({device: samples.get(device) for device in gpus.devices})
        sender.send()
        time.sleep(EVERY)


if __name__ == "__main__":
    main()
