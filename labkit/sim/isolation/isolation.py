"""Ranks as isolated as processes: each gets its own copy of what its program can reach.

A program reaches its globals (those its code names, and those of the functions and classes they lead to),
its closure, its default values and its arguments. `Isolation.program(rank)` gives a rank a copy of all of
it: new function objects over new dictionaries of globals, new cells, new classes, copied data. What cannot
change is shared: numbers and texts, read-only arrays, everything of installed packages, the simulated
MPI module, and a whole program that reaches nothing else (`labkit.sim.isolation.constancy`). A module of the
program that is not installed is copied name by name when a name is used.

What a rank copied comes back as the original (`Isolation.restore`): a result whose class the program
defined is an instance of that class, not of a rank's copy of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from labkit.sim.isolation.constancy import is_constant, is_plain_data
from labkit.sim.isolation.deep_copy import Copier, Plan

__all__ = ["Isolation"]


class Isolation:
    """Makes the ranks' own copies of a program.

    Parameters
    ----------
    program : callable
    args : sequence
    kwargs : mapping
        Its arguments after the communicator.
    stand_ins : mapping, optional
        Id of a shared object -> function of the rank that makes what the rank has in its place.

    Attributes
    ----------
    notes : list of str
        What could not be copied and is shared by all ranks.
    """

    def __init__(
        self,
        program: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        stand_ins: Mapping[int, Callable[[int], Any]] | None = None,
    ) -> None:
        self._program = program
        self._given = (tuple(args), dict(kwargs or {}))
        self._plan = Plan()
        self._plan.stand_ins = stand_ins or {}
        self._copiers: dict[int, Copier] = {}
        given = (self._given[0], tuple(self._given[1].values()))
        varied = self._plan.stand_ins
        is_shared = is_constant(program, varied=varied)
        #: whether every rank may run the program as it is, with the arguments as they are
        self.is_shared = is_shared and is_constant(given, varied=varied)
        self._is_program_shared = is_shared and (self.is_shared or is_plain_data(given))

    @property
    def notes(self) -> list[str]:
        """What could not be copied and is shared by all ranks."""
        return list(self._plan.notes)

    def program(self, rank: int) -> Callable[[Any], Any]:
        """Return ``function(comm)``: a rank's own copy of the program with its own arguments."""
        if self.is_shared:
            return functools.partial(_call, self._program, *self._given)
        copier = self._copiers[rank] = Copier(self._plan, rank)
        if self._is_program_shared:
            return functools.partial(_call, self._program, *copier.copy(self._given))
        program, (args, kwargs) = copier.copy((self._program, self._given))
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
