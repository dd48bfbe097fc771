"""Bitonic sort: Batcher's network over the ranks, with blocks of keys instead of keys.

Every rank sorts its keys. Then the ranks of a hypercube compare their blocks in pairs: both send all their
keys, merge, and keep the lower or the upper half. The blocks of 2, 4, 8, ... ranks become one sorted sequence
after another, up and down in turn: two of them are bitonic, and log p comparisons along the dimensions sort
them.

Cost, for n keys on p ranks, a power of two, with latency alpha, key time beta::

    agree       log p: one Allgather of 24 bytes per rank, all start-ups up to thousands of ranks
    balance     nothing if all ranks have equally many keys; else alpha + (n/p) beta for each neighbor
    local sort  (n/p) log(n/p)
    exchange    (log p (log p + 1) / 2) (alpha + (n/p) beta)
    merge       (log p (log p + 1) / 2) (n/p)

Every key travels log^2 p / 2 times: for few keys on many ranks, where start-ups decide, and as the sort whose
messages do not depend on the keys.

Requires: nothing. Any p >= 1: where p is no power of two, q, the largest one below, sort all keys, and the
other ranks only give theirs and get their block; any number of keys per rank, none included; bool, integers,
and floats of at most 64 bits, the same dtype on all ranks.

Properties
    Deterministic: the output depends on the keys and p only. The messages do not depend on the keys.
    Order: NumPy's, made total (`labkit.local.codes`): NaNs last, -0.0 directly before 0.0. Equal keys are
    identical bit patterns; no pattern is lost, NaN payloads included.
    Balance: exact. Rank r ends with the places r n/p to (r + 1) n/p of the sorted sequence, rounded down.
    Memory: 3 n/q keys per rank.

Reference
    K. E. Batcher: Sorting networks and their applications. AFIPS Spring Joint Computing Conference 1968,
    doi:10.1145/1468075.1468121. Blocks: G. Baudet, D. Stevenson: Optimal sorting algorithms for parallel
    computers. IEEE Trans. Computers C-27(1), 1978, doi:10.1109/TC.1978.1674957.

Examples
--------
>>> import labkit as lk, numpy as np
>>> from labkit.algorithms.sorting.bitonic_sort import bitonic_sort
>>> def program(comm):
...     return bitonic_sort(comm, np.arange(comm.rank, 14, comm.size) // 3)
>>> [block.tolist() for block in lk.run(program, 4, on="star:4").results]
[[0, 0, 0], [1, 1, 1, 2], [2, 2, 3], [3, 3, 4, 4]]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import ArrayLike, NDArray

from labkit.algorithms.sorting._blocks import block_sizes, largest_block, sort_by_network
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "bitonic_sort", "block_sizes", "comparisons", "cost", "largest_block"]


def bitonic_sort(
    comm: Intracomm, keys: ArrayLike, *, check: Literal["off", "local", "global"] = "off"
) -> NDArray[Any]:
    """Sort the keys of all ranks; return this rank's block of the sorted sequence, n/p keys of it.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one.
    keys : array_like, shape (n_local,)
        This rank's keys; not changed. n_local may differ between ranks.
    check : {"off", "local", "global"}
        Verify the result: not at all; this rank's block alone; or with every rank's help
        (`labkit.algorithms.sort_checker.check_sorted`, two small collectives).

    Returns
    -------
    ndarray, shape (n_local_sorted,)
        Of the keys' dtype: the places of the sorted sequence from r n/p to (r + 1) n/p.

    Raises
    ------
    DataError
        On all ranks alike, if keys cannot be sorted or if ranks differ in dtype or options.
    """
    active = 1 << (comm.size.bit_length() - 1)
    return sort_by_network(comm, keys, check, active, comparisons(comm.rank, active))


def comparisons(rank: int, ranks: int) -> Iterator[tuple[int, bool]]:
    """Yield a rank's partners, and whether it keeps the lower half; nothing for a rank outside the hypercube.

    The sequences of 2^stage ranks that a stage makes go up where bit `stage` of the rank is 0.
    """
    if rank >= ranks:
        return
    for stage in range(1, ranks.bit_length()):
        for dimension in reversed(range(stage)):
            is_up = not rank >> stage & 1
            is_lower = not rank >> dimension & 1
            yield rank ^ 1 << dimension, is_up == is_lower


def cost(ranks: int, n_bytes: float) -> Cost:
    """Predict a rank's messages and bytes, for n_bytes of keys per rank on a power of two ranks."""
    steps = (depth := ceil_log2(ranks)) * (depth + 1) // 2
    return Cost(depth + steps, 24 * max(ranks - 1, 0) + steps * n_bytes)


ALGORITHM = Algorithm(
    "bitonic_sort",
    "sorting",
    function=bitonic_sort,
    cost=cost,
    expectations={
        "agree": "log p",
        "balance": "1",
        "local sort": "1",
        "exchange": "log^2 p",
        "merge": "log^2 p",
        "": "log^2 p",
    },
)
