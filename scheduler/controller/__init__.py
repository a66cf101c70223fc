"""The loop that joins all rooms: observe → snapshot → plan → act → record.

`Controller` is its interface, and everybody may read `Book`. Inside: `submissions`, `jobs`, `sessions` and `deletion`
take requests; `lifecycle`, `session_lifecycle`, `admission` and `notices` are pure; the `statewriter` makes changes
durable and then applies them to the book; the `workertracker` has workers launched and stopped; the `planner` wakes the
policy; the `forecaster` looks ahead, with what `runtimes` has learned of how long jobs run; the `feed` publishes
events.
"""

from __future__ import annotations

from scheduler.controller.book import Book
from scheduler.controller.controller import Controller

__all__ = ["Book", "Controller"]
