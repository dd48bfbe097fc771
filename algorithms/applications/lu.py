"""A wavefront as in LU of the NAS Parallel Benchmarks: symmetric successive over-relaxation of five unknowns.

The columns of cells are dealt to a grid of ranks. A forward sweep computes plane after plane; a cell
needs its western, northern and lower neighbors. So a rank waits for edges from west and north, computes
its part of the plane, and sends edges to east and south: the ranks work on different planes, a wave that
runs through the machine. The backward sweep runs the other way.

Cost of a step, for n^3 cells on p = q^2 ranks::

    residual    4 messages of 40 n^2 / q bytes
    forward     2 n messages of 40 n / q bytes; n + 2 (q - 1) planes one after another
    backward    as forward
    norm        an allreduce of 40 bytes

Requires: nothing. Any p; ranks beyond the grid's cells have nothing to compute.

Properties
    All ranks together compute what a single one does, but for rounding.
    Short messages, many of them: latency and the 2 (q - 1) planes of an empty pipeline limit the speedup.

Reference
    D. Bailey et al.: The NAS Parallel Benchmarks. Int. J. Supercomputer Applications 5 (1991),
    doi:10.1177/109434209100500306. Here the five equations are a linear convection-diffusion system with
    constant coefficients, not the compressible Navier-Stokes equations: data flow and messages are LU's.
    The pipeline: E. Barszcz et al.: Solution of regular, sparse triangular linear systems on vector and
    distributed-memory multiprocessors. NASA RNR-93-007 (1993).

Examples
--------
>>> import labkit as lk
>>> from labkit.algorithms.applications.lu import lu
>>> run = lk.run(lu, 4, on="star:4", args=("T",))
>>> run.results[0].norms[-1] < 1e-2 * run.results[0].norms[0]
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit.algorithms.applications._nas import at_least_one, class_of, diagonals, room, work
from labkit.datasets.matrices import offsets
from labkit.program.context import phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "COUPLING", "DIAGONAL", "SIZES", "Relaxed", "cost", "lu"]

Field = NDArray[np.float64]


class Size(NamedTuple):
    """A class: cells along an edge, steps."""

    cells: int
    steps: int


#: the classes; T is for tests
SIZES = {
    "T": Size(6, 8), "S": Size(12, 50), "W": Size(33, 300), "A": Size(64, 250), "B": Size(102, 250),
    "C": Size(162, 250), "D": Size(408, 300),
}  # fmt: skip

#: operations of a cell and step that the benchmark counts (its program, version 3), and each phase's part
_OPERATIONS = 1984.77
_PARTS = {"residual": 0.4, "forward": 0.3, "backward": 0.3}
#: of a core's peak (assumed)
_SHARE = 0.25

#: coefficients of western, northern and lower neighbors' unknowns; of those opposite, the transposes
COUPLING = -0.9 * np.eye(5) + 0.15 * np.array([np.eye(5, k=1), np.eye(5, k=-1), np.eye(5, k=2)])
#: coefficients of the unknowns in the cell
DIAGONAL = 6.5 * np.eye(5) + 0.1 * np.ones((5, 5))

_OMEGA = 1.2


class Relaxed(NamedTuple):
    """The solution.

    Attributes
    ----------
    u : ndarray, shape (cells, a, b, 5)
        This rank's columns of cells, bottom first.
    norms : list of float
        The norm of the residual before the first step and after each.
    """

    u: Field
    norms: list[float]


def lu(comm: Intracomm, size: str = "S", *, charged: bool = False, steps: int | None = None) -> Relaxed:
    """Relax a system whose right-hand side is 1 everywhere and whose unknowns are 0 outside the grid.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one. Its grid is the one of ``MPI.Compute_dims(p, 2)``.
    size : str
        A class of `SIZES`.
    charged : bool
        Charge the arithmetic instead of doing it; the result is then 0.
    steps : int, optional
        Steps, instead of those of the class.

    Returns
    -------
    Relaxed

    Raises
    ------
    DataError
        If there is no such class, or a number is out of range.
    """
    given = class_of(SIZES, size, "lu")
    most = at_least_one("steps", steps, given.steps)
    wave = _Wave(comm, given.cells, charged)
    u = np.zeros((given.cells + 2, *wave.shape, 5))  # with a frame of zeros or neighbors' cells
    change = wave.residual(u)
    norms = [wave.norm(change)]
    for _ in range(most):
        wave.sweep(change, forward=True)
        wave.sweep(change, forward=False)
        if not charged:
            u[1:-1, 1:-1, 1:-1] += (2 - _OMEGA) * change[1:-1, 1:-1, 1:-1]
        change = wave.residual(u)
        norms.append(wave.norm(change))
    return Relaxed(u[1:-1, 1:-1, 1:-1], norms)


class _Wave:
    """A rank's columns of cells, and the sweeps through them."""

    def __init__(self, comm: Intracomm, n: int, charged: bool) -> None:
        from labkit import MPI

        self.comm, self.n, self.charged = comm, n, charged
        rows, columns = MPI.Compute_dims(comm.size, 2)
        self.grid = comm.Create_cart([rows, columns])
        i, j = self.grid.coords
        self.a = int(np.diff(offsets(n, rows))[i])
        self.b = int(np.diff(offsets(n, columns))[j])
        self.shape = (0, 0) if charged else (self.a + 2, self.b + 2)
        (self.north, self.south), (self.west, self.east) = self.grid.Shift(0, 1), self.grid.Shift(1, 1)
        self.solve = np.linalg.inv(DIAGONAL / _OMEGA)
        self.diagonals = diagonals(self.a, self.b)

    def work(self, what: str, cells: int) -> None:
        """Charge a phase's part of the operations of some cells."""
        work(_PARTS[what] * _OPERATIONS * cells, _SHARE)

    def residual(self, u: Field) -> Field:
        """Return 1 - A u in a frame of zeros, after an exchange of edges."""
        with phase("residual"):
            for axis, (low, high) in enumerate(((self.north, self.south), (self.west, self.east)), 1):
                for to, source, inner, outer in ((high, low, -2, 0), (low, high, 1, -1)):
                    got = self.pass_on(u, axis, inner, to, source)
                    if not self.charged:
                        u[(slice(1, -1), *_edge(axis, outer))] = got
            self.work("residual", self.n * self.a * self.b)
            if self.charged:
                return u
            found = np.zeros_like(u)
            found[1:-1, 1:-1, 1:-1] = 1 - u[1:-1, 1:-1, 1:-1] @ DIAGONAL.T
            west, north, low = COUPLING
            found[1:-1, 1:-1, 1:-1] -= u[1:-1, 1:-1, :-2] @ west.T + u[1:-1, 1:-1, 2:] @ west
            found[1:-1, 1:-1, 1:-1] -= u[1:-1, :-2, 1:-1] @ north.T + u[1:-1, 2:, 1:-1] @ north
            found[1:-1, 1:-1, 1:-1] -= u[:-2, 1:-1, 1:-1] @ low.T + u[2:, 1:-1, 1:-1] @ low
        return found

    def pass_on(self, u: Field, axis: int, inner: int, to: int, source: int) -> Field:
        """Send the edges of all planes one way, and return those that arrive; zeros where nobody sends."""
        coming = self.edge(axis, self.n)
        going = coming if self.charged else u[(slice(1, -1), *_edge(axis, inner))].ravel()
        self.grid.Sendrecv(going.copy(), to, 0, coming, source, 0)
        return coming.reshape(self.n, -1, 5)

    def edge(self, axis: int, planes: int = 1) -> Field:
        """Return a buffer for the edges of some planes."""
        return room(5 * planes * (self.b, self.a)[axis - 1], self.charged)

    def sweep(self, v: Field, forward: bool) -> None:
        """Solve with the lower triangle of A, or with the upper one after a product with the diagonal."""
        step = 1 if forward else -1
        name = "forward" if forward else "backward"
        sources = (self.north, self.west) if forward else (self.south, self.east)
        targets = (self.south, self.east) if forward else (self.north, self.west)
        west, north, low = COUPLING if forward else COUPLING.transpose(0, 2, 1)
        first, last = (0, -2) if forward else (-1, 1)  # where edges arrive, and where they leave
        with phase(name):
            for k in range(1, self.n + 1) if forward else range(self.n, 0, -1):
                for axis, source in enumerate(sources, 1):
                    edge = self.edge(axis)
                    self.grid.Recv(edge, source)
                    if not self.charged:
                        v[(k, *_edge(axis, first))] = edge.reshape(-1, 5)
                self.work(name, self.a * self.b)
                for rows, columns in () if self.charged else self.diagonals[::step]:
                    i, j = rows + 1, columns + 1
                    known = v[k, i, j] if forward else v[k, i, j] @ (DIAGONAL / _OMEGA).T
                    known = known - v[k - step, i, j] @ low.T
                    known = known - v[k, i - step, j] @ north.T - v[k, i, j - step] @ west.T
                    v[k, i, j] = known @ self.solve.T
                for axis, target in enumerate(targets, 1):
                    edge = self.edge(axis) if self.charged else v[(k, *_edge(axis, last))].ravel()
                    self.grid.Send(edge, target)
            if not self.charged:
                v[:, 0], v[:, -1], v[:, :, 0], v[:, :, -1] = 0, 0, 0, 0

    def norm(self, residual: Field) -> float:
        """Return the norm of a residual over all ranks."""
        with phase("norm"):
            mine = np.zeros(5) if self.charged else (residual**2).sum((0, 1, 2))
            total = np.empty(5)
            self.comm.Allreduce(mine, total)
        return float(total.sum() ** 0.5)


def _edge(axis: int, at: int) -> tuple[slice | int, slice | int]:
    """Return the indices of an edge of a plane, without its corners."""
    return (at, slice(1, -1)) if axis == 1 else (slice(1, -1), at)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return messages and bytes of a step, for a rank that has `n_bytes` of a cube on a square grid."""
    n = (n_bytes / 40 * ranks) ** (1 / 3)
    sums = ceil_log2(ranks)
    return Cost(4 * n + 4 + sums, 8 * n * 40 * n / ranks**0.5 + 40 * sums)


ALGORITHM = Algorithm("lu", "applications", function=lu, cost=cost)
