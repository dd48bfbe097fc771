"""Ranks as isolated as processes: each gets its own copy of what its program can reach.

A program reaches its globals (those its code names, and those of the functions and classes they lead to),
its closure, its default values and its arguments. `Isolation.program(rank)` gives a rank a copy of all of
it: new function objects over new dictionaries of globals, new cells, new classes, copied data. What cannot
change is shared: numbers and texts, read-only arrays, everything of installed packages, and the simulated
MPI module. A module of the program that is not installed is copied name by name when a name is used.

What a rank copied comes back as the original (`Isolation.restore`): a result whose class the program
defined is an instance of that class, not of a rank's copy of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from labkit.sim.copying import Copier, Plan

__all__ = ["Isolation"]


class Isolation:
    """Makes the ranks' own copies of a program.

    Parameters
    ----------
    program : callable
    args : sequence
    kwargs : mapping
        Its arguments after the communicator.

    Attributes
    ----------
    notes : list of str
        What could not be copied and is shared by all ranks.
    """

    def __init__(
        self, program: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> None:
        self._what = (program, tuple(args), dict(kwargs or {}))
        self._plan = Plan()
        self._copiers: dict[int, Copier] = {}

    @property
    def notes(self) -> list[str]:
        """What could not be copied and is shared by all ranks."""
        return list(self._plan.notes)

    def program(
        self, rank: int, stand_ins: Callable[[int], list[tuple[Any, Any]]] = lambda rank: []
    ) -> Callable[[Any], Any]:
        """Return ``function(comm)``: a rank's own copy of the program with its own arguments.

        Parameters
        ----------
        rank : int
        stand_ins : callable
            Gives (shared object, the rank's own) pairs for a rank: what is not copied but replaced.
        """
        copier = self._copiers[rank] = Copier(self._plan)
        for shared, own in stand_ins(rank):
            copier.remember(shared, own)
        program, args, kwargs = copier.copy(self._what)
        return functools.partial(_call, program, args, kwargs)

    def copied(self, rank: int, original: Any) -> Any:
        """Return a rank's copy of a function or class of the program."""
        return self._copiers[rank].copy(original)

    def original(self, copy: Any) -> Any:
        """Return what a rank's function or class is a copy of, None if it is none."""
        return self._plan.originals.get(id(copy))

    @property
    def has_classes(self) -> bool:
        """Whether the program has classes of its own, so that objects must find their rank's copy."""
        return self._plan.has_classes

    def restore(self, value: Any) -> Any:
        """Return a value in which ranks' copies of classes and functions are the originals again."""
        if not self._plan.originals:
            return value
        return Copier(self._plan, is_restoring=True).copy(value)


def _call(program: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], comm: Any) -> Any:
    return program(comm, *args, **kwargs)
