"""CG of the NAS Parallel Benchmarks: the smallest eigenvalue of a sparse matrix by inverse iteration.

Each outer step solves A z = x by 25 steps of conjugate gradients. The ranks are a grid of r rows and c
columns; rank (i, j) has the block of A in rows R_i and columns C_j. R_i are the parts of the vector that
the ranks in row i hold, C_j those of the ranks in column j. So a product needs two exchanges and no
transposition: parts are collected in a column ("expand"), partial sums are added and dealt in a row
("fold").

Cost of a step, for n rows with k entries each on p = r c ranks::

    product     2 k n / p operations
    expand      an allgather of n / p numbers each in a column
    fold        a reduce-scatter of n / r numbers in a row
    sums        2 allreduces of 8 bytes over all ranks

Requires: nothing. Any p.

Properties
    A step sends about n (1 / r + 1 / c) numbers per rank, where rows alone would send n.

Reference
    D. Bailey et al.: The NAS Parallel Benchmarks. Int. J. Supercomputer Applications 5 (1991),
    doi:10.1177/109434209100500306; verification values: its program, version 3. The distribution:
    B. Hendrickson, R. Leland, S. Plimpton: An efficient parallel algorithm for matrix-vector multiplication.
    Int. J. High Speed Computing 7 (1995), doi:10.1142/S0129053395000051.

Examples
--------
>>> import labkit as lk
>>> from labkit.algorithms.applications.cg import cg
>>> run = lk.run(cg, 4, on="star:4", args=("T",))
>>> round(run.results[0].zeta, 8)
2.85641601
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit.algorithms.applications._nas import at_least_one, class_of, randoms, room, work
from labkit.datasets.matrices import offsets
from labkit.program.context import phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm
    from scipy.sparse import csr_array

__all__ = ["ALGORITHM", "SIZES", "VERIFIED", "Eigenvalue", "cg", "cost", "matrix"]


class Size(NamedTuple):
    """A class: rows, entries of a vector that A is made of, outer steps, shift."""

    rows: int
    entries: int
    steps: int
    shift: float


#: the classes; T is for tests
SIZES = {
    "T": Size(128, 3, 3, 5.0),
    "S": Size(1400, 7, 15, 10.0),
    "W": Size(7000, 8, 15, 12.0),
    "A": Size(14000, 11, 15, 20.0),
    "B": Size(75000, 13, 75, 60.0),
    "C": Size(150000, 15, 75, 110.0),
    "D": Size(1500000, 21, 100, 500.0),
}

#: the eigenvalue that the benchmark accepts, within 1e-10
VERIFIED = {"S": 8.5971775078648, "W": 10.362595087124, "A": 17.130235054029, "B": 22.712745482631}

#: conjugate gradients of an outer step
_INNER = 25
_SEED = 314159265
#: the condition of A is about the inverse of this
_CONDITION = 0.1

#: shares of a core's peak that products and sums reach: they wait for memory (assumed)
_SHARE = 0.1


class Eigenvalue(NamedTuple):
    """What CG returns on every rank.

    Attributes
    ----------
    zeta : float
        The eigenvalue.
    residual : float
        The norm of x - A z in the last outer step.
    """

    zeta: float
    residual: float


def cg(comm: Intracomm, size: str = "S", *, charged: bool = False, steps: int | None = None) -> Eigenvalue:
    """Compute the eigenvalue of a class.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one. Its grid is the one of ``MPI.Compute_dims(p, 2)``.
    size : str
        A class of `SIZES`.
    charged : bool
        Charge the arithmetic instead of doing it; the numbers of the result are then 0.
    steps : int, optional
        Outer steps, instead of those of the class.

    Returns
    -------
    Eigenvalue

    Raises
    ------
    DataError
        If there is no such class, or a number is out of range.
    """
    given = class_of(SIZES, size, "cg")
    most = at_least_one("steps", steps, given.steps)
    solver = _Solver(comm, size, given, charged)
    zeta = residual = 0.0
    x = solver.vector()
    if not charged:
        x[:] = 1.0
    for _ in range(most):
        z, residual = solver.solve(x)
        across, norm = solver.dot(x, z), solver.dot(z, z)
        if not charged:
            zeta, x = given.shift + 1 / across, z / norm**0.5
    solver.free()
    return Eigenvalue(zeta, residual)


class _Solver:
    """A rank's block of the matrix, and what conjugate gradients do with it."""

    def __init__(self, comm: Intracomm, name: str, size: Size, charged: bool) -> None:
        from labkit import MPI

        self.comm, self.charged = comm, charged
        _, columns = MPI.Compute_dims(comm.size, 2)
        i, j = divmod(comm.rank, columns)
        self.row, self.column = comm.Split(i, j), comm.Split(j, i)
        cuts = offsets(size.rows, comm.size)
        self.parts = np.diff(cuts)
        self.in_row = self.parts[i * columns : (i + 1) * columns]
        self.in_column = self.parts[j::columns]
        self.block: csr_array | None = None
        if charged:  # all blocks have about the same number of entries
            entries = 0.97 * size.rows * (size.entries + 1) ** 2  # some coincide
            self.entries = entries / comm.size
        else:
            mine = matrix(name)[cuts[i * columns] : cuts[(i + 1) * columns]]
            held = [np.arange(cuts[k], cuts[k + 1]) for k in range(j, comm.size, columns)]
            self.block = mine[:, np.concatenate(held)]
            self.entries = self.block.nnz

    def free(self) -> None:
        """Free the communicators of rows and columns."""
        self.row.Free()
        self.column.Free()

    def vector(self, length: int | None = None) -> NDArray[np.float64]:
        """Return a new vector, of this rank's part of the rows unless told otherwise."""
        length = int(self.parts[self.comm.rank]) if length is None else length
        return room(length, self.charged)

    def product(self, p: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return this rank's part of A p."""
        with phase("expand"):
            whole = self.vector(int(self.in_column.sum()))
            self.column.Allgatherv(p, [whole, self.in_column])
        with phase("product"):
            work(2 * self.entries, _SHARE)
            sums = self.vector(int(self.in_row.sum())) if self.block is None else self.block @ whole
        with phase("fold"):
            found = self.vector()
            self.row.Reduce_scatter(sums, found, self.in_row.tolist())
        return found

    def dot(self, left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
        """Return a dot product over all ranks."""
        work(2 * len(left), _SHARE)
        total = np.zeros(1)
        with phase("sums"):
            self.comm.Allreduce(np.array([0.0 if self.charged else left @ right]), total)
        return float(total[0])

    def solve(self, x: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """Return z after 25 steps of conjugate gradients on A z = x, and the norm of x - A z."""
        z, r, p = self.vector(), x, x
        rho = self.dot(r, r)
        for _ in range(_INNER):
            q = self.product(p)
            across = self.dot(p, q)
            work(6 * len(z), _SHARE)
            if not self.charged:
                alpha = rho / across
                z, r = z + alpha * p, r - alpha * q
            last, rho = rho, self.dot(r, r)
            if not self.charged:
                p = r + (rho / last) * p
        q = self.product(z)
        left = x if self.charged else x - q
        return z, self.dot(left, left) ** 0.5


@functools.lru_cache(2)
def matrix(size: str) -> csr_array:
    """Return the matrix of a class, less its shift: the same for every rank of a process.

    It is the sum of weighted outer products of sparse random vectors, one for each row; the weights fall
    from 1 to the inverse of the condition.
    """
    from scipy.sparse import coo_array, eye_array

    n, most, _, shift = class_of(SIZES, size, "cg")
    power = 1 << ceil_log2(n)
    # the benchmark throws the first number away; a place is taken with a probability above one half
    pairs = iter(randoms(_SEED, 1, 2 * (4 * most * n + 1000)).reshape(-1, 2).tolist())
    rows, columns, values = [], [], []
    weight, ratio = 1.0, _CONDITION ** (1 / n)
    for row in range(n):
        vector: dict[int, float] = {}
        while len(vector) < most:
            value, place = next(pairs)
            index = int(power * place)
            if index < n and index not in vector:
                vector[index] = value
        vector[row] = 0.5
        at, v = np.array([*vector]), np.array([*vector.values()])
        rows.append(np.repeat(at, len(at)))
        columns.append(np.tile(at, len(at)))
        values.append(weight * np.outer(v, v).ravel())
        weight *= ratio
    places = (np.concatenate(rows), np.concatenate(columns))
    return (coo_array((np.concatenate(values), places), (n, n)) + (_CONDITION - shift) * eye_array(n)).tocsr()


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return messages and bytes of a step on a square grid, for a rank's part of `n_bytes`; rings."""
    q = ranks**0.5
    sums = 2 * ceil_log2(ranks)
    return Cost(2 * (q - 1) + sums, 2 * (q - 1) * n_bytes + 8 * sums)


ALGORITHM = Algorithm("cg", "applications", function=cg, cost=cost)
