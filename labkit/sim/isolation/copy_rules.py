"""Rules by which `labkit.sim.isolation.isolation` copies data: one per type, each ``rule(copier, value)``."""

from __future__ import annotations

import dataclasses
import functools
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ATOMS",
    *(
        "array",
        "builtin_method",
        "cached",
        "cell",
        "dict_",
        "list_",
        "lock",
        "method",
        "property_",
        "set_",
        "share",
    ),
    *("tuple_", "wrapping"),
]

_Made = TypeVar("_Made")


class _Copier(Protocol):
    """What the rules use of `labkit.sim.isolation.isolation.Copier`."""

    is_restoring: bool

    def copy(self, value: object) -> Any: ...

    def remember(self, value: object, copy: _Made) -> _Made: ...

    def found(self, value: object) -> Any: ...

    def new_cell(self, cell: types.CellType) -> types.CellType: ...

    def fill_cell(self, made: types.CellType, source: types.CellType) -> None: ...


#: types whose values cannot change: shared
ATOMS = frozenset(
    {
        *(
            type(None),
            bool,
            int,
            float,
            complex,
            str,
            bytes,
            type(Ellipsis),
            type(NotImplemented),
            range,
            slice,
        ),
        *(types.CodeType, types.GetSetDescriptorType, types.MemberDescriptorType),
        *(types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType),
        *(np.ufunc, types.GenericAlias, types.UnionType, dataclasses.Field),
    }
)


def list_(copier: _Copier, value: Sequence[object]) -> object:
    made: list[object] = copier.remember(value, [])
    made.extend(copier.copy(item) for item in value)
    return made


def tuple_(copier: _Copier, value: tuple[object, ...]) -> object:
    made = tuple(copier.copy(item) for item in value)
    found = copier.found(value)
    if found is not None:  # a cycle through the tuple has copied it
        return found
    return value if all(a is b for a, b in zip(made, value, strict=True)) else copier.remember(value, made)


def dict_(copier: _Copier, value: Mapping[Any, object]) -> object:
    made: dict[object, object] = copier.remember(value, {})
    for key, item in value.items():
        made[copier.copy(key)] = copier.copy(item)
    return made


def set_(copier: _Copier, value: Any) -> object:
    return copier.remember(value, type(value)(copier.copy(item) for item in value))


def array(copier: _Copier, value: NDArray[Any]) -> object:
    if value.dtype.hasobject:
        made = np.empty_like(value, subok=False)
        copier.remember(value, made)
        made.reshape(-1)[:] = [copier.copy(item) for item in value.reshape(-1)]
        return made
    if copier.is_restoring or not is_changeable(value):
        return value
    return copier.remember(value, value.copy(order="K"))


def is_changeable(value: NDArray[Any]) -> bool:
    """Whether an array's elements can change: it, or an array it is a view of, is writable."""
    base: object = value
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return True
        base = base.base
    return base is not None and not isinstance(base, bytes)


def method(copier: _Copier, value: types.MethodType) -> object:
    return copier.remember(value, types.MethodType(copier.copy(value.__func__), copier.copy(value.__self__)))


def builtin_method(copier: _Copier, value: Any) -> object:
    """Copy a method of a built-in object (``items.append``) with its object; share built-in functions."""
    owner = value.__self__
    if owner is None or isinstance(owner, types.ModuleType | type):
        return value
    copied = copier.copy(owner)
    return value if copied is owner else copier.remember(value, getattr(copied, value.__name__))


def cached(copier: _Copier, value: Any) -> object:
    """Copy a function with a cache (functools.lru_cache): every rank caches for itself."""
    wrapped = copier.copy(value.__wrapped__)
    if wrapped is value.__wrapped__:
        return copier.remember(value, value)
    return copier.remember(value, functools.lru_cache(**value.cache_parameters())(wrapped))


def wrapping(copier: _Copier, value: Any) -> object:
    return copier.remember(value, type(value)(copier.copy(value.__func__)))


def property_(copier: _Copier, value: property) -> object:
    parts = (copier.copy(value.fget), copier.copy(value.fset), copier.copy(value.fdel))
    return copier.remember(value, property(*parts, doc=value.__doc__))


def cell(copier: _Copier, value: types.CellType) -> object:
    made = copier.new_cell(value)
    copier.fill_cell(made, value)
    return made


def lock(copier: _Copier, value: object) -> object:
    """Give every rank its own lock, free as in a new process: no other rank could open it."""
    make: Callable[[], object] = threading.RLock if hasattr(value, "_is_owned") else threading.Lock
    return copier.remember(value, make())


def share(copier: object, value: object) -> object:
    return value
