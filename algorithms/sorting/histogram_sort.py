"""Histogram sort: sort locally, refine p - 1 splitters by histograms of probes until they balance, exchange.

A splitter is good if the number of keys up to it is close to j n/p. To find out, the ranks count their keys
up to each of a few probes and add the counts up. Probes that are close enough become splitters; the others
close in on the splitters they are next to, and the next round draws its probes from the keys in between.

Cost, for n keys on p ranks, r rounds of s p probes, latency alpha, key time beta::

    agree       log p: one Allgather of 24 bytes per rank, all start-ups up to thousands of ranks
    local sort  (n/p) log(n/p)
    splitters   r (log p alpha + s p (beta + log(n/p))): 3 small collectives, s p binary searches a round
    exchange    p alpha + (n/p) beta: every rank sends to every rank
    merge       (n/p) log p

Requires: nothing. Any p >= 1; any number of keys per rank, none included; bool, integers, and floats of at
most 64 bits, the same dtype on all ranks.

Properties
    Deterministic: the output depends on the keys, p and the seed only, to the last bit.
    Order: NumPy's, made total (`labkit.local.codes`): NaNs last, -0.0 directly before 0.0. Equal keys are
    identical bit patterns, so stability is not a question; no pattern is lost, NaN payloads included.
    Balance: no rank ends with more than `largest_block` keys, at most (1 + tolerance) n/p rounded up,
    whatever the keys: it iterates until that is reached. Keys are ordered by (key, rank, place), so the
    splitters divide equal keys too. With a limit on the rounds, the best splitters found are taken.
    Rounds: expected O(log((log p)/tolerance)), whatever the keys, because every key between two splitters is
    equally likely to be a probe; 2 with the defaults. Never more than n: each round probes new keys.
    Memory: O(s p) per rank for the probes.

Reference
    L. V. Kale, S. Krishnan: A comparison based parallel sorting algorithm. Proc. ICPP 1993, pp. 196-200.
    E. Solomonik, L. V. Kale: Highly scalable parallel sorting. Proc. IPDPS 2010. Probes sampled from what is
    still open: V. Harsh, L. Kale, E. Solomonik: Histogram sort with sampling. SPAA 2019,
    doi:10.1145/3323165.3323184.

Examples
--------
>>> import labkit as lk, numpy as np
>>> from labkit.algorithms.sorting.histogram_sort import histogram_sort
>>> def program(comm):
...     return histogram_sort(comm, np.arange(comm.rank, 12, comm.size))
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
from labkit.algorithms.sorting._splitting import Counts, Keys, cuts_after, exchange, require_check, share
from labkit.errors import DataError
from labkit.program.context import phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "cost", "histogram_sort", "largest_block", "slack"]


def histogram_sort(
    comm: Intracomm,
    keys: ArrayLike,
    *,
    tolerance: float = 0.05,
    rounds: int | None = None,
    probes: int = 16,
    seed: int = 0,
    check: Literal["off", "local", "global"] = "off",
    info: dict[str, Any] | None = None,
) -> Keys:
    """Sort the keys of all ranks; return this rank's block of the sorted sequence.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one.
    keys : array_like, shape (n_local,)
        This rank's keys; not changed. n_local may differ between ranks.
    tolerance : float
        The permitted imbalance: no rank ends with more than (1 + tolerance) n/p keys, rounded up. With 0
        every rank ends with n/p, rounded down or up.
    rounds : int, optional
        Stop refining after so many rounds, even if the tolerance is not reached yet.
    probes : int
        Each round counts so many probes per splitter, p times as many in all.
    seed : int
        Which keys become probes.
    check : {"off", "local", "global"}
        Verify the result: not at all; this rank's block alone; or with every rank's help
        (`labkit.algorithms.sort_checker.check_sorted`, two small collectives).
    info : dict, optional
        Is filled with what the search did: ``rounds``; ``open``, the splitters still missing the tolerance
        before the first round and after each; ``candidates``, the keys that could be probes before each
        round; ``largest_miss``, the largest distance of a splitter from its target, in keys. The same on
        all ranks.

    Returns
    -------
    ndarray, shape (n_local_sorted,)
        Of the keys' dtype: rank r's block; block r's keys come before those of block r + 1.

    Raises
    ------
    DataError
        On all ranks alike, if keys cannot be sorted or ranks differ in dtype or options.
    """
    with phase("agree"):
        given = agree(comm, keys, tolerance=tolerance, rounds=rounds, probes=probes, seed=seed, check=check)
        _require_valid(tolerance, rounds, probes, seed)
        require_check(check, given.keys)

    with phase("local sort"):
        mine = local.sort(local.to_codes(given.keys))

    with phase("splitters"):
        n, p = given.total, comm.size
        search = Search(len(mine), n, p, slack(n, p, tolerance))
        while search.is_open.any() and (rounds is None or len(search.history) <= rounds):
            owners, places = search.draw_probes(comm, probes * p, seed)
            values = share(comm, mine[places], owners == comm.rank)
            search.narrow(comm, cuts_after(mine, values, owners, places, comm.rank), owners == comm.rank)

    with phase("exchange"):
        pieces, counts = exchange(comm, mine, search.cuts())

    with phase("merge"):
        merged = local.from_codes(local.merge(pieces, counts, out=mine), given.keys.dtype)

    if info is not None:
        info.update(search.report())
    if check != "off":
        most = largest_block(n, p, tolerance) if rounds is None else None
        check_sorted(comm, given.keys, merged, scope=check, largest=most).require()
    return merged


def slack(n: int, p: int, tolerance: float) -> int:
    """Return how many keys a splitter may miss its target by, either way."""
    return int(min(tolerance, 2 * p) * n / (2 * p))


def largest_block(n: int, p: int, tolerance: float = 0.05) -> int:
    """Return the number of keys that no rank's result exceeds (without a limit on the rounds).

    Two targets are at most n/p apart, rounded up, and the splitters of a block miss theirs by `slack` each.
    """
    return -(-n // p) + 2 * slack(n, p, tolerance)


class Search:
    """The splitters' nearest probes so far, on either side of their targets.

    The j-th splitter ought to come after j n/p keys, rounded down. The position of a probe is the number of
    keys, on all ranks, that do not come after it; so positions tell probes apart, and the same arithmetic
    on the same positions gives every rank the same search. At first the only probes are an imaginary one
    before all keys and one after them.

    Attributes
    ----------
    targets : ndarray of int64, shape (p - 1,)
    low, high : ndarray of int64, shape (p - 1,)
        Positions of the nearest probes, low <= target < high.
    low_cut, high_cut : ndarray of int64, shape (p - 1,)
        How many of this rank's keys do not come after these probes.
    high_is_mine : ndarray of int64, shape (p - 1,)
        1 where the probe at `high` is one of this rank's keys.
    history : list of (int, int)
        Open splitters and candidates, before the first round and after each.
    """

    def __init__(self, n_local: int, n: int, p: int, slack: int) -> None:
        self.n, self.p, self.slack = n, p, slack
        self.targets = np.arange(1, p, dtype=np.int64) * n // p
        self.low, self.high = np.zeros_like(self.targets), np.full_like(self.targets, n + 1)
        self.low_cut, self.high_cut = np.zeros_like(self.targets), np.full_like(self.targets, n_local)
        self.high_is_mine = np.zeros_like(self.targets)
        self.history: list[tuple[int, int]] = []
        self._look()

    def _look(self) -> None:
        """Find the splitters that miss the tolerance, and the gaps between probes that they lie in."""
        self.is_open = self.miss() > self.slack
        gaps = np.flatnonzero(self.is_open)
        # Splitters between the same two probes share a gap.
        self.gaps = gaps[np.diff(self.low[gaps], prepend=-1) > 0]
        self.candidates = int((self.high[self.gaps] - self.low[self.gaps] - 1).sum())
        self.history.append((int(self.is_open.sum()), self.candidates))

    def miss(self) -> Counts:
        """Return how far the better of the two probes is from each target."""
        distances: Counts = np.minimum(self.targets - self.low, self.high - self.targets)
        return distances

    def cuts(self) -> Counts:
        """Return, for every splitter, how many of this rank's keys do not come after it."""
        return np.where(self.targets - self.low <= self.high - self.targets, self.low_cut, self.high_cut)

    def draw_probes(self, comm: Intracomm, count: int, seed: int) -> tuple[Counts, Counts]:
        """Draw probes from all keys in open gaps; return their ranks, and the places of this rank's.

        Numbered rank by rank, the candidates fall into `count` equal blocks; each gives one of its keys at
        random. Every rank draws the same numbers, so only the ranks' numbers of candidates have to be told.
        """
        begins = self.low_cut[self.gaps]
        lengths = self.high_cut[self.gaps] - self.high_is_mine[self.gaps] - begins
        ends = np.cumsum(lengths)
        everyone = np.empty(self.p, np.int64)
        comm.Allgather(ends[-1:].copy(), everyone)
        last = np.cumsum(everyone)

        bounds = np.arange(min(count, self.candidates) + 1) * self.candidates // min(count, self.candidates)
        words = np.random.PCG64([seed, len(self.history)]).random_raw(len(bounds) - 1)
        numbers = bounds[:-1] + (words % np.diff(bounds).astype(np.uint64)).astype(np.int64)

        owners = np.searchsorted(last, numbers, side="right")
        mine = numbers[owners == comm.rank] - (last[comm.rank] - everyone[comm.rank])
        gap = np.searchsorted(ends, mine, side="right")
        return owners, mine + (begins + lengths - ends)[gap]

    def narrow(self, comm: Intracomm, cuts: Counts, is_mine: NDArray[np.bool_]) -> None:
        """Add up the ranks' counts, and let the probes close in on the splitters."""
        positions = np.empty_like(cuts)
        comm.Allreduce(cuts, positions)

        below, above = nearest(positions, self.n, self.p)
        nearer = (below >= 0) & (positions[below] > self.low)
        self.low = np.where(nearer, positions[below], self.low)
        self.low_cut = np.where(nearer, cuts[below], self.low_cut)
        nearer = (above >= 0) & (positions[above] < self.high)
        self.high = np.where(nearer, positions[above], self.high)
        self.high_cut = np.where(nearer, cuts[above], self.high_cut)
        self.high_is_mine = np.where(nearer, is_mine[above], self.high_is_mine)
        self._look()

    def report(self) -> dict[str, Any]:
        """Return what `histogram_sort` tells in its `info`."""
        opened, candidates = zip(*self.history, strict=True)
        return {
            "rounds": len(self.history) - 1,
            "open": list(opened),
            "candidates": list(candidates),
            "largest_miss": int(self.miss().max(initial=0)),
        }


