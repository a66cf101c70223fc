"""Estimates the sizes of serialized variables, in little time and without copying their data.

What must hold:
- The pickler is the one that sends the variables: a size without a qualifier is what `pack` would write, and a variable
  that is refused here would be refused there.
- It never copies large data: an array that a pickler would have to convert is measured, and a long list is sampled.
- When the time is over, it stops at the next object, and what it has counted is a lower bound.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
import time
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any

from jupyter_ext.serialization import BESIDE, Pickler

SECONDS = 0.5
"""The time for all variables together."""

LOOK = 256
"""The number of objects between two looks at the clock."""

LONG = 100_000
"""Containers with more elements are sampled."""

SAMPLE = 256


class Accuracy(StrEnum):
    EXACT = "exact"
    ABOUT = "about"
    AT_LEAST = "at least"


@dataclass(frozen=True, slots=True)
class Size:
    bytes: int
    accuracy: Accuracy = Accuracy.EXACT


@dataclass(frozen=True, slots=True)
class Estimate:
    """The size of each variable, and why the others cannot be serialized."""

    sizes: Mapping[str, Size]
    refused: Mapping[str, Exception]


def estimate(
    variables: Mapping[str, Any],
    *,
    namespace: dict[str, Any] | None = None,
    withheld: Set[str] = frozenset(),
    seconds: float = SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> Estimate:
    """Estimate what `pack` would write for `variables`; each gets an equal part of the time that is left."""
    sizes: dict[str, Size] = {}
    refused: dict[str, Exception] = {}
    left = set(withheld)
    ends = clock() + seconds
    pickler = _Estimating(namespace, left, clock)
    for number, (name, value) in enumerate(variables.items()):
        now = clock()
        try:
            sizes[name] = pickler.size(value, now + max(0.0, ends - now) / (len(variables) - number))
            continue
        except _TimeOver as over:
            sizes[name] = Size(over.taken, Accuracy.AT_LEAST)
        except Exception as error:
            refused[name] = error
            left.add(name)
        # The pickler's memo now has objects of an incomplete pickle.
        pickler = _Estimating(namespace, left, clock)
    return Estimate(sizes, refused)


class _TimeOver(Exception):
    def __init__(self, taken: int = 0) -> None:
        super().__init__(taken)
        self.taken = taken


class _Counter:
    """Counts what is written, and keeps nothing."""

    def __init__(self) -> None:
        self.taken = 0

    def write(self, data: Any) -> int:
        written = memoryview(data).nbytes
        self.taken += written
        return written

    def put_beside(self, buffer: pickle.PickleBuffer) -> bool:
        try:
            memory = buffer.raw()
        except BufferError:  # not in one piece
            return True
        if memory.nbytes < BESIDE:
            return True
        self.taken += memory.nbytes
        return False


class _Estimating(Pickler):
    def __init__(self, namespace: dict[str, Any] | None, withheld: Set[str], clock: Callable[[], float]) -> None:
        self._out = _Counter()
        super().__init__(self._out, namespace, withheld, self._out.put_beside)
        self._namespace, self._clock = namespace, clock
        self._ends = 0.0
        self._seen = 0
        self._estimated: dict[int, Any] = {}

    def size(self, value: Any, ends: float) -> Size:
        """What `value` adds. Raises `_TimeOver`, or what the pickler raises."""
        start, estimated, self._ends, self._seen = self._out.taken, len(self._estimated), ends, 0
        try:
            self.dump(value)
        except _TimeOver:
            # Each object takes a byte at least; what is in the pickler's own buffer is not counted yet.
            raise _TimeOver(max(self._out.taken - start, self._seen)) from None
        return Size(self._out.taken - start, Accuracy.EXACT if len(self._estimated) == estimated else Accuracy.ABOUT)

    def persistent_id(self, thing: Any) -> Any:
        """Called for each object: `None` to pickle it; others are estimated."""
        self._seen += 1
        if self._seen % LOOK == 0 and self._clock() > self._ends:
            raise _TimeOver
        kind = type(thing)
        if kind in _SMALL:
            return None
        if id(thing) in self._estimated:
            return 0
        if kind in _CONTAINERS:
            size = self._sampled(thing)
        else:
            size = self._of_array(thing) if _is_array(thing) else _measured(thing)
        if size is None:
            return None
        self._estimated[id(thing)] = thing  # keeps the id
        self._out.taken += size
        return 0

    def _sampled(self, thing: Any) -> int | None:
        if len(thing) <= LONG:
            return None
        if isinstance(thing, (list, tuple)):
            sample: Any = [*thing[:: len(thing) // SAMPLE]]
        else:
            sample = [*islice(thing.items() if isinstance(thing, dict) else thing, SAMPLE)]
        return self._of_sample(sample, len(thing))

    def _of_array(self, thing: Any) -> int | None:
        """Arrays of Python objects, those that are not in one piece, and those of subclasses, such as `memmap`."""
        if thing.dtype.hasobject:
            if thing.size <= LONG:
                return None
            return self._of_sample([thing.flat[at] for at in range(0, thing.size, thing.size // SAMPLE)], thing.size)
        beside = type(thing) is sys.modules["numpy"].ndarray and thing.flags.forc
        return int(thing.nbytes) if thing.nbytes >= BESIDE and not beside else None

    def _of_sample(self, sample: list[Any], length: int) -> int:
        """The second half says what another element adds: the first one also has what all share."""
        half = len(sample) // 2
        pickler = _Estimating(self._namespace, self._withheld, self._clock)
        shared = pickler.size(sample[:half], self._ends).bytes
        return shared + pickler.size(sample[half:], self._ends).bytes * (length - half) // (len(sample) - half)


_SMALL = frozenset({int, float, complex, bool, str, bytes, type(None)})
_CONTAINERS = frozenset({list, tuple, dict, set, frozenset})

_MEASURES: Mapping[str, Callable[[Any], int]] = {
    "torch": lambda tensor: tensor.untyped_storage().nbytes(),  # also of a view
    "jaxlib": lambda array: array.nbytes,
    "cupy": lambda array: array.nbytes,
    "pyarrow": lambda table: table.nbytes,
    "polars": lambda frame: frame.estimated_size(),
    "keras": lambda model: 4 * model.count_params(),
}
"""What the pickler would copy, by the package of its class or of one that it derives from."""


def _is_array(thing: Any) -> bool:
    return "numpy" in sys.modules and isinstance(thing, sys.modules["numpy"].ndarray)


def _measured(thing: Any) -> int | None:
    """The size of data that the pickler would copy; `None` for anything else."""
    if isinstance(thing, type):
        return None
    if isinstance(thing, io.TextIOWrapper):
        return _of_file(thing)
    for base in type(thing).__mro__:
        measure = _MEASURES.get(str(base.__module__).partition(".")[0])
        if measure is not None:
            try:
                return int(measure(thing))
            except Exception:  # another class of the package
                return None
    return None


def _of_file(file: io.TextIOWrapper) -> int | None:
    """A file that is open for reading is sent with its content."""
    try:
        size = os.fstat(file.fileno()).st_size
        return size if size >= BESIDE and file.readable() else None
    except (OSError, ValueError):  # closed
        return None
