"""The same attempts on two machines: what each gives or raises, as values that can be compared.

A case is a generator function of a communicator that yields ``(what, call)``; every call is made, and its
result noted, or the exception's class (of MPI's own exceptions the error class). Such notes of real MPI
and of a simulated machine must be equal.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["Cases", "Table", "attempt", "attempts", "differences", "outcomes", "plain", "values"]

#: name to a generator function of a communicator
Cases = Mapping[Hashable, Callable[[Any], Iterator[tuple[str, Callable[[], Any]]]]]
#: (case, what) to what was noted
Notes = dict[tuple[Hashable, str], Any]


class Table(dict[str, Callable[[Any], Any]]):
    """Cases by their names, and the numbers of ranks that they are tried on."""

    def __init__(self, ranks: Sequence[int] = ()) -> None:
        super().__init__()
        self.ranks = tuple(ranks)

    def case(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Take a function as a case: a decorator."""
        assert function.__name__ not in self, f"two cases are called {function.__name__}"
        self[function.__name__] = function
        return function


def values(comm: Any, cases: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
    """Return what every case returns or raises; for a program of the module whose cases they are."""
    found = {}
    for name, function in cases.items():
        try:
            found[name] = function(comm)
        except Exception as error:
            found[name] = type(error).__name__, str(error)
        comm.Barrier()
    return found


def outcomes(program: Callable[..., Any], *arguments: Any) -> Callable[[int, str], list[Any]]:
    """Return a function that runs a program once for a number of ranks and a machine.

    A failure is kept as well: one launch fails as often as another.
    """

    @functools.cache
    def outcome(ranks: int, on: str) -> tuple[list[Any], Exception | None]:
        import labkit

        try:
            return labkit.run(program, ranks, on, args=arguments, timeout_s=300).results, None
        except labkit.errors.LabkitError as error:
            return [], error

    def results(ranks: int, on: str) -> list[Any]:
        found, error = outcome(ranks, on)
        if error is not None:
            raise error
        return found

    return results


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


def attempts(comm: Any, cases: Cases) -> Notes:
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
    real: list[dict[tuple[Hashable, str], Any]],
    simulated: list[dict[tuple[Hashable, str], Any]],
    case: Hashable,
) -> list[str]:
    """Return what is not the same for a case, as text: rank, attempt, and both notes."""
    found = []
    for rank, (one, other) in enumerate(zip(real, simulated, strict=True)):
        for key in (key for key in {**one, **other} if key[0] == case):
            here, there = one.get(key, "not tried"), other.get(key, "not tried")
            if here != there:
                found.append(f"rank {rank}, {key[1]}: real {here!r}, simulated {there!r}")
    return found
