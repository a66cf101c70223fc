"""The service, that looks at GPUs ten times a second and warns for two seconds: for tests of what takes minutes."""

import sys

from scheduler.controller import gpumemory
from scheduler.service import app
from scheduler.service import gpumemory as watcher
from scheduler.telemetry import sampler

sampler.EVERY = watcher.EVERY = 0.1
gpumemory.WARNED, gpumemory.AGAIN = 2.0, 0.5

if __name__ == "__main__":
    sys.exit(app.main())
