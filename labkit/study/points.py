"""The points of a sweep: every combination of ranks, machines, models and parameters."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from labkit.errors import DataError, MachineError
from labkit.platform.noise import noise_of
from labkit.real.engines.target import is_cluster
from labkit.run import machine_of
from labkit.selector import stated
from labkit.study.rank_counts import rank_counts
from labkit.study.rows import FIXED, MEASURED, PLACE, cell

__all__ = ["Point", "choice_text", "collective_choices", "is_real", "plan_points"]

_RESERVED = {*FIXED, *MEASURED, *PLACE, "ranks"}


@dataclass(frozen=True)
class Point:
    """One point: where it stands in the plan, and what runs there.

    Attributes
    ----------
    number : int
        Its place among the rows of the study.
    ranks : int
    on : object
        The machine.
    model : str or None
        The network model.
    parameters : dict
        The program's keyword arguments.
    cells : dict
        The same as cells of the table, and the collectives' algorithms where they were chosen.
    options : dict
        Options of this point's runs.
    """

    number: int
    ranks: int
    on: Any
    model: str | None
    parameters: dict[str, Any]
    cells: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Name the point."""
        return ", ".join([f"ranks={self.ranks}", *(f"{k}={v}" for k, v in self.cells.items())])


def plan_points(
    ranks: Any,
    on: Any,
    model: Any,
    parameters: Mapping[str, Any],
    coll: Any = None,
    noise: Sequence[Any] | None = None,
) -> list[Point]:
    """Return every combination, the ranks outermost; `noise` is a list of choices, or None.

    Raises
    ------
    DataError
        There is nothing to run, ranks are no whole numbers, or a parameter has the name of a column.
    """
    varied = {name for name, value in (("coll", coll), ("noise", noise)) if value is not None}
    clash = sorted(set(parameters) & (_RESERVED | varied))
    if clash:
        raise DataError(f"a parameter cannot be called {clash[0]!r}: the table has a column of that name")
    counts = rank_counts(ranks)
    choices, noises = collective_choices(coll), [None] if noise is None else list(noise)
    for one in noises:
        noise_of(one)  # refuses what cannot be read
    axes = [counts, _varied(on), _varied(model), choices, noises, *(_varied(v) for v in parameters.values())]
    if any(not axis for axis in axes):
        raise DataError("a sweep needs at least one value of ranks and of every parameter")
    points = []
    for number, (p, machine, net, choice, disturbing, *values) in enumerate(itertools.product(*axes)):
        is_maker = callable(machine) and not hasattr(machine, "hosts") and not is_cluster(machine)
        where = machine(p) if is_maker else machine
        chosen = dict(zip(parameters, values, strict=True))
        cells = {name: cell(value) for name, value in chosen.items()}
        options = {} if choice is None else {"coll": choice}
        if choice is not None:
            if is_real(where) and not machine_of(where).takes_coll:
                raise MachineError(
                    f"coll={choice_text(choice)!r} chooses algorithms of a simulated machine or of "
                    f"on='mpi', and {where!r} has those of its MPI library; leave out one of them"
                )
            cells["coll"] = choice_text(choice)
        if noise is not None:
            if is_real(where):
                raise MachineError(
                    f"noise={list(noise)!r} disturbs simulated machines, and {where!r} has its own; leave "
                    "out one of them"
                )
            options["noise"] = disturbing
            cells["noise"] = "none" if disturbing is None else str(disturbing)
        points.append(Point(number, p, where, net, chosen, cells, options))
    return points


def collective_choices(coll: Any) -> list[Any]:
    """Return the choices of collective algorithms that a sweep goes through; [None]: there is none.

    Parameters
    ----------
    coll : str, mapping, path, Selector, or list of them
        A text is as on the command line, ``"allreduce=ring,bcast=binomial"``. Lists in a mapping,
        ``{"allreduce": ["ring", "rabenseifner"]}``, give all their combinations.
    """
    found: list[Any] = []
    for one in _varied(coll):
        if isinstance(one, str) and "=" in one:
            one = dict(_pair(part) for part in one.split(","))
        if isinstance(one, Mapping):
            each = [[str(name) for name in _varied(value)] for value in one.values()]
            found += [dict(zip(one, names, strict=True)) for names in itertools.product(*each)]
        else:
            found.append(one)
    for one in found:
        if one is not None:
            stated(one)  # refuses what is not known
    return found


def _pair(part: str) -> tuple[str, str]:
    operation, _, name = part.partition("=")
    return operation.strip(), name.strip()


def choice_text(choice: Any) -> str:
    """Write a choice of collective algorithms as a cell of the table."""
    if isinstance(choice, Mapping):
        return ",".join(f"{operation}={name}" for operation, name in choice.items())
    return str(cell(choice) if not isinstance(choice, os.PathLike) else os.fspath(choice))


def is_real(on: Any) -> bool:
    """Whether a machine is a real one, where runs beside each other would disturb each other's times."""
    return machine_of(on).is_real


def _varied(value: Any) -> list[Any]:
    if isinstance(value, list | tuple | range | set | np.ndarray | pd.Series):
        return list(value)
    if isinstance(value, Iterator):
        return list(value)
    return [value]
