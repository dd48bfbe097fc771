"""RQuick: quicksort on a hypercube, robust: keys are shuffled first, and ties are divided.

Every rank sends a random half of its keys along each dimension of the hypercube: now the keys are where
chance put them, whatever order they came in. Each rank sorts its keys. Then, from the highest dimension to
the lowest, the ranks of a subcube agree on a pivot near the median, cut their sorted keys there, and
exchange: the lower half of the subcube keeps the smaller keys, the upper half the larger ones.

Cost, for n keys on p ranks, a power of two, with latency alpha, key time beta::

    agree       log p: one Allgather of 24 bytes per rank, all start-ups up to thousands of ranks
    shuffle     log p (alpha + (n/2p) beta)
    local sort  (n/p) log(n/p)
    pivot       log^2 p alpha: log p messages of 24 bytes in each dimension
    exchange    log p (alpha + (n/2p) beta)
    merge       log p (n/p)
    balance     one Allgather of 8 bytes per rank, and alpha + (n/p) beta for each neighbor

No rank has more than O(log^2 p) start-ups, and every key travels log p times: for few keys per rank.

Requires: nothing. Any p >= 1: where p is no power of two, q, the largest one below, sort all keys, and the
other ranks only give theirs and get their block; any number of keys per rank, none included; bool, integers,
and floats of at most 64 bits, the same dtype on all ranks.

Properties
    Deterministic: the output depends on the keys and p only; the messages on the seed, too.
    Order: NumPy's, made total (`labkit.local.codes`): NaNs last, -0.0 directly before 0.0. Equal keys are
    identical bit patterns; no pattern is lost, NaN payloads included.
    Balance: exact. Rank r ends with the places r n/p to (r + 1) n/p of the sorted sequence, rounded down. On
    the way a rank has about n/q keys with high probability; nothing is guaranteed.

Reference
    M. Axtmann, P. Sanders: Robust massively parallel sorting. ALENEX 2017,
    doi:10.1137/1.9781611974768.7 (section 4). The final balance is added here.

Examples
--------
>>> import labkit as lk, numpy as np
>>> from labkit.algorithms.sorting.rquick_sort import rquick_sort
>>> def program(comm):
...     return rquick_sort(comm, np.arange(comm.rank, 14, comm.size) // 3)
>>> [block.tolist() for block in lk.run(program, 4, on="star:4").results]
[[0, 0, 0], [1, 1, 1, 2], [2, 2, 3], [3, 3, 4, 4]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labkit import local
from labkit.algorithms.sort_checker import check_sorted
from labkit.algorithms.sorting._agreement import agree
from labkit.algorithms.sorting._blocks import (
    block_sizes,
    even_bounds,
    full_bounds,
    largest_block,
    move_to,
    swap,
)
from labkit.algorithms.sorting._splitting import Keys, require_check, require_keys
from labkit.errors import DataError
from labkit.local.costs import charge
from labkit.program.context import phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "block_sizes", "cost", "largest_block", "rquick_sort"]

_PIVOT_TAG = 32013
#: keys that a subcube passes on as candidates for its median
_KEPT = 2


def rquick_sort(
    comm: Intracomm, keys: ArrayLike, *, seed: int = 0, check: Literal["off", "local", "global"] = "off"
) -> NDArray[Any]:
    """Sort the keys of all ranks; return this rank's block of the sorted sequence, n/p keys of it.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one.
    keys : array_like, shape (n_local,)
        This rank's keys; not changed. n_local may differ between ranks.
    seed : int
        Shuffles the keys, and breaks ties between two middle keys; every number gives the same result.
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
    require_keys(keys, "RQuick shuffles keys that memory holds")
    with phase("agree"):
        given = agree(comm, keys, seed=seed, check=check)
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise DataError(f"seed must be an integer >= 0, got {seed!r}", code="out-of-range")
        require_check(check, given.keys)
        active = 1 << (comm.size.bit_length() - 1)
        dimensions = list(reversed(range(active.bit_length() - 1))) if comm.rank < active else []
        held = np.concatenate([[0], np.cumsum(given.lengths)])

    with phase("shuffle"):
        mine = local.to_codes(given.keys)
        if active < comm.size:
            mine = move_to(comm, mine, held, full_bounds(given.total, active, comm.size))
        random = np.random.PCG64([seed, comm.rank])
        for dimension in dimensions:
            mine = shuffle(comm, mine, comm.rank ^ 1 << dimension, random, given.total)
    with phase("local sort"):
        mine = local.sort(mine)

    for dimension in dimensions:
        with phase("pivot"):
            pivot = approximate_median(comm, mine, dimension + 1, seed)
        with phase("exchange"):
            cut = place_of(mine, pivot)
            is_lower = not comm.rank >> dimension & 1
            kept, sent = (mine[:cut], mine[cut:]) if is_lower else (mine[cut:], mine[:cut])
            received = swap(comm, sent, comm.rank ^ 1 << dimension, given.total)
        with phase("merge"):
            mine = local.merge(np.concatenate([kept, received]), np.array([len(kept), len(received)]))

    with phase("balance"):
        lengths = np.empty(comm.size, np.int64)
        comm.Allgather(np.array([len(mine)], np.int64), lengths)
        sorted_bounds = np.concatenate([[0], np.cumsum(lengths)])
        mine = move_to(comm, mine, sorted_bounds, even_bounds(given.total, comm.size))
        result = local.from_codes(mine, given.keys.dtype)
    if check != "off":
        sizes = block_sizes(given.total, comm.size).tolist()
        check_sorted(comm, given.keys, result, scope=check, sizes=sizes).require()
    return result


