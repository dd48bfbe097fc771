"""Reads what a rank of a submission asks for: nothing of it is believed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.module import simulated_module
from labkit.errors import UnsupportedError

__all__ = ["argument", "described", "made_from", "mpi", "new_status", "status_row", "text", "whole"]

#: a grid of more dimensions is none
_MOST_DIMS = 32


def argument(
    kind: str, value: Any, arrays: Iterator[Any], written: list[Any], own: Callable[[int, bool], Any]
) -> Any:
    """Rebuild one argument of a collective, as mpi4py takes it.

    Parameters
    ----------
    kind : str
        As in `labkit.grading.sandbox.calls.COLLECTIVES`.
    value : object
        What the rank says of it.
    arrays : iterator of ndarray
        The bytes that came beside it.
    written : list of ndarray
        Gets those that the collective writes.
    own : callable
        ``own(number, commutes)``: an operator of the submission's own, which only its rank can apply.
    """
    if kind == "root":
        return whole(value)
    if kind == "op" and isinstance(value, dict):
        return own(whole(value.get("own")), value.get("commutes") is True)
    if kind == "op":
        found = vars(mpi()).get(value) if isinstance(value, str) else None
        if not isinstance(found, mpi().Op):
            raise TypeError("op: expected an mpi().Op")
        return found
    if kind == "counts":
        return None if value is None else [whole(count) for count in value]
    if value == "none":
        return None
    if value == "in place":
        return mpi().IN_PLACE
    name, counts, displacements = value
    datatype = vars(mpi()).get(name) if isinstance(name, str) else None
    if not isinstance(datatype, mpi().Datatype):
        raise TypeError("datatype: expected a Datatype")
    array = next(arrays)
    if kind == "write":
        written.append(array)
    if counts is None and displacements is None:
        return [array, datatype]
    if isinstance(counts, list) and len(counts) == 2 and isinstance(counts[0], list):
        return [array, tuple(counts), datatype]
    return [array, counts, displacements, datatype]


def described(error: BaseException) -> list[Any]:
    """Describe an error of a call, so that the rank can raise it."""
    if isinstance(error, MPIException):
        return ["mpi", error.Get_error_code(), error._detail]
    if isinstance(error, UnsupportedError):
        return ["", 0, str(error)]
    return [type(error).__name__, 0, str(error.args[0]) if error.args else ""]


def made_from(name: str, values: Any) -> list[Any]:
    """Return the arguments of a call that makes a communicator: numbers, of a grid lists of them."""
    if not isinstance(values, list):
        raise TypeError("a list of arguments is needed")
    if name not in ("Create_cart", "Sub"):
        return [whole(value) for value in values]
    if not all(isinstance(value, list) and len(value) <= _MOST_DIMS for value in values):
        raise ValueError(f"a grid has at most {_MOST_DIMS} dimensions")
    dims, *flags = [[whole(number) for number in value] for value in values]
    if name == "Sub":
        return [[bool(keep) for keep in dims]]
    return [dims, *([bool(ring) for ring in rings] for rings in flags)]


def mpi() -> Any:
    """Return the simulated module."""
    return simulated_module()


def new_status() -> Any:
    """Return an empty status."""
    return mpi().Status()


def status_row(status: Any) -> list[int]:
    """Return source, tag and bytes."""
    return [int(status.source), int(status.tag), int(status._bytes)]


def whole(value: Any) -> int:
    """Return a value that must be a whole number."""
    if type(value) is not int or abs(value) >= 1 << 62:
        raise TypeError("a whole number is needed")
    return value


def text(value: Any, most: int) -> str:
    """Return a text, cut; an empty one for anything else."""
    return value[-most:] if isinstance(value, str) else ""
