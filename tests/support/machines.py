"""The same attempts on two machines: what each gives or raises, as values that can be compared.

A case is a generator function of a communicator that yields ``(what, call)``; every call is made, and its
result noted, or the exception's class (of MPI's own exceptions the error class). Such notes of real MPI
and of a simulated machine must be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

__all__ = ["Cases", "attempt", "attempts", "differences", "plain"]

#: name to a generator function of a communicator
Cases = Mapping[str, Callable[[Any], Iterator[tuple[str, Callable[[], Any]]]]]


def _mpi() -> Any:
    """Return the machine's own MPI module."""
    from labkit import MPI

    return MPI


def plain(value: Any) -> Any:
    """Return a value that both machines can give alike."""
    mpi = _mpi()
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tolist()
    if isinstance(value, mpi.Status):
        return value.source, value.tag, value.Get_count(mpi.BYTE), value.Get_error(), value.Is_cancelled()
    if isinstance(value, tuple | list):
        return type(value)(plain(item) for item in value)
    if value is None or isinstance(value, bool | float | complex | str | bytes | dict | set):
        return value
    return int(value) if isinstance(value, int) else type(value).__name__


def attempt(call: Callable[[], Any]) -> Any:
    """Return what a call gives, or what it raises."""
    try:
        return plain(call())
    except _mpi().Exception as error:
        return "MPI.Exception", error.Get_error_class()
    except Exception as error:
        return (type(error).__name__,)


def attempts(comm: Any, cases: Cases) -> dict[tuple[str, str], Any]:
    """Make all attempts of all cases; the program to run on each machine.

    Returns
    -------
    dict
        (case, what) to the note.
    """
    found = {}
    for name, case in cases.items():
        for what, call in case(comm):
            found[name, what] = attempt(call)
        comm.Barrier()
    return found


def differences(
    real: list[dict[tuple[str, str], Any]], simulated: list[dict[tuple[str, str], Any]], case: str
) -> list[str]:
    """Return what is not the same for a case, as text: rank, attempt, and both notes."""
    found = []
    for rank, (one, other) in enumerate(zip(real, simulated, strict=True)):
        for key in (key for key in {**one, **other} if key[0] == case):
            here, there = one.get(key, "not tried"), other.get(key, "not tried")
            if here != there:
                found.append(f"rank {rank}, {key[1]}: real {here!r}, simulated {there!r}")
    return found
