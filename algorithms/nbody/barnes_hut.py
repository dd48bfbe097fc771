"""Barnes and Hut's algorithm: bodies that are far away together pull like one.

Every rank sends to each other rank what that one needs to know of its bodies, and no more: seen from the box
of the other's bodies, far cells of the quadtree are single bodies (the *locally essential tree* of Salmon).
From its own bodies and those that arrive, a rank builds a tree that is enough for all of its bodies.

Cost, for m bodies on a rank, p ranks, n = p m::

    build       m log n, twice
    exchange    an all-to-all of boxes, one of lengths, one of essential bodies: 24 bytes each,
                about log n / theta^2 for far ranks, the bodies near the border for neighbors
    force       m log n / theta^2 interactions

Requires: nothing. Any p, any m, any distribution. The fewer essential bodies, the more compact the boxes
are: distribute bodies by `labkit.algorithms.partition` first, with last step's interactions as costs.

Properties
    theta = 0 is exact but for rounding. A cell is taken for one body only if its extent is below theta times
    its distance from *all* of the bodies in a box: no rank is less exact than one rank alone would be.

Reference
    J. Barnes, P. Hut: A hierarchical O(N log N) force-calculation algorithm. Nature 324 (1986),
    doi:10.1038/324446a0. J. K. Salmon: Parallel hierarchical N-body methods. PhD thesis, California Institute
    of Technology 1991. J. P. Singh, C. Holt, T. Totsuka, A. Gupta, J. Hennessy: Load balancing and data
    locality in adaptive hierarchical N-body methods. J. Parallel Distrib. Comput. 27 (1995),
    doi:10.1006/jpdc.1995.1077.

Examples
--------
>>> import labkit as lk
>>> from labkit.algorithms.nbody.barnes_hut import barnes_hut
>>> def program(comm):
...     return barnes_hut(comm, [[2.0 * comm.rank, 0.0]], [4.0]).acceleration.tolist()
>>> lk.run(program, 2, on="star:2").results
[[[1.0, 0.0]], [[-1.0, 0.0]]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from labkit.algorithms.graphs._distributed import exchange
from labkit.algorithms.nbody._gravity import Pull, Quadtree, require_bodies
from labkit.errors import DataError
from labkit.program.context import phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "barnes_hut", "cost"]


def barnes_hut(
    comm: Intracomm,
    positions: ArrayLike,
    masses: ArrayLike,
    *,
    theta: float = 0.5,
    softening: float = 0.0,
    leaf: int = 8,
) -> Pull:
    """Return the acceleration of this rank's bodies by all bodies.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one.
    positions : array_like, shape (m, 2)
        Of this rank's bodies.
    masses : array_like, shape (m,)
    theta : float
        A cell is one body if its extent is less than theta times its distance; 0 is exact.
    softening : float
        A length: pairs that are much nearer pull each other less.
    leaf : int
        A cell of more bodies is divided.

    Returns
    -------
    Pull

    Raises
    ------
    DataError
        If shapes do not fit, a number is not finite or negative, or leaf is not positive.
    """
    mine, weights = require_bodies(positions, masses, softening)
    if not 0 <= theta <= 2:
        raise DataError(f"theta must be 0 to 2, got {theta}", code="out-of-range")
    if leaf < 1:
        raise DataError(f"leaf must be at least 1, got {leaf}", code="out-of-range")
    with phase("build"):
        tree = Quadtree(mine, weights, leaf)
    with phase("exchange"):
        box = np.concatenate([mine.min(0), mine.max(0)]) if len(mine) else np.full(4, np.nan)
        boxes = np.empty((comm.size, 4))
        comm.Allgather(box, boxes)
        others = np.flatnonzero((np.arange(comm.size) != comm.rank) & np.isfinite(boxes[:, 0]))
        others = others if len(mine) else others[:0]
        to, cell, toward, body = tree.seen_from(boxes[others, :2], boxes[others, 2:], theta)
        places = np.concatenate([tree.center[cell], tree.positions[body]])
        heavy = np.concatenate([tree.mass[cell], tree.masses[body]])
        rows = np.column_stack([places, heavy])
        essential = exchange(comm, rows, others[np.concatenate([to, toward])])
    with phase("build"):
        whole = np.concatenate([np.column_stack([mine, weights]), essential])
        tree = Quadtree(whole[:, :2], whole[:, 2], leaf)
    with phase("force"):
        return tree.attract(mine, theta, softening)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Bound the messages and bytes of a rank with `n_bytes` of positions and masses: all of them to all."""
    return Cost(
        2 * ceil_log2(ranks) + 2 * (ranks - 1),
        (ranks - 1) * (n_bytes + 32 + 8 * ceil_log2(ranks)),
        is_bound=True,
    )


ALGORITHM = Algorithm(
    "barnes_hut",
    "nbody",
    function=barnes_hut,
    cost=cost,
    expectations={"build": "log p", "exchange": "p", "force": "log p", "": "p"},
)
