"""The sizes of variables before they are sent: as they would be sent, in little time, and without a copy."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ext.estimate import LOOK, Accuracy, Size, estimate
from jupyter_ext.serialization import pack

GIB = 2**30


def still() -> float:
    """A clock on which everything takes no time."""
    return 0.0


def size(value: Any, clock: Callable[[], float] = still) -> Size:
    found = estimate({"value": value}, clock=clock)
    assert not found.refused
    return found.sizes["value"]


def sent(value: Any) -> int:
    return pack({"value": value}, limit=2**40, beside=True).sizes["value"]


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
arrays = st.integers(0, 400_000).map(numpy.zeros)
values = st.recursive(
    plain | arrays,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from("abcdef"), values))
def test_sizes_are_those_that_are_sent(variables: dict[str, Any]) -> None:
    variables["again"] = [*variables.values()]  # shares them
    found = estimate(variables, clock=still)
    assert {name: size.bytes for name, size in found.sizes.items()} == pack(variables, limit=2**40, beside=True).sizes
    assert {size.accuracy for size in found.sizes.values()} == {Accuracy.EXACT}


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(numpy.zeros((2000, 2000))[::2, ::2], id="not in one piece"),
        pytest.param([*range(300_000)], id="list"),
        pytest.param(tuple(f"word {n}" for n in range(300_000)), id="tuple"),
        pytest.param({n: str(n) for n in range(300_000)}, id="dict"),
        pytest.param([b"x" * 10**6] * 300_000, id="the same object often"),
        pytest.param(numpy.array([f"word {n}" for n in range(300_000)], dtype=object), id="objects"),
        pytest.param(pandas.DataFrame({"word": [f"w{n}" for n in range(300_000)], "n": 1.5}, dtype=object), id="frame"),
    ],
)
def test_what_would_be_converted_is_estimated(value: Any) -> None:
    found = size(value)
    assert found.accuracy is Accuracy.ABOUT
    assert found.bytes == pytest.approx(sent(value), rel=0.3)


def test_large_data_is_not_copied(tmp_path: Path) -> None:
    """A copy would not fit into the memory of a machine that runs this test: the file is a hole."""
    large = numpy.memmap(tmp_path / "hole", numpy.uint8, mode="w+", shape=512 * GIB)
    plain = large.view(numpy.ndarray)
    for value, data in ((plain, 512), ({"model": [plain]}, 512), (large, 512), (plain[::2], 256)):
        assert data * GIB <= size(value).bytes < data * GIB + 1000
    with open(tmp_path / "hole") as file:
        assert 512 * GIB <= size(file).bytes < 512 * GIB + 1000


class Touched:
    """Counts how many of its kind were pickled."""

    count = 0

    def __reduce__(self) -> Any:
        Touched.count += 1
        return Touched, ()


def test_when_the_time_is_over_what_was_counted_is_a_lower_bound() -> None:
    Touched.count = 0
    ticks = itertools.count()
    many = [[Touched() for _ in range(1000)] for _ in range(50)]
    found = estimate({"many": many, "x": 1}, seconds=4.5, clock=lambda: float(next(ticks)))
    assert found.sizes["many"].accuracy is Accuracy.AT_LEAST
    assert 0 < found.sizes["many"].bytes <= sent(many)
    assert found.sizes["x"].bytes == sent(1)
    Touched.count = 0
    estimate({"many": many}, seconds=4.5, clock=lambda: float(next(ticks)))
    assert 0 < Touched.count <= 6 * LOOK


def test_what_cannot_be_sent_is_refused_with_the_pickler_s_reason() -> None:
    lock = threading.Lock()
    variables = {"a": 1, "lock": [lock], "b": [lock, 2], "c": "after"}
    found = estimate(variables, clock=still)
    expected = pack(variables, limit=2**40).refused
    assert {name: str(error) for name, error in found.refused.items()} == {
        name: str(error) for name, error in expected.items()
    }
    assert set(found.sizes) == {"a", "c"}


def test_data_of_libraries_is_measured_by_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tensor of PyTorch copies its storage when it is pickled; its parameters derive from it."""
    torch = ModuleType("torch")

    class Storage:
        def nbytes(self) -> int:
            return 40 * GIB

    class Tensor:
        def untyped_storage(self) -> Storage:
            return Storage()

        def __reduce__(self) -> Any:
            raise AssertionError("It is never pickled.")

    Tensor.__module__ = "torch"
    torch.Tensor = Tensor  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)

    class Parameter(Tensor):
        pass

    weight = Parameter()
    found = size({"weight": weight, "tied": weight})
    assert found.accuracy is Accuracy.ABOUT
    assert 40 * GIB < found.bytes < 40 * GIB + 1000
