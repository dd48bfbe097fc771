"""MAFIA: clusters in subspaces, found dimension by dimension from the dense intervals of an adaptive grid.

A unit is a set of dense intervals of different dimensions; it is dense if enough points lie in all of them.
Every part of a dense unit is dense, so the units of one more dimension are joined from the dense ones:

    gen      join any two dense units that differ in one interval
    dedup    keep each candidate once: a unit of l dimensions is joined from l (l - 1) / 2 pairs
    pcount   count the points of every candidate, and keep the dense ones
    unjoin   report the dense units that are no part of a denser one: the clusters

Parallel over ranks: the points are distributed, so `pcount` counts on each rank and adds the counts up; the
candidates are joined by the rank that owns what two units have in common, and kept once by the rank that owns
the candidate. All ranks know all dense units.

Cost of a cluster of k dimensions on one rank: it has C(k, l) units of l dimensions, 2^k in all::

    gen      k^3 2^k   l (k - l) C(k, l) / 2 pairs, each written as l + 1 intervals
    dedup    k^4 2^k   these pairs sorted: k intervals and k comparisons each
    pcount   k 2^k     l bitmaps of n bits for each of C(k, l) candidates
    unjoin   k^3 2^k   l parts of each unit of l dimensions looked up, l intervals and k comparisons each

Requires: nothing. Any p >= 1; at most 2^15 dense intervals.

Properties
    Deterministic: the clusters and all counts are the same for any number of ranks.

Reference
    H. S. Nagesh, S. Goil, A. Choudhary: A scalable parallel subspace clustering algorithm for massive data
    sets. ICPP 2000, doi:10.1109/ICPP.2000.876164. Expected costs: A. Adinetz, J. Kraus, J. Meinke, D.
    Pleiter: GPUMAFIA: efficient subspace clustering with MAFIA on GPUs. Euro-Par 2013,
    doi:10.1007/978-3-642-40047-6_83.

Examples
--------
>>> import labkit as lk
>>> from labkit.algorithms.mafia.mafia import mafia
>>> from labkit.datasets.subspaces import planted
>>> def program(comm):
...     points = planted(comm.rank, comm.size, n=6000, d=6, clusters=2, k=3).points
...     return [[interval.dimension for interval in cluster] for cluster in mafia(comm, points)]
>>> lk.run(program, 3, on="star:3").results[0]
[[0, 1, 2], [0, 1, 2]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from labkit.algorithms.mafia._grid import Interval, adaptive_grid, bitmaps
from labkit.errors import DataError
from labkit.local.costs import charge
from labkit.program.context import count, phase
from labkit.registry import Algorithm

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "dedup", "gen", "mafia", "pcount", "unjoin"]

#: units, a row each: the numbers of its intervals, rising
Units = NDArray[np.int16]

_MOST_INTERVALS = 2**15
#: words of bitmaps that are combined at a time
_MOST_WORDS = 1 << 22


def gen(comm: Intracomm, units: Units, dimension_of: NDArray[np.int64]) -> Units:
    """Join every two units that differ in one interval, the two of different dimensions.

    Parameters
    ----------
    comm : Intracomm
    units : ndarray of int16, shape (u, l)
        The dense units of l dimensions, the same on all ranks.
    dimension_of : ndarray of int
        The dimension of each interval.

    Returns
    -------
    ndarray of int16, shape (c, l + 1)
        This rank's candidates: those whose common part it owns. Each is found from several pairs.
    """
    size = units.shape[1]
    common = np.concatenate([np.delete(units, place, axis=1) for place in range(size)])
    left_out = units.T.ravel()
    mine = _owner(common, comm.size) == comm.rank
    common, left_out = common[mine], left_out[mine]
    order = np.lexsort((left_out, *common.T[::-1]))
    common, left_out = common[order], left_out[order]
    charge("sort", 2, common.size + len(common), len(common))
    group = (
        np.cumsum(np.r_[0, np.any(common[1:] != common[:-1], axis=1)]) if len(common) else np.empty(0, int)
    )
    found = []
    for apart in range(1, int(np.bincount(group).max(initial=0))):
        first = np.flatnonzero(group[apart:] == group[:-apart])
        a, b = left_out[first], left_out[first + apart]
        is_new = dimension_of[a] != dimension_of[b]
        found.append(np.column_stack([common[first], a, b])[is_new])
    candidates = np.sort(np.concatenate(found), axis=1) if found else np.empty((0, size + 1), np.int16)
    count("gen_steps", common.size + candidates.size)
    charge("merge", 2, candidates.size, 2)
    return candidates.astype(np.int16)


def dedup(comm: Intracomm, candidates: Units) -> Units:
    """Keep each candidate once.

    Parameters
    ----------
    comm : Intracomm
    candidates : ndarray of int16, shape (c, l)
        This rank's.

    Returns
    -------
    ndarray of int16, shape (u, l)
        Those of all ranks in rising order, the same on all ranks.
    """
    owner = _owner(candidates, comm.size)
    received = comm.alltoall([candidates[owner == rank] for rank in range(comm.size)])
    own = np.concatenate(received)
    steps = own.size * max(len(own), 2).bit_length()
    count("dedup_steps", steps)
    charge("sort", 2, own.size, max(len(own), 1))
    everybodys = np.concatenate(comm.allgather(_unique(own)))
    charge("merge", 2, everybodys.size, comm.size)
    return _unique(everybodys)


def pcount(comm: Intracomm, candidates: Units, bits: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Count the points of every candidate.

    Parameters
    ----------
    comm : Intracomm
    candidates : ndarray of int16, shape (c, l)
        The same on all ranks.
    bits : ndarray of uint64, shape (intervals, words)
        Which of this rank's points lie in each interval.

    Returns
    -------
    ndarray of int64, shape (c,)
        Of the points of all ranks.
    """
    from labkit import MPI

    counts = np.zeros(len(candidates), np.int64)
    at_a_time = max(1, _MOST_WORDS // max(1, candidates.shape[1] * bits.shape[1]))
    for first in range(0, len(candidates), at_a_time):
        some = candidates[first : first + at_a_time]
        inside = np.bitwise_and.reduce(bits[some], axis=1)
        counts[first : first + at_a_time] = np.bitwise_count(inside).sum(axis=1, dtype=np.int64)
    words = candidates.size * bits.shape[1]
    count("pcount_steps", words)
    charge("code", 8, words)
    comm.Allreduce(MPI.IN_PLACE, counts, op=MPI.SUM)
    return counts


def unjoin(comm: Intracomm, units: Units, denser: Units) -> NDArray[np.bool_]:
    """Find out which units are part of no unit of one more dimension.

    Parameters
    ----------
    comm : Intracomm
    units : ndarray of int16, shape (u, l)
    denser : ndarray of int16, shape (v, l + 1)
        Both the same on all ranks; this rank looks at the parts that it owns.

    Returns
    -------
    ndarray of bool, shape (u,)
        The same on all ranks.
    """
    from labkit import MPI

    is_cluster = np.ones(len(units), bool)
    if len(denser):
        parts = np.concatenate([np.delete(denser, place, axis=1) for place in range(denser.shape[1])])
        parts = parts[_owner(parts, comm.size) == comm.rank]
        _, numbers = np.unique(np.concatenate([parts, units]), axis=0, return_inverse=True)
        is_cluster = ~np.isin(numbers[len(parts) :], numbers[: len(parts)])
        count("unjoin_steps", parts.size * max(len(units), 2).bit_length())
        charge("count_up_to", 2, parts.size, max(len(units), 2))
        comm.Allreduce(MPI.IN_PLACE, is_cluster, op=MPI.LAND)
    return is_cluster


def mafia(
    comm: Intracomm, points: NDArray[np.float64], alpha: float = 1.5, beta: float = 0.35
) -> list[list[Interval]]:
    """Find the clusters of the points of all ranks.

    Parameters
    ----------
    comm : Intracomm
    points : ndarray of float64, shape (n_local, d)
        This rank's points; all ranks have points of the same number of dimensions.
    alpha : float
        An interval or unit is dense with so many times the points that evenly spread ones would give it.
    beta : float
        Windows of the grid that differ by at most this share are merged.

    Returns
    -------
    list of list of Interval
        The intervals of each cluster, by dimension; the same on all ranks.

    Raises
    ------
    DataError
        Points that are no table of numbers, parameters out of range, or more than 2^15 dense intervals.
    """
    if points.ndim != 2 or points.dtype != np.float64:
        raise DataError(
            f"points must be float64 of shape (n, d), got {points.dtype} of shape {points.shape}",
            code="count-mismatch",
        )
    if not alpha > 0 or not 0 < beta < 1:
        raise DataError(
            f"alpha must be above 0 and beta between 0 and 1, got {alpha} and {beta}", code="out-of-range"
        )
    with phase("grid"):
        intervals = adaptive_grid(comm, points, alpha, beta)
        if len(intervals) > _MOST_INTERVALS:
            raise DataError(
                f"{len(intervals)} dense intervals; at most 2^15 are allowed: raise alpha",
                code="out-of-range",
            )
        bits = bitmaps(points, intervals)
    dimension_of = np.array([interval.dimension for interval in intervals], np.int64)
    threshold = np.array([interval.threshold for interval in intervals])
    units: Units = np.arange(len(intervals), dtype=np.int16)[:, None]
    clusters: list[list[Interval]] = []
    while len(units):
        with phase("gen"):
            candidates = gen(comm, units, dimension_of)
        with phase("dedup"):
            candidates = dedup(comm, candidates)
        with phase("pcount"):
            counts = pcount(comm, candidates, bits)
            denser = candidates[counts > threshold[candidates].max(axis=1, initial=0.0)]
        with phase("unjoin"):
            alone = units[unjoin(comm, units, denser)]
        clusters += [[intervals[number] for number in unit] for unit in alone.tolist()]
        units = denser
    return clusters


def _owner(rows: Units, ranks: int) -> NDArray[np.int64]:
    """Return the rank that owns each row: the same for equal rows, and as many for each."""
    mixed = np.zeros(len(rows), np.uint64)
    for column in rows.T:
        mixed = (mixed ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    return ((mixed >> np.uint64(32)) % np.uint64(ranks)).astype(np.int64)


def _unique(rows: Units) -> Units:
    return np.unique(rows, axis=0) if len(rows) else rows


ALGORITHM = Algorithm("mafia", "mafia", function=mafia)
