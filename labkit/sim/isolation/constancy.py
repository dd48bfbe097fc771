"""Constancy of a program: where nothing that it can reach can change, all ranks share it as it is.

Most programs are functions over numbers, texts, installed modules and other such functions; a copy of
them for each rank would differ from the original in nothing but its cost. The test is made once a run, on
everything that the program's code can name, and is strict: code that assigns a global, a variable of its
closure or any attribute, or that can reach its own dictionaries, is not shared, nor is anything that holds
a list, a dictionary, a writable array or a class of the program.
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Container, Iterable
from typing import Any

import numpy as np

from labkit.comm.handles.base import MODULE_NAME
from labkit.sim.isolation.code import is_installed, names_used
from labkit.sim.isolation.copy_rules import ATOMS, is_changeable
from labkit.sim.isolation.dependent import code_of_dependent
from labkit.sim.isolation.mpi4py_name import is_library

__all__ = ["is_constant", "is_plain_data"]

#: instructions that change what functions share
_WRITES = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR"})
_CELL_WRITES = frozenset({"STORE_DEREF", "DELETE_DEREF"})
#: names with which code can change a function from outside
_HANDLES = frozenset(
    {
        *("setattr", "delattr", "__setattr__", "__delattr__", "__dict__", "__globals__", "__builtins__"),
        *("__closure__", "__code__", "__defaults__", "__kwdefaults__", "__annotations__", "cell_contents"),
        *("f_globals", "f_locals", "update_wrapper"),
    }
)


def is_constant(*values: Any, varied: Container[int] = ()) -> bool:
    """Whether nothing that these values reach can change, as far as the program's code can tell."""
    pending = list(values)
    seen: set[int] = set()
    while pending:
        value = pending.pop()
        if type(value) in ATOMS or id(value) in seen:
            continue
        if id(value) in varied:
            return False
        seen.add(id(value))
        parts = _parts(value)
        if parts is None:
            return False
        pending.extend(parts)
    return True


def is_plain_data(*values: Any) -> bool:
    """Whether values hold nothing but numbers, texts, arrays and built-in containers: no code at all."""
    pending = list(values)
    seen: set[int] = set()
    while pending:
        value = pending.pop()
        kind = type(value)
        if kind in ATOMS or id(value) in seen:
            continue
        seen.add(id(value))
        if kind in (list, tuple, set, frozenset):
            pending.extend(value)
        elif kind is dict:
            pending.extend(value)
            pending.extend(value.values())
        elif kind is np.ndarray:
            if value.dtype.hasobject:
                return False
        elif not (kind is bytearray or issubclass(kind, np.generic | np.dtype)):
            return False
    return True


def _parts(value: Any) -> Iterable[Any] | None:
    """Return what a value reaches; None when it can change itself."""
    kind = type(value)
    if kind in (tuple, frozenset):
        return value  # type: ignore[no-any-return]
    if kind is types.FunctionType:
        return _function_parts(value)
    if kind is types.BuiltinMethodType:
        owner = value.__self__
        return () if owner is None or isinstance(owner, types.ModuleType) else (owner,)
    if kind is np.ndarray:
        return None if value.dtype.hasobject or is_changeable(value) else ()
    if issubclass(kind, np.generic | np.dtype) or kind.__module__ in (MODULE_NAME, "typing"):
        return ()
    if is_library(kind.__module__) or is_library(getattr(value, "__module__", None)):
        return None  # of mpi4py's own module: a rank gets the simulated one instead
    if isinstance(value, types.ModuleType):
        if is_library(value.__name__):
            return None
        is_shared = value.__name__ == MODULE_NAME or is_installed(
            value.__name__, getattr(value, "__file__", None)
        )
        return () if is_shared else None
    if isinstance(value, type):
        return () if is_installed(value.__module__, None) else None
    if kind is functools._lru_cache_wrapper:
        return () if is_installed(value.__module__, None) else None
    return () if _is_named(value) else None


def _is_named(value: Any) -> bool:
    """Whether pickle would look a value up by name: a compiled function, a singleton."""
    try:
        return isinstance(value.__reduce_ex__(4), str)
    except Exception:  # locks, files, sockets, generators...
        return False


def _function_parts(value: types.FunctionType) -> Iterable[Any] | None:
    contents = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
    if is_installed(value.__module__, value.__code__.co_filename):
        # a wrapper around something of the program (`functools.wraps`) is as constant as that
        return [item for item in contents if isinstance(item, types.FunctionType | type)]
    names = names_used(value.__code__)
    if code_of_dependent(value.__globals__) is not None:
        return None
    if names is None or names & _HANDLES or len(contents) < len(value.__closure__ or ()):
        return None
    if any(_writes(code, value.__code__.co_freevars) for code in _codes(value.__code__)):
        return None
    scope = value.__globals__
    used = [scope[name] for name in names if name in scope and name != "__builtins__"]
    defaults = (value.__defaults__, value.__kwdefaults__ and tuple(value.__kwdefaults__.values()))
    return [*used, *contents, *defaults, *value.__dict__.values()]


def _codes(code: types.CodeType) -> Iterable[types.CodeType]:
    """Yield a code and those inside it."""
    pending = [code]
    while pending:
        one = pending.pop()
        yield one
        pending += [constant for constant in one.co_consts if isinstance(constant, types.CodeType)]


def _writes(code: types.CodeType, shared: tuple[str, ...]) -> bool:
    """Whether a code assigns a global, an attribute, or one of the shared variables of a closure."""
    return any(
        step.opname in _WRITES or (step.opname in _CELL_WRITES and step.argval in shared)
        for step in dis.get_instructions(code)
    )


def _is_filled(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True
