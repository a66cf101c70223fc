"""The log stays readable despite repeated errors."""

from __future__ import annotations

import logging

from scheduler.service.logs import MINUTE, MOST, Repeats


def test_shortages_are_logged_without_a_traceback() -> None:
    log, written = logging.Logger("a room"), list[str]()
    handler = logging.Handler()
    handler.emit = lambda record: written.append(handler.format(record))  # type: ignore[method-assign]
    handler.addFilter(Repeats())
    log.addHandler(handler)
    for error in (MemoryError(), RuntimeError("can't start new thread"), ValueError("a fault")):
        try:
            raise error
        except Exception:
            log.exception("It fails.")
    memory, threads, fault = written
    assert memory == "It fails: The scheduler's machine has no memory left; try again in a moment."
    assert threads == "It fails: The scheduler's machine has no threads left; try again in a moment."
    assert "Traceback" in fault


def test_repeats_are_left_out_and_counted() -> None:
    now = 0.0
    log, written = logging.Logger("a room"), list[str]()
    handler = logging.Handler()
    handler.emit = lambda record: written.append(record.getMessage())  # type: ignore[method-assign]
    handler.addFilter(Repeats(lambda: now))
    log.addHandler(handler)

    def complain(number: int) -> None:
        log.error("It fails: %d.", number)

    for number in range(1000):
        complain(number)
    log.error("Something else fails.")
    for _ in range(100):
        log.info("All is well.")
    assert written[:MOST] == [f"It fails: {number}." for number in range(MOST)]
    assert written[MOST] == "Something else fails."
    assert len(written) == MOST + 1 + 100
    written.clear()
    now = MINUTE
    complain(1)
    complain(2)
    assert written == ["It fails: 1. (980 more messages like this were suppressed)", "It fails: 2."]
