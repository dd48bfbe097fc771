"""Partition by a space-filling curve: a line through all points, cut into pieces of equal cost.

Hilbert's curve visits every cell of a fine grid, and goes from each to a neighbor. A rank gets the points of
a piece of it, and a cut is a single number. Morton's curve is simpler to compute, and jumps.

Cost, for m points on a rank, p ranks::

    keys        16 steps for each point
    cuts        8 allreduces of 15 (p - 1) integers
    move        one exchange of all ranks with all others

Requires: nothing. Any p, any m; a rank may have no point.

Properties
    A rank's cost differs from the mean by at most that of the points at one place of the curve.
    Points that have not moved stay where they are if their costs are as before.

Reference
    M. S. Warren, J. K. Salmon: A parallel hashed oct-tree N-body algorithm. Supercomputing 1993,
    doi:10.1145/169627.169640. D. Hilbert: Ueber die stetige Abbildung einer Line auf ein Flaechenstueck.
    Mathematische Annalen 38 (1891), doi:10.1007/BF01199431.

Examples
--------
>>> import labkit as lk, numpy as np
>>> from labkit.algorithms.partition.curve import curve
>>> def program(comm):
...     points = np.array([[0, comm.rank], [1, comm.rank]]) / 1.0
...     return curve(comm, points, [1, 1], points).tolist()
>>> lk.run(program, 2, on="star:2").results
[[[0.0, 0.0], [0.0, 1.0]], [[1.0, 1.0], [1.0, 0.0]]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from labkit.algorithms.graphs._distributed import exchange
from labkit.algorithms.partition._cuts import (
    BITS,
    Costs,
    Plane,
    bounding_box,
    curve_keys,
    find_cuts,
    require_points,
)
from labkit.errors import DataError
from labkit.program.context import compute, phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "cost", "curve"]


def curve(
    comm: Intracomm, positions: ArrayLike, costs: ArrayLike, rows: ArrayLike, *, kind: str = "hilbert"
) -> Plane:
    """Return the rows of the points that are this rank's afterwards, in the order of the curve.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one.
    positions : array_like, shape (m, 2)
        Of this rank's points.
    costs : array_like of int, shape (m,)
        What each point costs, at least 0.
    rows : array_like, shape (m, k)
        Numbers that travel with each point.
    kind : str
        "hilbert" or "morton".

    Returns
    -------
    ndarray of float64, shape (new m, k)

    Raises
    ------
    DataError
        If shapes do not fit, or there is no such curve.
    """
    points, weights, carried = require_points(positions, costs, rows)
    if kind not in ("hilbert", "morton"):
        raise DataError(f'kind must be "hilbert" or "morton", got {kind!r}', code="unknown-name")
    with phase("keys"):
        keys = curve_keys(points, bounding_box(comm, points), kind)
        order = np.argsort(keys, kind="stable")
        compute(flops=2.0 * len(keys) * ceil_log2(max(len(keys), 1)))
        keys, weights, carried = keys[order], weights[order], carried[order]
    with phase("cuts"):
        sums = np.concatenate([[0], np.cumsum(weights)])

        def below(places: Plane) -> Costs:
            found: Costs = sums[np.searchsorted(keys, np.ceil(places).astype(np.int64))]
            return found

        cuts, total = comm.size - 1, comm.allreduce(int(sums[-1]))
        wanted = np.arange(1, comm.size) * total / comm.size
        ends = np.zeros(cuts), np.full(cuts, 4.0**BITS)
        found = find_cuts(comm, below, *ends, wanted, np.full(cuts, total))
    with phase("move"):
        destination = np.searchsorted(found, keys, "right")
        keyed = exchange(comm, np.column_stack([keys, carried]), destination)
        return keyed[np.argsort(keyed[:, 0], kind="stable"), 1:]


def cost(ranks: int, n_bytes: float) -> Cost:
    """Bound the messages and bytes of a rank with `n_bytes` of rows and keys."""
    rounds = ceil_log2(ranks)
    return Cost(10 * rounds + 2 * (ranks - 1), 8 * rounds * 120 * ranks + n_bytes, is_bound=True)


ALGORITHM = Algorithm(
    "curve",
    "partition",
    function=curve,
    cost=cost,
    expectations={"keys": "log p", "cuts": "p log p", "move": "p", "": "p log p"},
)
