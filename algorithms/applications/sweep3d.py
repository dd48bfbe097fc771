"""Particle transport as in Sweep3D: eight sweeps through a cube, each a pipeline over a grid of ranks.

In each of the eight octants of directions, particles come from three sides: a cell needs what leaves its
neighbors there. The columns of cells are dealt to a grid of ranks; a rank takes a block of planes and of
angles, waits for what enters from two sides, computes, and sends on what leaves (the method of Koch,
Baker and Alcouffe). Small blocks fill the pipeline earlier and need more messages.

Cost of a step, for n^3 cells, m angles an octant in blocks of B planes and A angles, on p = q^2 ranks::

    sweep       8 m n^3 / p cells and angles
                16 (n / B) (m / A) messages of 8 A B n / q bytes, in a pipeline of 2 (q - 1) ranks
    sums        an allreduce of 8 bytes

Requires: nothing. Any p; ranks beyond the grid's cells have nothing to compute.

Properties
    All ranks together compute what a single one does. Particles are conserved: what the source emits is
    absorbed or leaves, up to what the iteration still changes.

Reference
    K. R. Koch, R. S. Baker, R. E. Alcouffe: Solution of the first-order form of the 3-D discrete ordinates
    equation on a massively parallel processor. Trans. American Nuclear Society 65 (1992). A. Hoisie,
    O. Lubeck, H. Wasserman: Performance and scalability analysis of teraflop-scale parallel architectures
    using multidimensional wavefront applications. IJHPCA 14 (2000), doi:10.1177/109434200001400405.

Examples
--------
>>> import labkit as lk
>>> from labkit.algorithms.applications.sweep3d import sweep3d
>>> run = lk.run(sweep3d, 4, on="star:4", args=("T",))
>>> one = run.results[0]
>>> abs(one.emitted - one.absorbed - one.left) < 1e-4 * one.emitted
True
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit.algorithms.applications._nas import at_least_one, class_of, diagonals, room, work
from labkit.datasets.matrices import offsets
from labkit.program.context import phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = [
    "ALGORITHM",
    "DIRECTIONS",
    "SCATTERED",
    "SIZES",
    "TOTAL",
    "WEIGHT",
    "Transported",
    "cost",
    "sweep3d",
]

Field = NDArray[np.float64]

#: cells along an edge, steps; T is for tests
SIZES = {"T": (5, 15), "50": (50, 12), "150": (150, 12), "1000": (1000, 12)}

#: how much of what crosses a unit of length meets something, and how much of that is scattered
TOTAL, SCATTERED = 1.0, 0.5

#: cosines of an octant's six directions (a level-symmetric set of order 6), all of the same weight
DIRECTIONS = np.array([
    [0.2666355, 0.2666355, 0.9261808], [0.2666355, 0.6815076, 0.6815076], [0.2666355, 0.9261808, 0.2666355],
    [0.6815076, 0.2666355, 0.6815076], [0.6815076, 0.6815076, 0.2666355], [0.9261808, 0.2666355, 0.2666355],
])  # fmt: skip
WEIGHT = 1 / 48

#: operations of a cell and angle, and the share of a core's peak (assumed)
_OPERATIONS, _SHARE = 20.0, 0.2


class Transported(NamedTuple):
    """The solution.

    Attributes
    ----------
    flux : ndarray, shape (a, b, cells)
        Particles in this rank's columns of cells, averaged over directions.
    emitted, absorbed, left : float
        What the source emits, cells absorb and leaves the cube in the last step, over all ranks.
    change : float
        The largest change of the flux in the last step.
    """

    flux: Field
    emitted: float
    absorbed: float
    left: float
    change: float


def sweep3d(
    comm: Intracomm,
    size: str = "50",
    *,
    planes: int = 10,
    angles: int = 3,
    charged: bool = False,
    steps: int | None = None,
) -> Transported:
    """Compute the flux of a constant source in a cube of edge 5, in a vacuum.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one. Its grid is the one of ``MPI.Compute_dims(p, 2)``.
    size : str
        A class of `SIZES`: cells along an edge.
    planes, angles : int
        Of a block: that much is computed between messages.
    charged : bool
        Charge the arithmetic instead of doing it; the result is then 0.
    steps : int, optional
        Steps, instead of those of the class.

    Returns
    -------
    Transported

    Raises
    ------
    DataError
        If there is no such class, or a number is out of range.
    """
    from labkit import MPI

    n, most = class_of(SIZES, size, "sweep3d")
    most = at_least_one("steps", steps, most)
    rows, columns = MPI.Compute_dims(comm.size, 2)
    grid = comm.Create_cart([rows, columns])
    i, j = grid.coords
    a, b = int(np.diff(offsets(n, rows))[i]), int(np.diff(offsets(n, columns))[j])
    pieces = at_least_one("planes", planes, n), at_least_one("angles", angles, len(DIRECTIONS))
    block = _Block(grid, (a, b, n), pieces, 5.0 / n, charged)
    flux, left, change = block.zeros(), 0.0, 0.0
    for _ in range(most):
        source, last = SCATTERED * flux + 1.0, flux
        flux = block.zeros()
        with phase("sweep"):
            left = sum(block.sweep(signs, source, flux) for signs in itertools.product((1, -1), repeat=3))
        change = float(abs(flux - last).max(initial=0.0))
        with phase("sums"):
            change = comm.allreduce(change, MPI.MAX)
    volume, sums = (5.0 / n) ** 3, np.zeros(3)
    mine = [volume * a * b * n, volume * float(flux.sum()) * (TOTAL - SCATTERED), left]
    comm.Allreduce(np.array(mine), sums)
    emitted, absorbed, left = sums.tolist()
    return Transported(flux, emitted, absorbed, left, change)


class _Block:
    """A rank's columns of cells, and the sweeps through them."""

    def __init__(
        self, grid: Any, shape: tuple[int, int, int], block: tuple[int, int], cell: float, charged: bool
    ) -> None:
        self.grid, self.shape, self.cell, self.charged = grid, shape, cell, charged
        self.planes, self.angles = block
        a, b, _ = shape
        self.diagonals = diagonals(a, b)

    def zeros(self) -> Field:
        """Return no flux anywhere."""
        return np.zeros((0, 0, 0) if self.charged else self.shape)

    def sweep(self, signs: tuple[int, ...], source: Field, flux: Field) -> float:
        """Sweep in the directions of an octant: `flux` grows; return what leaves the cube."""
        view = tuple(slice(None, None, sign) for sign in signs)
        source, flux = source[view], flux[view]
        (north, south), (west, east) = self.grid.Shift(0, signs[0]), self.grid.Shift(1, signs[1])
        a, b, n = self.shape
        gone = np.zeros(3)
        for first in range(0, len(DIRECTIONS), self.angles):
            some = DIRECTIONS[first : first + self.angles]
            above = np.zeros((*flux.shape[:2], len(some)))
            for k in range(0, n, self.planes):
                deep = min(self.planes, n - k)
                from_north = self._take(north, (deep, b, len(some)))
                from_west = self._take(west, (deep, a, len(some)))
                work(_OPERATIONS * a * b * deep * len(some), _SHARE)
                if not self.charged:
                    inside = (..., slice(k, k + deep))
                    self._cross(source[inside], flux[inside], (from_north, from_west, above), some)
                for axis, (to, side) in enumerate(((south, from_north), (east, from_west))):
                    self.grid.Send(side, to)
                    if to < 0 and not self.charged:  # the cube ends here
                        gone[axis] += (side @ some[:, axis]).sum()
            gone[2] += (above @ some[:, 2]).sum()
        return float(gone.sum()) * WEIGHT * self.cell**2

    def _take(self, source: int, shape: tuple[int, int, int]) -> Field:
        """Return what enters through a side: nothing, or what the rank there sends."""
        found = room(shape, self.charged)
        self.grid.Recv(found, source)
        return found

    def _cross(self, source: Field, flux: Field, enters: tuple[Field, Field, Field], some: Field) -> None:
        """Cross some planes: `flux` grows; what enters from north, west and above becomes what leaves."""
        north, west, above = enters
        x, y, z = 2 * some.T / self.cell
        below = TOTAL + x + y + z
        for k in range(source.shape[2]):
            for i, j in self.diagonals:
                sides = north[k, j], west[k, i], above[i, j]
                here = (source[i, j, k, None] + x * sides[0] + y * sides[1] + z * sides[2]) / below
                flux[i, j, k] += WEIGHT * here.sum(-1)
                north[k, j], west[k, i], above[i, j] = (2 * here - one for one in sides)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return messages and bytes of a step, for a rank that has `n_bytes` of a cube on a square grid."""
    n = (n_bytes / 8 * ranks) ** (1 / 3)
    sums = ceil_log2(ranks)
    return Cost(16 * n / 10 * 2 + sums, 16 * 6 * 8 * n * n / ranks**0.5 + 8 * sums)


ALGORITHM = Algorithm("sweep3d", "applications", function=sweep3d, cost=cost)
