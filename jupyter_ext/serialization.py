"""Serializes the variables of a cell: one stream of pickles, one for each variable.

What must hold:
- Identity is kept: all variables of a stream share the pickler's memo, so that an optimizer still refers to the
  parameters of its model.
- A function defined in the notebook uses the job's global variables as it used the notebook's: for `lr` it finds what
  the cell in the job last assigned to `lr`.
- A class defined in the notebook that is returned with a result is the notebook's own class, if that still exists.
- An error names exactly the variable that cannot be serialized, with the reason.
"""

from __future__ import annotations

import io
import pickle
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import cloudpickle

from jupyter_ext import reductions

FOLDER = ".runai-cell"
"""The folder of a cell and its variables in the working directory of its job, and of results in its output folder."""

CELL = f"{FOLDER}/cell.json"
VARIABLES = f"{FOLDER}/variables.pickle"
BUFFERS = f"{FOLDER}/buffers"
RESULT = f"{FOLDER}/result.json"

BESIDE = 2**20
"""Arrays of at least this many bytes are stored outside the stream."""

_sent: weakref.WeakSet[type] = weakref.WeakSet()
_namespace: dict[str, Any] = {}


class TooLarge(Exception):
    """The stream would be longer than its limit."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Unreadable(Exception):
    """A variable cannot be read here; see the cause."""

    def __init__(self, name: str) -> None:
        super().__init__(f"`{name}` can't be read here")
        self.name = name


@dataclass(frozen=True, slots=True)
class Packed:
    """A stream, what each variable added to it in bytes (in order), and why the others cannot be serialized.

    `buffers` is the data outside the stream, in order: the memory of the variables, which is not copied. `functions`
    are the functions of the namespace in the stream.
    """

    data: bytes
    buffers: Sequence[memoryview]
    sizes: Mapping[str, int]
    refused: Mapping[str, Exception]
    functions: Sequence[types.FunctionType]


def pack(
    variables: Mapping[str, Any],
    *,
    limit: int,
    namespace: dict[str, Any] | None = None,
    withheld: Set[str] = frozenset(),
    beside: bool = False,
) -> Packed:
    """Pickle `variables`; functions of `namespace` will belong to the namespace that is passed to `unpack`.

    Names that are `withheld`, or cannot be serialized, are not included: the functions find them there. With `beside`,
    large arrays are stored outside the stream. Raises `TooLarge` beyond `limit` bytes. A variable that cannot be
    serialized leaves nothing in the stream.
    """
    refused: dict[str, Exception] = {}
    left = set(withheld)
    while True:
        out = _Bounded(limit)
        pickler = Pickler(out, namespace, left, out.put_beside if beside else None)
        sizes: dict[str, int] = {}
        failed = False
        for name, value in variables.items():
            if name in refused:
                continue
            start = out.taken
            try:
                pickler.dump(value)
            except _Full:
                raise TooLarge(name) from None
            except Exception as error:
                # The pickler's memo now has objects of this variable's incomplete pickle.
                refused[name] = error
                left.add(name)
                failed = True
            else:
                sizes[name] = out.taken - start
        if not failed:
            return Packed(out.getvalue(), out.buffers, sizes, refused, pickler.functions)


def unpack(
    data: bytes,
    names: Iterator[str] | tuple[str, ...],
    namespace: dict[str, Any] | None = None,
    buffers: Iterable[Any] = (),
) -> dict[str, Any]:
    """Read a stream's variables in order; functions of the sender's namespace belong to `namespace` now.

    The variables use the memory of `buffers`, which must not be shared. Raises `Unreadable`.
    """
    global _namespace
    _namespace = {} if namespace is None else namespace
    unpickler = pickle.Unpickler(io.BytesIO(data), buffers=buffers)
    variables: dict[str, Any] = {}
    for name in names:
        try:
            variables[name] = unpickler.load()
        except Exception as error:
            raise Unreadable(name) from error
    return variables


class _Full(Exception):
    pass


class _Bounded(io.BytesIO):
    """A stream and its buffers, together within a limit."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit
        self.taken = 0
        self.buffers: list[memoryview] = []

    def write(self, data: Any) -> int:
        written = super().write(data)
        self._take(written)
        return written

    def put_beside(self, buffer: pickle.PickleBuffer) -> bool:
        """Store a buffer outside the stream; true if the pickler must write it into the stream instead."""
        try:
            memory = buffer.raw()
        except BufferError:  # not in one piece
            return True
        if memory.nbytes < BESIDE:
            return True
        self._take(memory.nbytes)
        self.buffers.append(memory)
        return False

    def _take(self, size: int) -> None:
        self.taken += size
        if self.taken > self._limit:
            raise _Full


class _Here(dict[str, Any]):
    """Stands for the sender's namespace: the receiver replaces it with its own."""

    def __reduce__(self) -> Any:
        return _there, ()


def _there() -> dict[str, Any]:
    return _namespace


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Writes variables to `out`, whose functions refer to `namespace` without the names that are `withheld`."""

    def __init__(
        self,
        out: Any,
        namespace: dict[str, Any] | None,
        withheld: Set[str],
        put_beside: Callable[[pickle.PickleBuffer], bool] | None,
    ) -> None:
        super().__init__(out, protocol=pickle.HIGHEST_PROTOCOL, buffer_callback=put_beside)
        self._own, self._withheld = namespace, withheld
        self.functions: list[types.FunctionType] = []
        if namespace is not None:
            self.globals_ref[id(namespace)] = _Here()

    def reducer_override(self, obj: Any) -> Any:
        reduced = reductions.reduce(obj)
        if reduced is not NotImplemented:
            return reduced
        reduced = super().reducer_override(obj)
        if isinstance(reduced, tuple) and len(reduced) == 6 and isinstance(obj, type):
            make, arguments, state, _, _, fill = reduced
            _sent.add(obj)
            if reductions.has_subclass_hook(obj):
                make, arguments = reductions.make_without_hook, (make, arguments, obj.__bases__)
            return make, arguments, (fill, state), None, None, _fill_class
        if isinstance(reduced, tuple) and isinstance(obj, types.FunctionType) and obj.__globals__ is self._own:
            _, slots = reduced[2]
            slots["__globals__"] = {n: v for n, v in slots["__globals__"].items() if n not in self._withheld}
            self.functions.append(obj)
        return reduced


def _fill_class(made: type, state: tuple[Callable[[type, Any], None], Any]) -> None:
    """Fill a class that was just created; a class that originates here is already complete."""
    if made not in _sent:
        fill, content = state
        fill(made, content)
