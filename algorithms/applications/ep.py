"""EP of the NAS Parallel Benchmarks: pairs of Gaussian random numbers, "embarrassingly parallel".

Pairs of uniform numbers become pairs of Gaussian ones by the polar method; counted is how many have their
larger part in [l, l + 1). Batches of 2^16 pairs are dealt to the ranks in turn; every rank jumps to its
place in the sequence of random numbers.

Cost, for 2^m pairs on p ranks::

    pairs       2^m / p pairs
    sums        3 allreduces: of 8, 8 and 80 bytes

Requires: nothing. Any p; beyond 2^(m - 16) ranks some have no batch.

Properties
    The sums are those of a single rank but for rounding; the counts are equal.

Reference
    D. Bailey et al.: The NAS Parallel Benchmarks. Int. J. Supercomputer Applications 5 (1991),
    doi:10.1177/109434209100500306. Verification values: its program, version 3.

Examples
--------
>>> import labkit as lk
>>> from labkit.algorithms.applications.ep import ep
>>> run = lk.run(ep, 4, on="star:4", args=("T",))
>>> run.results[0].pairs
51285
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from labkit.algorithms.applications._nas import class_of, randoms, work
from labkit.program.context import phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "SIZES", "VERIFIED", "Gaussians", "cost", "ep"]

#: m of each class: 2^m pairs; T is for tests
SIZES = {"T": 16, "S": 24, "W": 25, "A": 28, "B": 30, "C": 32, "D": 36}

#: the sums of x and of y that the benchmark accepts, each within 1e-8 of it
VERIFIED = {
    "S": (-3.247834652034740e3, -6.958407078382297e3),
    "W": (-2.863319731645753e3, -6.320053679109499e3),
    "A": (-4.295875165629892e3, -1.580732573678431e4),
}

_SEED = 271828183
_BATCH = 2**16

#: of a pair: four for the random numbers, a logarithm, a root, some ten more (assumed)
_OPERATIONS = 60.0


class Gaussians(NamedTuple):
    """What EP returns on every rank.

    Attributes
    ----------
    x, y : float
        Sums of the first and second numbers of all pairs.
    counts : list of int
        Pairs whose larger absolute part is in [l, l + 1), l = 0 ... 9.
    """

    x: float
    y: float
    counts: list[int]

    @property
    def pairs(self) -> int:
        """Pairs of Gaussian numbers: pi / 4 of the uniform ones."""
        return sum(self.counts)


def ep(comm: Intracomm, size: str = "S", *, charged: bool = False) -> Gaussians:
    """Draw the pairs of a class and add them up.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one.
    size : str
        A class of `SIZES`.
    charged : bool
        Charge the drawing instead of doing it; sums and counts are then 0.

    Returns
    -------
    Gaussians

    Raises
    ------
    DataError
        If there is no such class.
    """
    total = 2 ** class_of(SIZES, size, "ep")
    batches = range(comm.rank, total // _BATCH, comm.size)
    sums, counts = np.zeros(2), np.zeros(10)
    with phase("pairs"):
        work(_OPERATIONS * _BATCH * len(batches), 1.0)
        for batch in () if charged else batches:
            x, y = 2 * randoms(_SEED, 2 * _BATCH * batch, 2 * _BATCH).reshape(-1, 2).T - 1
            t = x * x + y * y
            inside = t <= 1
            x, y, t = x[inside], y[inside], t[inside]
            scale = np.sqrt(-2 * np.log(t) / t)
            x, y = x * scale, y * scale
            sums += x.sum(), y.sum()
            counts += np.bincount(np.maximum(abs(x), abs(y)).astype(int), minlength=10)
    with phase("sums"):
        for part in (sums[:1], sums[1:], counts):
            comm.Allreduce(part.copy(), part)
    return Gaussians(float(sums[0]), float(sums[1]), counts.astype(int).tolist())


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return messages and bytes of the sums with recursive doubling; the input has no size of its own."""
    return Cost(3 * ceil_log2(ranks), 96 * ceil_log2(ranks))


ALGORITHM = Algorithm("ep", "applications", function=ep, cost=cost)
