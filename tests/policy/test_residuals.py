"""Which GPUs count as slow: those that no attempt has cleared, never one that a gang used beside a slow one."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.model import GpuKey, NodeName
from scheduler.policy import Residuals

GPUS = tuple(GpuKey((NodeName("n1"), gpu)) for gpu in range(4))
OTHERS = tuple(GpuKey((NodeName("n2"), gpu)) for gpu in range(4))
KINDS = "bert", "gpt"


def run(residuals: Residuals, kind: str, gpus: tuple[GpuKey, ...], slow: GpuKey) -> None:
    """An attempt with and without the slow GPU, which takes twice as long; most attempts run elsewhere."""
    for _ in range(4):
        residuals.learn((kind, len(gpus)), 1.0, OTHERS[: len(gpus)])
    residuals.learn((kind, len(gpus)), 0.5 if slow in gpus else 1.0, gpus)


def test_a_slow_gang_says_nothing_while_several_of_its_gpus_may_be_the_cause() -> None:
    residuals = Residuals()
    for _ in range(4):
        for kind in KINDS:
            run(residuals, kind, GPUS, GPUS[0])
    assert residuals.slow == {}


def test_a_slow_gang_identifies_the_gpu_that_no_attempt_has_cleared_even_if_the_others_are_cleared_later() -> None:
    residuals = Residuals()
    for _ in range(4):
        for kind in KINDS:
            run(residuals, kind, GPUS, GPUS[0])
    for gpu in (*GPUS[1:], *GPUS[1:]):
        run(residuals, "bert", (gpu,), GPUS[0])
    assert list(residuals.slow) == [GPUS[0]]
    assert 1700 < residuals.slow[GPUS[0]] < 2000, "2, shrunk a little"
    assert residuals.attempts(GPUS[0]) == (8, 2)


GANGS = [gang for size in (1, 2, 3, 4) for gang in combinations(GPUS, size)]


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(GANGS)), max_size=40), st.sampled_from(GPUS))
def test_no_other_gpu_is_called_slow_whatever_ran_on_it(
    attempts: list[tuple[str, tuple[GpuKey, ...]]], slow: GpuKey
) -> None:
    residuals = Residuals()
    for kind, gang in attempts:
        run(residuals, kind, gang, slow)
    assert residuals.slow.keys() <= {slow}
