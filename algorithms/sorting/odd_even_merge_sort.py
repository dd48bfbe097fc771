"""Odd-even merge sort: Batcher's other network over the ranks, with blocks of keys instead of keys.

Every rank sorts its keys. Then pairs of ranks compare their blocks: both send all their keys, merge, and the
lower rank keeps the lower half. Sorted sequences of 1, 2, 4, ... ranks are merged in pairs: first the
elements at even and at odd places, then the neighbors that this leaves in the wrong order.

Cost, for n keys on p ranks with latency alpha, key time beta::

    agree       log p: one Allgather of 24 bytes per rank, all start-ups up to thousands of ranks
    balance     nothing if all ranks have equally many keys; else alpha + (n/p) beta for each neighbor
    local sort  (n/p) log(n/p)
    exchange    (ceil(log p) (ceil(log p) + 1) / 2) (alpha + (n/p) beta)
    merge       (ceil(log p) (ceil(log p) + 1) / 2) (n/p)

The depth is that of bitonic sort, with fewer comparisons, and for any number of ranks without a detour. All
comparisons go the same way: keys in order stay where they are.

Requires: nothing. Any p >= 1; any number of keys per rank, none included; bool, integers, and floats of at
most 64 bits, the same dtype on all ranks.

Properties
    Deterministic: the output depends on the keys and p only. The messages do not depend on the keys.
    Order: NumPy's, made total (`labkit.local.codes`): NaNs last, -0.0 directly before 0.0. Equal keys are
    identical bit patterns; no pattern is lost, NaN payloads included.
    Balance: exact. Rank r ends with the places r n/p to (r + 1) n/p of the sorted sequence, rounded down.
    Memory: 3 n/p keys per rank.

Reference
    K. E. Batcher: Sorting networks and their applications. AFIPS Spring Joint Computing Conference 1968,
    doi:10.1145/1468075.1468121. For any number of elements: D. E. Knuth: The Art of Computer Programming 3,
    second edition, 1998, section 5.2.2, algorithm M.

Examples
--------
>>> import labkit as lk, numpy as np
>>> from labkit.algorithms.sorting.odd_even_merge_sort import odd_even_merge_sort
>>> def program(comm):
...     return odd_even_merge_sort(comm, np.arange(comm.rank, 14, comm.size) // 3)
>>> [block.tolist() for block in lk.run(program, 3, on="star:3").results]
[[0, 0, 0, 1], [1, 1, 2, 2, 2], [3, 3, 3, 4, 4]]
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

__all__ = ["ALGORITHM", "block_sizes", "comparisons", "cost", "largest_block", "odd_even_merge_sort"]


def odd_even_merge_sort(
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
    return sort_by_network(comm, keys, check, comm.size, _steps(comm.rank, comm.size))


def comparisons(rank: int, ranks: int) -> Iterator[tuple[int, bool]]:
    """Yield a rank's partners, and whether it keeps the lower half."""
    yield from ((partner, low) for partner, low in _steps(rank, ranks) if partner is not None)


def _steps(rank: int, ranks: int) -> Iterator[tuple[int | None, bool]]:
    """Yield a rank's partner in every step, None where it has none, and whether it keeps the lower half.

    A round merges sequences whose elements are `distance` apart, those first that are farthest. In each of
    its steps, the ranks with bit `distance` equal to `remainder` are compared with those `offset` above.
    """
    highest = 1 << ceil_log2(ranks) >> 1
    distance = highest
    while distance:
        reach, remainder, offset = highest, 0, distance
        while True:
            if rank & distance == remainder and rank + offset < ranks:
                yield rank + offset, True
            elif rank >= offset and (rank - offset) & distance == remainder:
                yield rank - offset, False
            else:
                yield None, True
            if reach == distance:
                break
            remainder, offset, reach = distance, reach - distance, reach // 2
        distance //= 2


def cost(ranks: int, n_bytes: float) -> Cost:
    """Predict a rank's messages and bytes, for n_bytes of keys per rank."""
    steps = (depth := ceil_log2(ranks)) * (depth + 1) // 2
    return Cost(depth + steps, 24 * max(ranks - 1, 0) + steps * n_bytes)


ALGORITHM = Algorithm(
    "odd_even_merge_sort",
    "sorting",
    function=odd_even_merge_sort,
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
