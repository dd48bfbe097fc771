"""Exact splitting sort: sort locally, find every splitter's exact place by global medians, exchange, merge.

The rank boundaries are places in the sorted sequence of all keys. Each is searched by bisection, all at the
same time: the ranks agree on an approximate median of the keys that are still in question, count their keys
up to it, and drop the part of their keys on the wrong side. The keys equal to a splitter are dealt to both
of its sides in rank order, as many as each side wants.

Cost, for n keys on p ranks with latency alpha, key time beta::

    agree       log p: one Allgather of 24 bytes per rank, all start-ups up to thousands of ranks
    local sort  (n/p) log(n/p)
    splitters   log n (log p alpha + p log p beta + p log n): 3 small collectives a round, 2 p binary
                searches, and one weighted median of p keys
    exchange    p alpha + (n/p) beta: every rank sends to every rank
    merge       (n/p) log p

Requires: nothing. Any p >= 1; any number of keys per rank, none included; bool, integers, and floats of at
most 64 bits, the same dtype on all ranks.

Properties
    Deterministic: the output depends on the keys, p and the sizes only, to the last bit.
    Order: NumPy's, made total (`labkit.local.codes`): NaNs last, -0.0 directly before 0.0. Equal keys are
    identical bit patterns; no pattern is lost, NaN payloads included.
    Stable: equal keys keep the order of (rank, place in the rank's sorted keys), across ranks too.
    Balance: exact. Rank r ends with the places r n/p to (r + 1) n/p of the sorted sequence, both rounded
    down (`block_sizes`), or with the size it asked for. All arithmetic on places is in integers.
    Rounds: with weighted medians each round drops at least a quarter of every splitter's candidates, so
    there are never more than `most_rounds`, about 2.4 log2 n; usual inputs take about log2 n. The trees'
    medians are cheaper and usually as good, but guarantee only that each round drops a key.
    Memory: O(p) per rank beside the keys.

Reference
    C. Siebert, F. Wolf: A scalable parallel sorting algorithm using exact splitting. RWTH Aachen University,
    technical report RWTH-CONV-008835, 2011. Weighted medians: E. L. G. Saukas, S. W. Song: A note on parallel
    selection on coarse-grained multicomputers. Algorithmica 24 (1999), pp. 371-380. Ternary tree: P. J.
    Rousseeuw, G. W. Bassett: The remedian. J. Am. Stat. Assoc. 85 (1990),
    doi:10.1080/01621459.1990.10475311. Binary tree: M. Axtmann, P. Sanders: Robust massively parallel
    sorting. ALENEX 2017, doi:10.1137/1.9781611974768.7.

Examples
--------
>>> import labkit as lk, numpy as np
>>> from labkit.algorithms.sorting.exact_splitting_sort import exact_splitting_sort
>>> def program(comm):
...     return exact_splitting_sort(comm, np.arange(comm.rank, 14, comm.size) // 3)
>>> [block.tolist() for block in lk.run(program, 3, on="star:3").results]
[[0, 0, 0, 1], [1, 1, 2, 2, 2], [3, 3, 3, 4, 4]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from labkit import local
from labkit.algorithms.sort_checker import check_sorted
from labkit.algorithms.sorting._agreement import Agreement, agree
from labkit.algorithms.sorting._medians import MEDIANS, keys_at
from labkit.algorithms.sorting._splitting import Counts, Keys, exchange, require_check
from labkit.errors import DataError
from labkit.program.context import phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "block_sizes", "cost", "exact_splitting_sort", "largest_block", "most_rounds"]

#: sizes larger than this are as wrong as this
_LARGEST_SIZE = 1 << 48


def exact_splitting_sort(
    comm: Intracomm,
    keys: ArrayLike,
    *,
    sizes: int | Literal["same"] | None = None,
    median: Literal["weighted", "binary", "ternary"] = "weighted",
    check: Literal["off", "local", "global"] = "off",
    info: dict[str, Any] | None = None,
) -> Keys:
    """Sort the keys of all ranks; return this rank's block of the sorted sequence, of exactly its size.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one.
    keys : array_like, shape (n_local,)
        This rank's keys; not changed. n_local may differ between ranks.
    sizes : int or "same", optional
        How many keys this rank wants: a number, which may differ between ranks; as many as it gave; or, by
        default, n/p, rounded down or up (`block_sizes`).
    median : {"weighted", "binary", "ternary"}
        How local medians become an approximate global one (`_medians`).
    check : {"off", "local", "global"}
        Verify the result: not at all; this rank's block alone; or with every rank's help
        (`labkit.algorithms.sort_checker.check_sorted`, two small collectives).
    info : dict, optional
        Is filled with what the search did: ``rounds``; ``open``, the splitters not found yet before the
        first round and after each; ``candidates``, the largest number of keys that one of them may still
        be. The same on all ranks.

    Returns
    -------
    ndarray, shape (n_local_sorted,)
        Of the keys' dtype: rank r's block; block r's keys come before those of block r + 1.

    Raises
    ------
    DataError
        On all ranks alike, if keys cannot be sorted, if ranks differ in dtype or options, or if the sizes
        do not add up to the number of keys.
    """
    with phase("agree"):
        mode, size = _parse(sizes)
        given = agree(comm, keys, own=size, sizes=mode, median=median, check=check)
        wanted = wanted_sizes(given, mode)
        _require_valid(median)
        require_check(check, given.keys)

    with phase("local sort"):
        mine = local.sort(local.to_codes(given.keys))

    with phase("splitters"):
        search = Search(mine, given.total, targets=np.cumsum(wanted)[:-1])
        while len(search.open):
            pivots = MEDIANS[median](comm, mine, *search.windows(), search.rounds)
            search.narrow(*search.count(comm, pivots))
        cuts = search.deal(comm)

    with phase("exchange"):
        pieces, counts = exchange(comm, mine, cuts)

    with phase("merge"):
        merged = local.from_codes(local.merge(pieces, counts, out=mine), given.keys.dtype)

    if info is not None:
        info.update(search.report())
    if check != "off":
        check_sorted(comm, given.keys, merged, scope=check, sizes=wanted.tolist()).require()
    return merged


def wanted_sizes(given: Agreement, mode: str) -> Counts:
    """Return every rank's size.

    Raises
    ------
    DataError
        On all ranks alike, if the sizes are none, or do not add up to the number of keys.
    """
    n, p = given.total, len(given.lengths)
    if mode == "same":
        return given.lengths
    if mode == "even":
        return block_sizes(n, p)
    if mode != "given":
        raise DataError(f'sizes must be None, "same" or an integer >= 0, got {mode}', code="wrong-type")
    if (given.own < 0).any():
        rank = int(np.argmin(given.own))
        raise DataError(
            f"sizes must be integers >= 0, got {given.own[rank]} on rank {rank}", code="out-of-range"
        )
    if (total := int(given.own.sum())) != n:
        raise DataError(
            f"the ranks want {total} keys in all, but there are {n}; sizes must add up to that",
            code="count-mismatch",
        )
    return given.own


def block_sizes(n: int, p: int) -> Counts:
    """Return how many keys each rank ends with, unless it asks for a size."""
    return np.diff(np.arange(p + 1, dtype=np.int64) * n // p)


def largest_block(n: int, p: int) -> int:
    """Return the largest of the `block_sizes`."""
    return -(-n // p)


def most_rounds(n: int) -> int:
    """Return the number of rounds that the search among n keys never exceeds, with weighted medians.

    A pivot is not below at least a quarter of the candidates, and not above at least a quarter. On the
    wrong side of the pivot, these go, and the pivot with all its equals; on neither, the splitter is found.
    """
    rounds = 0
    while n > 0:
        n, rounds = 3 * n // 4, rounds + 1
    return rounds


class Search:
    """The keys that every open splitter may still be: windows of places.

    The j-th splitter is the key at its target, the number of keys that ranks 0 to j want: `targets[j]` keys
    come up to it, of those equal to it the right number included. Targets 0 and n need no key, and are
    never open.

    Attributes
    ----------
    open : ndarray of int64, shape (m,)
        The splitters not found yet; the attributes up to `last` speak of them.
    begins, ends : ndarray of int64, shape (m,)
        This rank's windows: places in its sorted keys.
    first, last : ndarray of int64, shape (m,)
        The windows of all ranks together: places in the sorted sequence, first < target <= last.
    window_of : ndarray of int64, shape (m,), or None
        The number of the splitter's window among the different ones; None once each has its own.
    lower, equal : ndarray of int64, shape (p - 1,)
        This rank's keys below the splitters found, and equal to them.
    needed : ndarray of int64, shape (p - 1,)
        How many of all keys equal to a splitter come before the cut.
    """

    def __init__(self, mine: Keys, n: int, targets: Counts) -> None:
        self.mine = mine
        self.lower = np.where(targets == n, len(mine), 0)
        self.equal, self.needed = np.zeros_like(targets), np.zeros_like(targets)
        self.open = np.flatnonzero((targets > 0) & (targets < n))
        self.targets = targets[self.open]
        self.begins, self.ends = np.zeros_like(self.open), np.full_like(self.open, len(mine))
        self.first, self.last = np.zeros_like(self.open), np.full_like(self.open, n)
        self.window_of: Counts | None = None
        self.history = [(len(self.open), n if len(self.open) else 0)]

    @property
    def rounds(self) -> int:
        """Rounds done."""
        return len(self.history) - 1

    def windows(self) -> tuple[Counts, Counts]:
        """Return this rank's windows, each once: splitters never told apart share one, and its pivot.

        In the first round all do, in the next there are two windows, then four, and so on.
        """
        is_own = np.empty(len(self.first), bool)
        is_own[:1] = True
        np.not_equal(self.first[1:], self.first[:-1], out=is_own[1:])
        if is_own.all():
            self.window_of = None
            return self.begins, self.ends
        self.window_of = np.cumsum(is_own) - 1
        return self.begins[is_own], self.ends[is_own]

    def count(self, comm: Intracomm, pivots: Keys) -> tuple[Counts, Counts]:
        """Count the keys below each pivot and those up to it; return this rank's counts and all ranks'."""
        counts = np.empty((2, len(pivots)), np.int64)
        counts[:] = local.count_up_to(self.mine, pivots, including=False)
        # Where this rank has no key equal to the pivot, that is both.
        is_here = (counts[0] < len(self.mine)) & (keys_at(self.mine, counts[0]) == pivots)
        if is_here.any():
            counts[1, is_here] = local.count_up_to(self.mine, pivots[is_here], including=True)
        totals = np.empty_like(counts)
        comm.Allreduce(counts, totals)
        return counts, totals

    def narrow(self, counts: Counts, totals: Counts) -> None:
        """Drop the candidates on the wrong side of each pivot, and the pivot's equals with them."""
        if self.window_of is not None:
            counts, totals = counts.take(self.window_of, axis=1), totals.take(self.window_of, axis=1)
        (below, up_to), (all_below, all_up_to) = counts, totals
        is_left, is_right = self.targets <= all_below, self.targets > all_up_to
        is_open = is_left | is_right
        if not is_open.all():
            found, is_found = self.open[~is_open], ~is_open
            self.lower[found], self.equal[found] = below[is_found], (up_to - below)[is_found]
            self.needed[found] = (self.targets - all_below)[is_found]

        # In place: these few lines run in every round on every rank.
        np.copyto(self.begins, up_to, where=is_right)
        np.copyto(self.ends, below, where=is_left)
        np.copyto(self.first, all_up_to, where=is_right)
        np.copyto(self.last, all_below, where=is_left)
        if not is_open.all():
            self.open, self.targets = self.open[is_open], self.targets[is_open]
            self.begins, self.ends = self.begins[is_open], self.ends[is_open]
            self.first, self.last = self.first[is_open], self.last[is_open]
        self.history.append((len(self.open), int((self.last - self.first).max(initial=0))))

    def deal(self, comm: Intracomm) -> Counts:
        """Deal the keys equal to a splitter in rank order; return where to cut this rank's keys."""
        before = np.zeros_like(self.equal)
        comm.Exscan(self.equal, before)
        if comm.rank == 0:  # MPI leaves it undefined there
            before[:] = 0
        dealt: Counts = np.clip(self.needed - before, 0, self.equal)
        return self.lower + dealt

    def report(self) -> dict[str, Any]:
        """Return what `exact_splitting_sort` tells in its `info`."""
        opened, candidates = zip(*self.history, strict=True)
        return {"rounds": self.rounds, "open": list(opened), "candidates": list(candidates)}


