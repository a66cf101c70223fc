"""A process is never taken for a later one with its number."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

from scheduler.telemetry.processes import end, process, runs


def test_only_the_process_that_was_seen_is_ended() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        seen = process(child.pid, 100)
        assert (seen.memory, seen.uid, runs(seen)) == (100, os.geteuid(), True)
        assert seen.started is not None
        earlier = replace(seen, started=seen.started - 1)
        assert not runs(earlier)
        assert not end(earlier, force=True)
        assert child.poll() is None
        assert end(seen, force=False)
        assert child.wait(30) == -15
        assert not end(seen, force=True)
    finally:
        child.kill()
        child.communicate()
    assert process(child.pid, None).started is None
