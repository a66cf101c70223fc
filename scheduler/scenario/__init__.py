"""Scenario files: a pool at one instant, as people write it, and the plan of the policy for it.

What must hold:
- Every mistake is refused with one sentence that names its place (`jobs[3].project`), before anything is printed.
- Times in a file are seconds from the snapshot's instant, which is 0 here; amounts are in GPUs, CPUs and GiB.
- The same file gives the same output, byte for byte.
"""

from scheduler.scenario.command import read, run_plan
from scheduler.scenario.printing import plan_as_json
from scheduler.scenario.writing import scenario_of, without_defaults

__all__ = ["plan_as_json", "read", "run_plan", "scenario_of", "without_defaults"]
