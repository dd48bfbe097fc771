"""A small weather model, as WRF: wind carries moisture to neighbors, and columns of air mix by themselves.

Moisture is carried by a steady wind (upwind differences of the flux between cells), and over land mixed by
turbulence, an implicit step in each column of cells. The columns are dealt to a grid of ranks; columns over
land cost several times those over the sea, so that equal blocks are unequal work.

Cost of a step, for n x m columns of h levels on p = q^2 ranks::

    advection     4 messages of 8 n h / q bytes, 12 n m h / p operations
    turbulence    120 operations a cell over land
    time step     an allreduce of 8 bytes

Requires: at least as many rows and columns as the grid of ranks has.

Properties
    Moisture is conserved; the numbers are the same, to the bit, on any number of ranks.
    ``balanced=True`` cuts rows and columns into parts of about equal work instead of equal size (Nicol).

Reference
    Z. Janjic, J. Gerrity, S. Nickovic: An alternative approach to nonhydrostatic modeling. Monthly Weather
    Review 129 (2001), doi:10.1175/1520-0493(2001)129<1164:AAATNM>2.0.CO;2 (the model of WRF-NMM).
    D. Nicol: Rectilinear partitioning of irregular data parallel computations. J. Parallel and Distributed
    Computing 23 (1994), doi:10.1006/jpdc.1994.1126.
    B. Wylie, M. Geimer, F. Wolf: Performance measurement and analysis of large-scale parallel applications on
    leadership computing systems. Scientific Programming 16 (2008), doi:10.1155/2008/632132.

Examples
--------
>>> import labkit as lk
>>> from labkit.algorithms.applications.weather import weather
>>> one, *_ = lk.run(weather, 4, on="star:4", args=("T",)).results
>>> abs(one.water - one.water_at_begin) < 1e-12 * one.water
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit.algorithms.applications._nas import at_least_one, class_of, room, work
from labkit.datasets.matrices import offsets
from labkit.errors import DataError
from labkit.program.context import phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "MIXING", "SIZES", "Forecast", "cost", "is_land", "weather", "wind"]

Field = NDArray[np.float64]

#: rows, columns, levels, steps; T is for tests
SIZES = {"T": (18, 16, 5, 4), "small": (96, 96, 20, 10), "europe": (480, 480, 38, 20)}

#: of the diffusion in a column, in units of a level's height and a step
MIXING = 0.4

#: a step's part of what crosses a cell at most
_COURANT = 0.4

#: times that rows and columns are cut anew
_ROUNDS = 4

#: operations of a cell, and of one over land; the share of a core's peak (assumed)
_CARRIED, _MIXED, _SHARE = 12.0, 120.0, 0.1


class Forecast(NamedTuple):
    """The last state.

    Attributes
    ----------
    moisture : ndarray, shape (a, b, levels)
        Of this rank's columns.
    first : (int, int)
        The row and the column of its first one.
    water, water_at_begin : float
        Over all ranks.
    most : float
        The largest moisture anywhere.
    """

    moisture: Field
    first: tuple[int, int]
    water: float
    water_at_begin: float
    most: float


def is_land(rows: int, columns: int) -> NDArray[np.bool_]:
    """Return which columns of air lie over land: a coast goes through the area."""
    x, y = np.meshgrid((np.arange(rows) + 0.5) / rows, (np.arange(columns) + 0.5) / columns, indexing="ij")
    return np.asarray(y > 0.6 + 0.06 * np.sin(7 * x))


def wind(rows: int, columns: int) -> tuple[Field, Field]:
    """Return the wind through the sides between rows and between columns, in cells a step: a cyclone.

    It is the difference of a stream function at the corners, so that no air is lost.
    """
    across = np.sin(np.pi * np.arange(rows + 1) / rows) ** 2
    along = np.sin(np.pi * np.arange(columns + 1) / columns) ** 2
    stream = np.multiply.outer(across, along)
    north, west = np.diff(stream, axis=1), -np.diff(stream, axis=0)
    fastest = max(float(abs(north).max()), float(abs(west).max()))
    return north * (_COURANT / fastest), west * (_COURANT / fastest)


def weather(
    comm: Intracomm,
    size: str = "small",
    *,
    balanced: bool = False,
    charged: bool = False,
    steps: int | None = None,
) -> Forecast:
    """Carry and mix moisture for some steps.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one. Its grid is the one of ``MPI.Compute_dims(p, 2)``.
    size : str
        A class of `SIZES`.
    balanced : bool
        Cut the area into parts of about equal work instead of equal size.
    charged : bool
        Charge the arithmetic instead of doing it; the result then has no numbers.
    steps : int, optional
        Steps, instead of those of the class.

    Returns
    -------
    Forecast

    Raises
    ------
    DataError
        If there is no such class, a number is out of range, or there are more ranks than rows or columns.
    """
    from labkit import MPI

    rows, columns, levels, usual = class_of(SIZES, size, "weather")
    steps = at_least_one("steps", steps, usual)
    parts = MPI.Compute_dims(comm.size, 2)
    if parts[0] > rows or parts[1] > columns:
        raise DataError(
            f"weather {size!r} has {rows} x {columns} columns of air, and a grid of {parts[0]} x {parts[1]} "
            "ranks; use fewer ranks, or a larger class"
        )
    grid = comm.Create_cart(parts)
    land = is_land(rows, columns)
    cuts = [offsets(rows, parts[0]), offsets(columns, parts[1])]
    if balanced:
        cuts = _balanced(np.where(land, _CARRIED + _MIXED, _CARRIED), cuts)
    (i, a), (j, b) = ((int(c[k]), int(c[k + 1])) for c, k in zip(cuts, grid.coords, strict=True))
    north, west = wind(rows, columns)
    area = _Area(grid, land[i:a, j:b], north[i : a + 1, j:b], west[i:a, j : b + 1], levels, charged)
    moist = np.add.outer(np.arange(i, a) % 7, np.arange(j, b) % 5)[..., None] + np.arange(levels) % 3
    field = area.ring(np.asarray(moist + 1.0, np.float64))
    before, most = area.total(field), 0.0
    for _ in range(steps):
        with phase("advection"):
            area.carry(field)
        with phase("turbulence"):
            area.mix(field)
        with phase("time step"):
            largest = 0.0 if charged else float(field[1:-1, 1:-1].max())
            most = float(comm.allreduce(largest, MPI.MAX))
    return Forecast(field[1:-1, 1:-1], (i, j), area.total(field), before, most)


def _balanced(costs: Field, cuts: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    """Return cuts of rows and columns whose costliest block costs less: each axis in turn, by the other's."""
    for _ in range(_ROUNDS):
        for axis in (1, 0):
            strips = np.add.reduceat(costs, cuts[1 - axis][:-1], axis=1 - axis)
            cuts[axis] = _cuts(strips.max(axis=1 - axis), len(cuts[axis]) - 1)
    return cuts