def _parse(sizes: object) -> tuple[str, int]:
    """Return what all ranks must have in common, and this rank's size."""
    if sizes is None:
        return "even", 0
    if isinstance(sizes, int | np.integer) and not isinstance(sizes, bool):
        return "given", min(max(int(sizes), -_LARGEST_SIZE), _LARGEST_SIZE)
    return ("same" if isinstance(sizes, str) and sizes == "same" else repr(sizes)), 0


def _require_valid(median: str) -> None:
    if median not in MEDIANS:
        known = ", ".join(f'"{name}"' for name in MEDIANS)
        raise DataError(f"median must be one of {known}, got {median!r}", code="unknown-name")


def cost(ranks: int, n_bytes: float) -> Cost:
    """Predict the messages and bytes on the slowest path, for n_bytes of 8-byte keys per rank.

    For log2 n rounds with weighted medians: in each an Alltoall (Bruck's) of 16 bytes, an Allgather of 8
    and an Allreduce (Rabenseifner's) of 16 p; then counts and keys go to every rank.
    """
    p = ranks
    log_p = ceil_log2(p)
    searched = ceil_log2(max(int(p * n_bytes / 8), 1)) if p > 1 else 0
    rounds = log_p + searched * 4 * log_p + log_p + 2 * (p - 1)
    volume = (p - 1) * 24 + searched * (p / 2 * log_p * 16 + (p - 1) * 8 + 2 * 16 * p)
    return Cost(rounds, volume + log_p * 8 * p + (p - 1) / p * n_bytes)


ALGORITHM = Algorithm(
    "exact_splitting_sort",
    "sorting",
    function=exact_splitting_sort,
    cost=cost,
    expectations={
        "agree": "log p",
        "local sort": "1",
        "splitters": "p log^2 p",
        "exchange": "p",
        "merge": "log p",
        "": "p log^2 p",
    },
)
