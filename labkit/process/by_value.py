"""Pickles for other processes, by cloudpickle: functions and classes of notebooks and scripts go by value.

Code keeps the name of its file, so that tracebacks of other processes show the user's own lines; cloudpickle
takes that name away from 3.1.3 on.
"""

from __future__ import annotations

import io
from collections import ChainMap
from collections.abc import Callable
from types import CodeType
from typing import Any, ClassVar

import cloudpickle

__all__ = ["Pickler", "dumps"]


def _reduce_code(code: CodeType) -> tuple[Callable[..., CodeType], tuple[Any, ...]]:
    """Reduce code as cloudpickle does, with the name of its file: the first text of its maker's arguments."""
    make, parts = cloudpickle.Pickler.dispatch_table[CodeType](code)
    place = next(index for index, part in enumerate(parts) if isinstance(part, str))
    return make, (*parts[:place], code.co_filename, *parts[place + 1 :])


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """As cloudpickle's, with the names of files."""

    dispatch_table: ClassVar[Any] = ChainMap({CodeType: _reduce_code}, cloudpickle.Pickler.dispatch_table)


def dumps(thing: Any) -> bytes:
    """Pickle something for `pickle.loads` in another process."""
    file = io.BytesIO()
    Pickler(file).dump(thing)
    return file.getvalue()