def nearest(positions: Counts, n: int, p: int) -> tuple[Counts, Counts]:
    """Return, for every target j n/p, which probe is the last up to it and which the first after it.

    In linear time: a probe's position says by division how many targets it comes after. -1 where there is
    no such probe.
    """
    m = len(positions)
    passed = np.minimum((positions * p - 1) // n, p - 1)
    coded = positions * m + np.arange(m)
    last = np.full(p, -1)
    np.maximum.at(last, passed, coded)
    first = np.full(p, (n + 2) * m - 1)
    np.minimum.at(first, passed, coded)
    below = np.maximum.accumulate(last)[:-1]
    above = np.minimum.accumulate(first[::-1])[::-1][1:]
    return np.where(below < 0, -1, below % m), np.where(above >= (n + 1) * m, -1, above % m)


def _require_valid(tolerance: float, rounds: int | None, probes: int, seed: int) -> None:
    if not 0 <= tolerance < float("inf"):
        raise DataError(f"tolerance must be a finite number >= 0, got {tolerance!r}", code="not-finite")
    if rounds is not None and not _is_integer(rounds, 1):
        raise DataError(f"rounds must be None or an integer >= 1, got {rounds!r}", code="wrong-type")
    if not _is_integer(probes, 1):
        raise DataError(f"probes must be an integer >= 1, got {probes!r}", code="out-of-range")
    if not _is_integer(seed, 0):
        raise DataError(f"seed must be an integer >= 0, got {seed!r}", code="out-of-range")


def _is_integer(value: object, least: int) -> bool:
    return isinstance(value, int | np.integer) and bool(value >= least)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Predict the messages and bytes on the slowest path, for n_bytes of 8-byte keys per rank.

    For two rounds of 16 p probes: in each an Allgather and two Allreduces (Rabenseifner's); then counts
    and keys go to every rank.
    """
    p = ranks
    log_p = ceil_log2(p)
    probed = 8 * min(16 * p, p * n_bytes / 8)
    rounds = log_p + 2 * (log_p + 4 * log_p) + 2 * (p - 1)
    volume = (p - 1) * (24 + 8) + 2 * (p - 1) * 8 + (p - 1) / p * (2 * 4 * probed + n_bytes)
    return Cost(rounds, volume)


ALGORITHM = Algorithm(
    "histogram_sort",
    "sorting",
    function=histogram_sort,
    cost=cost,
    expectations={
        "agree": "log p",
        "local sort": "1",
        "splitters": "p",
        "exchange": "p",
        "merge": "log p",
        "": "p",
    },
)
