"""AMS sort: sample sort on several levels, so that nobody exchanges messages with all ranks.

On each level the ranks split into groups. A sample of their keys gives more buckets than there are groups;
consecutive buckets are assigned to the groups so that the fullest group is as empty as possible. Each rank
sends to each group its keys of the group's buckets, to those of the group's ranks whose share of the
places they fall into, and the groups sort on. At the end a few keys move to equal blocks.

Cost, for n keys on p ranks with 2 levels, r = sqrt(p) groups a level, latency alpha, key time beta::

    agree       log p: one Allgather, all start-ups up to thousands of ranks
    local sort  (n/p) log(n/p)
    splitters   log p alpha + a b r (beta + log(a b r)) a level: collectives over a b r samples
    exchange    r alpha + (n/p) beta a level: about two messages to each group
    merge       (n/p) log p
    balance     a few keys, to neighbors

Requires: nothing. Any p >= 1; any number of keys per rank, none included; bool, integers, and floats of at
most 64 bits, the same dtype on all ranks. Not stand-in data: samples are keys.

Properties
    Deterministic: the output depends on the keys and p only, whatever the seed and the order of messages.
    Balance: every rank ends with n/p keys, rounded down or up. Before the last step the fullest rank has
    about (1 + 1/b) n/p keys, whatever the keys: equal ones are ordered by the rank and place they are from.
    Memory: n/p keys and a b r samples.

Reference
    M. Axtmann, T. Bingmann, P. Sanders, C. Schulz: Practical massively parallel sorting. SPAA 2015,
    doi:10.1145/2755573.2755595.

Examples
--------
>>> import labkit as lk, numpy as np
>>> from labkit.algorithms.sorting.ams_sort import ams_sort
>>> def program(comm):
...     return ams_sort(comm, np.arange(comm.rank, 12, comm.size))
>>> [block.tolist() for block in lk.run(program, 3, on="star:3").results]
[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labkit import local
from labkit.algorithms.sort_checker import check_sorted
from labkit.algorithms.sorting._agreement import agree
from labkit.algorithms.sorting._blocks import block_sizes, even_bounds, largest_block, move_to
from labkit.algorithms.sorting._splitting import (
    Counts,
    Keys,
    cuts_after,
    require_check,
    require_keys,
    share,
)
from labkit.errors import DataError
from labkit.local.costs import charge
from labkit.program.context import phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "ams_sort", "block_sizes", "cost", "largest_block"]

_DELIVERY_TAG = 32014
#: buckets of a group, and samples of a bucket
OVERPARTITIONING, OVERSAMPLING = 8, 8
#: halvings of the interval of the fullest group's load
_HALVINGS = 50


def ams_sort(
    comm: Intracomm,
    keys: ArrayLike,
    *,
    levels: int = 2,
    seed: int = 0,
    check: Literal["off", "local", "global"] = "off",
) -> NDArray[Any]:
    """Sort the keys of all ranks; return this rank's block of the sorted sequence, n/p keys of it.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one.
    keys : array_like, shape (n_local,)
        This rank's keys; not changed. n_local may differ between ranks.
    levels : int
        The number of levels; 1 is a sample sort with p groups of one rank.
    seed : int
        Draws the samples; every number gives the same result.
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
    require_keys(keys, "AMS sort samples keys that memory holds")
    with phase("agree"):
        given = agree(comm, keys, levels=levels, seed=seed, check=check)
        for name, value, least in (("levels", levels, 1), ("seed", seed, 0)):
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise DataError(f"{name} must be an integer >= {least}, got {value!r}", code="wrong-type")
        require_check(check, given.keys)

    with phase("local sort"):
        mine = local.sort(local.to_codes(given.keys))

    group, left = comm, levels
    while group.size > 1:
        groups = group_bounds(group.size, left)
        with phase("splitters"):
            offsets = gathered_bounds(group, len(mine))
            cuts = bucket_cuts(group, mine, offsets, len(groups) - 1, seed + left)
            sizes = np.diff(cuts, prepend=0, append=len(mine))
            totals = np.empty_like(sizes)
            group.Allreduce(sizes, totals)
            ends = assign(totals, np.diff(groups))
        with phase("exchange"):
            pieces, lengths = deliver(group, mine, np.concatenate([[0], np.cumsum(sizes)])[ends], groups)
        with phase("merge"):
            mine = local.merge(pieces, lengths, out=mine)
        with phase("splitters"):
            color = int(np.searchsorted(groups, group.rank, side="right")) - 1
            inner: Any = group.Split(color, group.rank)
            if group is not comm:
                group.Free()
        group, left = inner, max(left - 1, 1)
    if group is not comm:
        group.Free()

    with phase("balance"):
        mine = move_to(comm, mine, gathered_bounds(comm, len(mine)), even_bounds(given.total, comm.size))
        result = local.from_codes(mine, given.keys.dtype)
    if check != "off":
        expected = block_sizes(given.total, comm.size).tolist()
        check_sorted(comm, given.keys, result, scope=check, sizes=expected).require()
    return result


def group_bounds(size: int, levels: int) -> Counts:
    """Return the first ranks of the groups of a level, and the end: groups of equal size but for one rank."""
    groups = 1
    while groups**levels < size:
        groups += 1
    return even_bounds(size, groups)


def gathered_bounds(comm: Intracomm, length: int) -> Counts:
    """Return where each rank's keys begin in the order of the ranks, and the end."""
    lengths = np.empty(comm.size, np.int64)
    comm.Allgather(np.array([length], np.int64), lengths)
    return np.concatenate([[0], np.cumsum(lengths)])