def _cuts(costs: Field, parts: int) -> NDArray[np.int64]:
    """Return where parts of about equal costs begin, none of them empty: shape (parts + 1,)."""
    done = np.concatenate([[0.0], np.cumsum(costs)])
    found = np.asarray(np.searchsorted(done, done[-1] * np.arange(parts + 1) / parts), np.int64)
    found[-1] = len(costs)
    for k in range(1, parts):
        found[k] = min(max(found[k], found[k - 1] + 1), len(costs) - (parts - k))
    return found


def _line(field: Field, axis: int, k: int) -> Field:
    """Return a row or a column of a field, without the ring's corners, to read or to write."""
    return field[k, 1:-1] if axis == 0 else field[1:-1, k]


class _Area:
    """A rank's columns of air."""

    def __init__(
        self, grid: Any, land: NDArray[np.bool_], north: Field, west: Field, levels: int, charged: bool
    ) -> None:
        self.grid, self.land, self.levels, self.charged = grid, land, levels, charged
        self.north, self.west = north[..., None], west[..., None]

    def ring(self, values: Field) -> Field:
        """Return values with a ring of cells for those of the neighbors."""
        if self.charged:
            return np.zeros((2, 2, 0))
        return np.pad(values, ((1, 1), (1, 1), (0, 0)))

    def total(self, field: Field) -> float:
        """Add up the water of all ranks."""
        return float(self.grid.allreduce(float(field[1:-1, 1:-1].sum())))

    def carry(self, field: Field) -> None:
        """Move what the wind carries through the sides of the cells."""
        a, b = self.land.shape
        for axis, length in ((0, b), (1, a)):
            for away in (1, -1):
                source, to = self.grid.Shift(axis, away)
                theirs = room((length, self.levels), self.charged)
                mine = room((length, self.levels), True)
                if not self.charged:
                    mine = np.ascontiguousarray(_line(field, axis, -2 if away == 1 else 1))
                self.grid.Sendrecv(mine, to, recvbuf=theirs, source=source)
                if not self.charged:
                    _line(field, axis, 0 if away == 1 else -1)[:] = theirs
        work(_CARRIED * a * b * self.levels, _SHARE)
        if self.charged:
            return
        inner = field[:, 1:-1], field[1:-1]
        through_north = self.north * np.where(self.north > 0, inner[0][:-1], inner[0][1:])
        through_west = self.west * np.where(self.west > 0, inner[1][:, :-1], inner[1][:, 1:])
        field[1:-1, 1:-1] -= np.diff(through_north, axis=0) + np.diff(through_west, axis=1)

    def mix(self, field: Field) -> None:
        """Mix the columns over land: one implicit step of diffusion (the method of Thomas)."""
        work(_MIXED * int(self.land.sum()) * self.levels, _SHARE)
        if self.charged:
            return
        columns = field[1:-1, 1:-1][self.land]
        below = np.zeros(self.levels)  # what is left of the row below after elimination
        for k in range(self.levels):
            diagonal = 1 + MIXING * ((k > 0) + (k < self.levels - 1))
            pivot = diagonal - (MIXING * below[k - 1] if k else 0.0)
            below[k] = MIXING / pivot
            columns[:, k] = (columns[:, k] + (MIXING * columns[:, k - 1] if k else 0.0)) / pivot
        for k in range(self.levels - 2, -1, -1):
            columns[:, k] += below[k] * columns[:, k + 1]
        field[1:-1, 1:-1][self.land] = columns


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return messages and bytes of a step, for a rank that has `n_bytes` of 20 levels."""
    side = (n_bytes / 8 / 20) ** 0.5
    sums = ceil_log2(ranks)
    return Cost(4 + sums, 4 * 8 * 20 * side + 8 * sums)


ALGORITHM = Algorithm("weather", "applications", function=weather, cost=cost)
