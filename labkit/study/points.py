"""The points of a sweep: every combination of ranks, machines, models and parameters."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from labkit.errors import DataError
from labkit.real.engines.target import is_cluster
from labkit.run import machine_of
from labkit.study.rows import FIXED, MEASURED, PLACE, cell

__all__ = ["Point", "is_real", "plan_points"]

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
        The same as cells of the table.
    """

    number: int
    ranks: int
    on: Any
    model: str | None
    parameters: dict[str, Any]
    cells: dict[str, Any]

    @property
    def text(self) -> str:
        """Name the point."""
        return ", ".join([f"ranks={self.ranks}", *(f"{k}={v}" for k, v in self.parameters.items())])


def plan_points(ranks: Any, on: Any, model: Any, parameters: Mapping[str, Any]) -> list[Point]:
    """Return every combination, the ranks outermost.

    Raises
    ------
    DataError
        There is nothing to run, ranks are no whole numbers, or a parameter has the name of a column.
    """
    clash = sorted(set(parameters) & _RESERVED)
    if clash:
        raise DataError(f"a parameter cannot be called {clash[0]!r}: the table has a column of that name")
    counts = _varied(ranks)
    axes = [counts, _varied(on), _varied(model), *(_varied(v) for v in parameters.values())]
    if any(not axis for axis in axes):
        raise DataError("a sweep needs at least one value of ranks and of every parameter")
    for p in counts:
        if isinstance(p, bool) or not isinstance(p, int | np.integer) or p < 1:
            raise DataError(f"ranks must be whole numbers >= 1; got {p!r}")
    points = []
    for number, (p, machine, net, *values) in enumerate(itertools.product(*axes)):
        is_maker = callable(machine) and not hasattr(machine, "hosts") and not is_cluster(machine)
        where = machine(int(p)) if is_maker else machine
        chosen = dict(zip(parameters, values, strict=True))
        cells = {name: cell(value) for name, value in chosen.items()}
        points.append(Point(number, int(p), where, net, chosen, cells))
    return points


def is_real(on: Any) -> bool:
    """Whether a machine is a real one, where runs beside each other would disturb each other's times."""
    return machine_of(on).is_real


def _varied(value: Any) -> list[Any]:
    if isinstance(value, list | tuple | range | set | np.ndarray | pd.Series):
        return list(value)
    if isinstance(value, Iterator):
        return list(value)
    return [value]