def shuffle(comm: Intracomm, mine: Keys, partner: int, random: np.random.PCG64, most: int) -> Keys:
    """Send each key to the partner with probability one half, and take those that it sends."""
    words = random.random_raw(-(-len(mine) // 64)) if len(mine) else np.empty(0, np.uint64)
    goes = np.unpackbits(np.asarray(words, np.uint64).view(np.uint8))[: len(mine)].astype(bool)
    charge("merge", mine.itemsize, len(mine), 2)
    received = swap(comm, mine[goes], partner, most)
    return np.concatenate([mine[~goes], received])


def approximate_median(comm: Intracomm, mine: Keys, dimensions: int, seed: int) -> Any:
    """Return a key near the median of a subcube, the same on all its ranks; None where it has no keys.

    Each rank starts with the two middle ones of its keys. Along each dimension partners join what they have
    and keep the two middle ones of up to four; of three, a coin drops one, and of two at the end.
    """
    first = max(len(mine) - _KEPT + (comm.rank & 1), 0) // 2
    middle = mine[first : first + _KEPT].tolist()
    for dimension in range(dimensions):
        out, into = np.zeros(_KEPT + 1, np.int64), np.empty(_KEPT + 1, np.int64)
        out[0] = len(middle)
        out[1 : 1 + len(middle)] = np.array(middle, mine.dtype).astype(np.int64)
        partner = comm.rank ^ 1 << dimension
        comm.Sendrecv(out, partner, _PIVOT_TAG, into, partner, _PIVOT_TAG)
        middle = sorted(middle + into[1 : 1 + into[0]].astype(mine.dtype).tolist())
        drop = max(len(middle) - _KEPT, 0)
        begin = (drop + coin(seed, comm.rank >> dimension + 1, dimension)) // 2
        middle = middle[begin : begin + _KEPT]
    return middle[coin(seed, comm.rank >> dimensions, dimensions) % len(middle)] if middle else None


def coin(seed: int, group: int, level: int) -> int:
    """Return 0 or 1, the same for all ranks of a group."""
    bits = (seed * 0x9E3779B9 + group * 0x85EBCA6B + level * 0xC2B2AE35) & 0xFFFFFFFFFFFFFFFF
    return (bits ^ bits >> 15 ^ bits >> 31) & 1


def place_of(mine: Keys, pivot: Any) -> int:
    """Return where to cut the sorted keys; keys equal to the pivot go where they make the parts equal."""
    if pivot is None:
        return 0
    limits = np.array([pivot, pivot], mine.dtype)
    below, up_to = local.count_up_to(mine, limits, including=np.array([False, True])).tolist()
    return int(np.clip(len(mine) // 2, below, up_to))


def cost(ranks: int, n_bytes: float) -> Cost:
    """Predict a rank's messages and bytes if all pivots are medians, for n_bytes of keys per rank."""
    depth = ceil_log2(ranks)
    pivots = depth * (depth + 1) // 2
    return Cost(4 * depth + pivots, 32 * max(ranks - 1, 0) + depth * n_bytes + 24 * pivots)


ALGORITHM = Algorithm(
    "rquick_sort",
    "sorting",
    function=rquick_sort,
    cost=cost,
    expectations={
        "agree": "log p",
        "shuffle": "log p",
        "local sort": "1",
        "pivot": "log^2 p",
        "exchange": "log p",
        "merge": "log p",
        "balance": "log p",
        "": "log^2 p",
    },
)
