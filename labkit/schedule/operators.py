"""Operators for reductions: by name, by function, or an MPI operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import ScheduleError

__all__ = ["OPERATIONS", "Combine", "as_combine", "as_reduction", "type_code"]

#: MPI's predefined operations by name
OPERATIONS = (
    *("sum", "prod", "min", "max", "land", "lor", "lxor", "band", "bor", "bxor"),
    *("minloc", "maxloc", "replace", "no_op"),
)

#: ``combine(left, right)`` leaves ``left op right`` in ``right``
Combine = Callable[[NDArray[Any], NDArray[Any]], None]


def type_code(dtype: np.dtype[Any]) -> str:
    """Return the kernels' name of a type: kind and size, as ``f8``; ``f8+i4`` for a value and an index.

    Examples
    --------
    >>> type_code(np.dtype("float32")), type_code(np.dtype([("value", "f8"), ("index", "i4")], align=True))
    ('f4', 'f8+i4')
    """
    if dtype.names is not None and dtype.fields is not None:
        return "+".join(type_code(dtype.fields[name][0]) for name in dtype.names)
    return f"{dtype.kind}{dtype.itemsize}"


def as_reduction(op: Any, dtype: np.dtype[Any]) -> Any:
    """Return the kernels' reduction for an operator on a type.

    Parameters
    ----------
    op : str or callable or MPI operator
        A name of `OPERATIONS`; a function ``f(left, right)`` of two arrays that returns the result; or
        an object with MPI's ``Reduce_local(inbuf, inoutbuf)``.
    dtype : numpy.dtype

    Raises
    ------
    ScheduleError
        If MPI defines no such operation on the type, or `op` is none of these.
    """
    from labkit import _kernels

    if isinstance(op, str):
        found = _kernels.native_reduction(op, type_code(dtype)) if op in OPERATIONS else None
        if found is None:
            raise ScheduleError(
                f"no operation {op!r} on {dtype}; operations: {', '.join(OPERATIONS)}, or a function"
            )
        return found
    combine = as_combine(op, dtype)

    def on_bytes(left: memoryview, right: memoryview) -> None:
        combine(np.frombuffer(left, dtype), np.frombuffer(right, dtype))

    return _kernels.PythonReduction(on_bytes)


def as_combine(op: Any, dtype: np.dtype[Any]) -> Combine:
    """Return an operator (see `as_reduction`) as a function that works in place, as MPI's do."""
    if isinstance(op, str):
        reduction = as_reduction(op, dtype)
        return lambda left, right: reduction.apply(left, right, True)
    if hasattr(op, "Reduce_local"):
        return lambda left, right: op.Reduce_local(left, right)
    if callable(op):

        def by_function(left: NDArray[Any], right: NDArray[Any]) -> None:
            right[...] = op(left, right)

        return by_function
    raise ScheduleError(f"an operator must be a name, a function or an MPI operator, got {op!r}")
