"""Serializes objects of a notebook that pickle would refuse, or look up by a name that the job does not have."""

from __future__ import annotations

import copyreg
import functools
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

_Cached = functools._lru_cache_wrapper


def reduce(thing: Any) -> Any:
    """The reduction of `thing` for pickle (see `object.__reduce__`); `NotImplemented` where none is needed."""
    if isinstance(thing, types.FunctionType):
        return _reduce_dispatching(thing) if _dispatches(thing) else NotImplemented
    if isinstance(thing, _Cached):
        # Pickle would look it up by its name in `__main__`.
        if thing.__module__ == "__main__" or "<locals>" in thing.__qualname__:
            return _cached, (thing.__wrapped__, *thing.cache_parameters().values())
    elif isinstance(thing, functools.cached_property):
        # It has a lock before Python 3.12.
        return functools.cached_property, (thing.func,), {"attrname": thing.attrname}
    elif isinstance(thing, (typing.ParamSpec, typing.TypeVarTuple)):
        # Pickle would look these up by their names in `__main__`.
        return type(thing), (thing.__name__,)
    elif isinstance(thing, typing.NewType):
        return typing.NewType, (thing.__name__, thing.__supertype__)
    elif isinstance(thing, BaseException) and type(thing).__reduce__ is BaseException.__reduce__:
        # Pickle would call its class with `args`, which a custom `__init__` may not accept.
        return copyreg.__newobj__, (type(thing), *thing.args), thing.__dict__ or None  # type: ignore[attr-defined]
    return NotImplemented


def parts(thing: Any) -> list[Any]:
    """The functions that something of `functools` is made of."""
    if isinstance(thing, types.FunctionType):
        return [*thing.__dict__["registry"].values()] if _dispatches(thing) else []
    if type(thing).__module__ == "functools":
        return [getattr(thing, "func", None), getattr(thing, "__wrapped__", None)]
    return []


def _cached(function: Callable[..., Any], maxsize: int | None, typed: bool) -> Any:
    return functools.lru_cache(maxsize, typed)(function)


# -- functools.singledispatch -------------------------------------------------------------------------------


def _dispatches(function: types.FunctionType) -> bool:
    return function.__module__ == "__main__" and isinstance(function.__dict__.get("registry"), types.MappingProxyType)


def _reduce_dispatching(function: types.FunctionType) -> Any:
    registry: Mapping[type, Any] = function.__dict__["registry"]
    # Filled after it is made: its implementations may call it.
    return _dispatching, (), (registry[object], [*registry.items()]), None, None, _fill_dispatching


def _dispatching() -> Any:
    return functools.singledispatch(lambda thing: None)


def _fill_dispatching(made: Any, state: tuple[Callable[..., Any], list[tuple[type, Any]]]) -> None:
    default, implementations = state
    for kind, implementation in implementations:
        made.register(kind, implementation)
    functools.update_wrapper(made, default)


# -- classes with a hook for subclasses ------------------------------------------------------------------


def has_subclass_hook(made: type) -> bool:
    """Whether a class of the notebook runs code when a subclass, such as `made`, is created."""
    return bool(_hooks(made.__bases__))


def make_without_hook(make: Callable[..., type], arguments: tuple[Any, ...], bases: tuple[type, ...]) -> type:
    """A class as `make` makes it on these bases. The hooks have already run where it was first created."""
    kept = _hooks(bases)
    try:
        for teller in kept:
            type.__setattr__(teller, "__init_subclass__", classmethod(lambda cls, **given: None))
        return make(*arguments)
    finally:
        for teller, own in kept.items():
            type.__setattr__(teller, "__init_subclass__", own)


def _hooks(bases: tuple[type, ...]) -> dict[type, Any]:
    return {
        each: vars(each)["__init_subclass__"]
        for base in bases
        for each in base.__mro__
        if each.__module__ == "__main__" and "__init_subclass__" in vars(each)
    }
