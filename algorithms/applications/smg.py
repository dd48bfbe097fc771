"""Semicoarsening multigrid as in SMG2000: planes are relaxed by multigrid in planes, lines solved directly.

A cycle in three dimensions relaxes odd and even planes, coarsens across them, and interpolates back.
Relaxing planes is a cycle in two dimensions, of all planes of a color at once: it relaxes odd and even
lines and coarsens across those. Relaxing lines is exact: each rank eliminates the inside of its pieces,
and the ranks of a row solve for their ends. The ranks are a grid of three dimensions.

Cost of a cycle, for n^3 points on p = q^3 ranks, L = log n::

    levels      3 L^2 exchanges with two neighbors, and 9 L^2 solutions of lines, of ever fewer points
    lines       an allgather in a row of q ranks each
    arithmetic  about 170 n^3 / p operations

Requires: n + 1 is a power of two. Any p; on coarse grids most ranks have no point.

Properties
    The residual falls by a factor of three or more in a cycle, whatever n and the ratio of the coefficients.
    Most messages are short, and on coarse grids neighbors are far away: latency limits the speedup.

Reference
    S. Schaffer: A semicoarsening multigrid method for elliptic partial differential equations with highly
    discontinuous and anisotropic coefficients. SIAM J. Sci. Comput. 20 (1998), doi:10.1137/S1064827595281587.
    P. Brown, R. Falgout, J. Jones: Semicoarsening multigrid on distributed memory machines. SIAM J. Sci.
    Comput. 21 (2000), doi:10.1137/S1064827598339141. Here coefficients are constant.

Examples
--------
>>> import labkit as lk
>>> from labkit.algorithms.applications.smg import smg
>>> run = lk.run(smg, 4, on="star:4", args=("T",))
>>> run.results[0].residuals[-1] < 1e-2 * run.results[0].residuals[0]
True
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit.algorithms.applications._nas import at_least_one, class_of, room, work
from labkit.datasets.matrices import offsets
from labkit.errors import DataError
from labkit.program.context import phase
from labkit.program.sized import sized
from labkit.registry import Algorithm, Cost

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "SIZES", "Smoothed", "cost", "smg"]

Field = NDArray[np.float64]

#: points along an edge, cycles; T is for tests
SIZES = {"T": (7, 4), "31": (31, 7), "63": (63, 7), "127": (127, 7)}

#: of a core's peak (assumed)
_SHARE = 0.15


class Smoothed(NamedTuple):
    """The solution.

    Attributes
    ----------
    u : ndarray, shape (a, b, c)
        This rank's block.
    residuals : list of float
        The norm of the residual before the first cycle and after each.
    """

    u: Field
    residuals: list[float]


def smg(
    comm: Intracomm,
    size: str = "63",
    *,
    coefficients: Sequence[float] = (1.0, 1.0, 1.0),
    charged: bool = False,
    steps: int | None = None,
) -> Smoothed:
    """Solve a diffusion equation in a cube whose right-hand side is 1, with zeros around it.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one. Its grid is the one of ``MPI.Compute_dims(p, 3)``.
    size : str
        A class of `SIZES`: points along an edge.
    coefficients : sequence of float
        Of the three axes, positive: the equation is the sum of ``c (2 u - u_before - u_after)`` over them.
    charged : bool
        Charge the arithmetic instead of doing it; the result is then 0.
    steps : int, optional
        Cycles, instead of those of the class.

    Returns
    -------
    Smoothed

    Raises
    ------
    DataError
        If there is no such class, or a number is out of range.
    """
    n, most = class_of(SIZES, size, "smg")
    most = at_least_one("steps", steps, most)
    weights = tuple(map(float, coefficients))
    if len(weights) != 3 or not all(np.isfinite(weights)) or min(weights) <= 0:
        raise DataError(
            f"coefficients must be three positive numbers, got {coefficients!r}", code="out-of-range"
        )
    cycle = _Cycle(comm, n, charged)
    u, f = cycle.zeros(cycle.shape), cycle.zeros(cycle.shape) + (0.0 if charged else 1.0)
    whole = _Level((0, 0), weights, 2 * sum(weights))
    residuals = []
    for step in range(most + 1):
        if step:
            cycle.run(0, u, f, whole)
        with phase("norm"):
            left = cycle.residual(u, f, whole)
            residuals.append(float(comm.allreduce(float((left**2).sum()))) ** 0.5)
    cycle.free()
    return Smoothed(u, residuals)


class _Level(NamedTuple):
    """A grid: how often the first two axes were coarsened, coefficients, the diagonal."""

    coarsened: tuple[int, int]
    weights: tuple[float, float, float]
    diagonal: float


class _Cycle:
    """A rank's block of the grid, and the cycles over it."""

    def __init__(self, comm: Intracomm, n: int, charged: bool) -> None:
        from labkit import MPI

        self.n, self.charged = n, charged
        self.grid = comm.Create_cart(MPI.Compute_dims(comm.size, 3))
        self.cuts = [offsets(n, size) + 1 for size in self.grid.dims]  # points are numbered from 1
        at = self.grid.coords
        self.first = [int(cuts[i]) for cuts, i in zip(self.cuts, at, strict=True)]
        self.end = [int(cuts[i + 1]) for cuts, i in zip(self.cuts, at, strict=True)]
        self.shape = tuple(np.subtract(self.end, self.first).tolist())
        self.row = self.grid.Sub([False, False, True])
        self.in_row = np.diff(self.cuts[2])

    def free(self) -> None:
        """Free the communicators."""
        self.row.Free()
        self.grid.Free()

    def zeros(self, shape: tuple[int, ...]) -> Field:
        """Return an array of zeros; one that takes no memory where arithmetic is charged."""
        return np.broadcast_to(0.0, shape) if self.charged else np.zeros(shape)

    def points(self, axis: int, times: int) -> range:
        """Return the numbers of this rank's points along an axis that was coarsened some times."""
        step = 1 << times
        return range(-(-self.first[axis] // step) * step, self.end[axis], step)

    def run(self, axis: int, u: Field, f: Field, level: _Level) -> None:
        """Improve u by one cycle of the axes from this one on; solve lines exactly."""
        if axis == 2:
            self.solve_lines(u, f, level)
            return
        if 1 << (level.coarsened[axis] + 1) > self.n:  # a single point
            self.run(axis + 1, u, f, level)
            return
        self.relax(axis, u, f, level, (1, 0))
        self.coarsen(axis, u, f, level)
        self.relax(axis, u, f, level, (0, 1))

    def relax(self, axis: int, u: Field, f: Field, level: _Level, colors: tuple[int, int]) -> None:
        """Solve for planes or lines of one color after the other."""
        mine = self.points(axis, level.coarsened[axis])
        for color in colors:
            before, after = self.neighbors(axis, u, level)
            some = (slice(None),) * axis + (slice((mine.start // mine.step + color) % 2, None, 2),)
            known = f[some]
            if not self.charged:
                known = known + level.weights[axis] * (before[some] + after[some])
            work(4.0 * known.size, _SHARE)
            self.run(axis + 1, u[some], known, level)

    def coarsen(self, axis: int, u: Field, f: Field, level: _Level) -> None:
        """Correct u by a cycle on the grid of every other point along the axis."""
        left = self.residual(u, f, level, axis)
        before, after = self.neighbors(axis, left, level)
        mine = self.points(axis, level.coarsened[axis])
        even = (slice(None),) * axis + (slice((mine.start // mine.step) % 2, None, 2),)
        odd = (slice(None),) * axis + (slice((mine.start // mine.step + 1) % 2, None, 2),)
        coarsened, weights = list(level.coarsened), list(level.weights)
        coarsened[axis] += 1
        weights[axis] /= 4
        diagonal = level.diagonal - 2 * level.weights[axis] + 2 * weights[axis]
        coarse = _Level((coarsened[0], coarsened[1]), (weights[0], weights[1], weights[2]), diagonal)
        known, found = left[even], self.zeros(left[even].shape)
        if not self.charged:
            known = known / 2 + (before[even] + after[even]) / 4
        self.run(axis, found, known, coarse)
        work(8.0 * u.size, _SHARE)
        spread = self.zeros(u.shape)
        if not self.charged:
            spread[even] = found
        before, after = self.neighbors(axis, spread, level)
        if not self.charged:
            u[even] += found
            u[odd] += (before[odd] + after[odd]) / 2

    def residual(self, u: Field, f: Field, level: _Level, first: int = 0) -> Field:
        """Return f - A u; A has the axes from the first one on."""
        near = [self.neighbors(axis, u, level) for axis in range(first, 3)]
        work((2.0 + 3 * len(near)) * u.size, _SHARE)
        if self.charged:
            return f
        weights = level.weights[first:]
        return f - level.diagonal * u + sum(w * (a + b) for w, (a, b) in zip(weights, near, strict=True))

    def neighbors(self, axis: int, u: Field, level: _Level) -> tuple[Field, Field]:
        """Return, at each point, u at the points before and after it along an axis; 0 outside."""
        mine = self.points(axis, (*level.coarsened, 0)[axis])
        edge = (*u.shape[:axis], 1, *u.shape[axis + 1 :])
        ends = [self.zeros(edge), self.zeros(edge)]
        length = int(np.prod(edge))
        if len(mine) and length:
            with phase("exchange"):
                requests = []
                for side, beyond in enumerate((mine.start - mine.step, mine[-1] + mine.step)):
                    if 0 < beyond <= self.n and not self.first[axis] <= beyond < self.end[axis]:
                        at = list(self.grid.coords)
                        at[axis] = int(np.searchsorted(self.cuts[axis], beyond, "right")) - 1
                        other, inner = self.grid.Get_cart_rank(at), (0, -1)[side]
                        ends[side] = room(edge, self.charged)
                        going = ends[side] if self.charged else u.take([inner], axis)
                        requests += [self.grid.Irecv(ends[side], other, 2 * axis + side)]
                        requests += [self.grid.Isend(going, other, 2 * axis + 1 - side)]
                for request in requests:
                    request.Wait()
        if self.charged or not len(mine):
            return u, u
        whole = np.concatenate([ends[0], u, ends[1]], axis)
        here = (slice(None),) * axis
        return whole[(*here, slice(None, -2))], whole[(*here, slice(2, None))]

    def solve_lines(self, u: Field, f: Field, level: _Level) -> None:
        """Solve for all lines along the last axis: the inside of pieces first, then their ends, together."""
        lines = u.shape[0] * u.shape[1]
        if not lines:
            return
        work(10.0 * u.size, _SHARE)
        c, sizes = level.weights[2], self.in_row
        alone = f if self.charged else f @ _inverse(sizes[self.row.rank], c, level.diagonal)
        if self.row.size == 1:
            if not self.charged:
                u[...] = alone
            return
        with phase("lines"):
            if self.charged:
                self.row.Allgather(sized(2 * lines, float), sized(2 * lines * len(sizes), float))
                return
            ends = np.empty((len(sizes), *u.shape[:2], 2))
            self.row.Allgather(np.ascontiguousarray(alone[..., [0, -1]]), ends)
        alone_ends = ends.transpose(1, 2, 0, 3).reshape(lines, -1)
        true_ends = alone_ends @ _ends(tuple(sizes.tolist()), c, level.diagonal).T
        outside = np.pad(true_ends, ((0, 0), (1, 1)))  # last of the piece before, first of the piece after
        inverse = _inverse(sizes[self.row.rank], c, level.diagonal)
        before, after = (outside[:, 2 * self.row.rank + k].reshape(*u.shape[:2], 1) for k in (0, 3))
        u[...] = alone + c * (before * inverse[0] + after * inverse[-1])


@functools.lru_cache(256)
def _inverse(size: int, c: float, diagonal: float) -> Field:
    """Return the inverse of a piece of a line: the diagonal, -c beside it."""
    return np.asarray(
        np.linalg.inv(diagonal * np.eye(size) - c * (np.eye(size, k=1) + np.eye(size, k=-1))), np.float64
    )


@functools.lru_cache(256)
def _ends(sizes: tuple[int, ...], c: float, diagonal: float) -> Field:
    """Return the matrix that makes the ends of all pieces from those that pieces alone have."""
    system = np.eye(2 * len(sizes))
    for k, size in enumerate(sizes):
        inverse = _inverse(size, c, diagonal)
        for end, row in enumerate((0, -1)):
            if k:
                system[2 * k + end, 2 * k - 1] -= c * inverse[row, 0]
            if k < len(sizes) - 1:
                system[2 * k + end, 2 * k + 2] -= c * inverse[row, -1]
    return np.asarray(np.linalg.inv(system), np.float64)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return messages and bytes of a cycle's exchanges, for a rank that has `n_bytes` of a cube."""
    n = (n_bytes / 8 * ranks) ** (1 / 3)
    levels = np.log2(n + 1)
    return Cost(18 * float(levels) ** 2, 18 * float(levels) * n_bytes ** (2 / 3))


ALGORITHM = Algorithm("smg", "applications", function=smg, cost=cost)