def bucket_cuts(comm: Intracomm, mine: Keys, offsets: Counts, groups: int, seed: int) -> Counts:
    """Return where this rank's keys are cut into the buckets: evenly spaced ones of a random sample."""
    total = int(offsets[-1])
    buckets = OVERPARTITIONING * groups
    samples = min(OVERSAMPLING * buckets, total)
    if not samples:
        return np.zeros(buckets - 1, np.int64)
    bounds = np.arange(samples + 1) * total // samples
    words = np.random.PCG64([seed, comm.size]).random_raw(samples)
    numbers = bounds[:-1] + (words % np.diff(bounds).astype(np.uint64)).astype(np.int64)
    owners = np.searchsorted(offsets, numbers, side="right") - 1
    places = numbers - offsets[owners]
    keys = share(comm, mine[places[owners == comm.rank]], owners == comm.rank)
    order = np.lexsort((places, owners, keys))
    charge("sort", keys.itemsize, samples, samples)
    chosen = order[np.arange(1, buckets) * samples // buckets]
    own = places[chosen][owners[chosen] == comm.rank]
    return cuts_after(mine, keys[chosen], owners[chosen], own, comm.rank)


def assign(totals: Counts, sizes: Counts) -> Counts:
    """Assign consecutive buckets to groups; return the first bucket of each, and the end.

    By bisection on the load per rank that no group exceeds: a group takes buckets while they fit.
    """
    filled = np.concatenate([[0], np.cumsum(totals)])
    low, high = float(filled[-1]) / float(sizes.sum()), float(filled[-1])
    best = _packed(filled, sizes, high)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        found = _packed(filled, sizes, middle)
        if found[-1] == len(totals):
            best, high = found, middle
        else:
            low = middle
    charge("count_up_to", 8, _HALVINGS * len(sizes), len(totals))
    best[-1] = len(totals)
    return best


def _packed(filled: Counts, sizes: Counts, load: float) -> Counts:
    ends = np.zeros(len(sizes) + 1, np.int64)
    for j, size in enumerate(sizes.tolist()):
        most = filled[ends[j]] + load * size
        ends[j + 1] = max(int(np.searchsorted(filled, most, side="right")) - 1, ends[j])
    return ends


def deliver(comm: Intracomm, mine: Keys, cuts: Counts, groups: Counts) -> tuple[Keys, Counts]:
    """Send each group its part of my keys; return the pieces that came, and their lengths.

    The parts of all ranks, one after the other, are the places of a group, and are divided evenly among its
    ranks. A rank knows how many keys it gets, not from whom: it receives until it has them.
    """
    from labkit import MPI

    lengths = np.diff(cuts)
    before, total = np.zeros_like(lengths), np.empty_like(lengths)
    comm.Exscan(lengths, before)
    before *= comm.rank > 0  # rank 0's is undefined
    comm.Allreduce(lengths, total)
    requests, pieces = [], []
    for j in range(len(groups) - 1):
        size = int(groups[j + 1] - groups[j])
        bounds = even_bounds(int(total[j]), size)
        first, last = int(before[j]), int(before[j] + lengths[j])
        for member in range(int(np.searchsorted(bounds, first, side="right")) - 1, size):
            begin, end = max(first, int(bounds[member])), min(last, int(bounds[member + 1]))
            if begin >= end:
                if bounds[member] >= last:
                    break
                continue
            piece = mine[int(cuts[j]) + begin - first : int(cuts[j]) + end - first]
            target = int(groups[j]) + member
            if target == comm.rank:
                pieces.append(piece)
            else:
                requests.append(comm.Isend(piece, dest=target, tag=_DELIVERY_TAG))
    own = int(np.searchsorted(groups, comm.rank, side="right")) - 1
    bounds = even_bounds(int(total[own]), int(groups[own + 1] - groups[own]))
    member = comm.rank - int(groups[own])
    missing = int(bounds[member + 1] - bounds[member]) - sum(map(len, pieces))
    status = MPI.Status()
    while missing:
        comm.Probe(MPI.ANY_SOURCE, _DELIVERY_TAG, status)
        piece = np.empty(status.Get_count(MPI.BYTE) // mine.itemsize, mine.dtype)
        comm.Recv(piece, status.Get_source(), _DELIVERY_TAG)
        pieces.append(piece)
        missing -= len(piece)
    for request in requests:
        request.Wait()
    joined = np.concatenate(pieces) if pieces else mine[:0].copy()
    return joined, np.array([len(piece) for piece in pieces], np.int64)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Predict a rank's messages and bytes on two levels of equal groups, for n_bytes of keys per rank."""
    rounds, volume, size = 2 * ceil_log2(ranks), 32.0 * max(ranks - 1, 0), ranks
    for levels in (2, 1):
        groups = len(group_bounds(size, levels)) - 1
        if size > 1:
            depth = ceil_log2(size)
            buckets = OVERPARTITIONING * groups
            rounds += 12 * depth + 2 * groups
            volume += n_bytes + 8.0 * depth * (OVERSAMPLING * buckets + buckets + 2 * groups)
        size = -(-size // groups)
    return Cost(rounds, volume)


ALGORITHM = Algorithm(
    "ams_sort",
    "sorting",
    function=ams_sort,
    cost=cost,
    expectations={
        "agree": "log p",
        "local sort": "1",
        "splitters": "sqrt(p)",
        "exchange": "sqrt(p)",
        "merge": "log p",
        "balance": "log p",
        "": "sqrt(p)",
    },
)
