"""Python's own start in a PyTorch job (this folder is first in `PYTHONPATH`): its processes end as their scripts do.

A thread of gloo needs the interpreter to put its last work away, a moment after the script has the result. If Python is
being taken down by then, it unwinds the thread by force (before 3.14), through code that may not be, and the process
aborts, its work done: "terminate called without an active exception". On two cores one in five did. So a process waits
a moment first.
"""

import atexit
import importlib
import os
import sys
import time

_MOMENT = 0.25


@atexit.register
def _settle() -> None:
    if "torch.distributed" in sys.modules and sys.version_info < (3, 14):
        time.sleep(_MOMENT)


# The job's own `sitecustomize`, which this one stands before. Where it has none, Python expects just this ImportError.
sys.path.remove(os.path.dirname(__file__))
del sys.modules["sitecustomize"]
importlib.import_module("sitecustomize")
