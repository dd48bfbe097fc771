"""Pickles for other processes, by cloudpickle: functions and classes of notebooks and scripts go by value.

Code keeps the name of its file, so that tracebacks of other processes show the user's own lines; cloudpickle
takes that name away from 3.1.3 on.
"""

from __future__ import annotations

import functools
import io
import sys
from collections import ChainMap
from collections.abc import Callable
from types import CodeType
from typing import Any, ClassVar

import cloudpickle

__all__ = ["Pickler", "dumps"]


def _reduce_code(code: CodeType) -> tuple[Callable[..., CodeType], tuple[object, ...]]:
    """Reduce code as cloudpickle does, with the name of its file: the first text of its maker's arguments."""
    make, parts = cloudpickle.Pickler.dispatch_table[CodeType](code)
    place = next(index for index, part in enumerate(parts) if isinstance(part, str))
    return make, (*parts[:place], code.co_filename, *parts[place + 1 :])


def _reduce_cached(function: Any) -> Any:
    """Reduce a cached function of a notebook or script by value, and one of a module by its name."""
    module: Any = sys.modules.get(function.__module__)
    path = function.__qualname__.split(".")
    by_value = {"__main__", *cloudpickle.list_registry_pickle_by_value()}
    if function.__module__ not in by_value and functools.reduce(_member, path, module) is function:
        return function.__qualname__
    maxsize, typed = function.cache_parameters().values()
    parts = (function.__wrapped__, maxsize, typed, functools._CacheInfo)
    return type(function), parts, vars(function)


def _member(owner: object, name: str) -> object:
    return getattr(owner, name, None)


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """As cloudpickle's, with the names of files, and with cached functions, which that takes by name."""

    dispatch_table: ClassVar[object] = ChainMap(
        {CodeType: _reduce_code, functools._lru_cache_wrapper: _reduce_cached},
        cloudpickle.Pickler.dispatch_table,
    )


def dumps(thing: object) -> bytes:
    """Pickle something for `pickle.loads` in another process."""
    file = io.BytesIO()
    Pickler(file).dump(thing)
    return file.getvalue()
