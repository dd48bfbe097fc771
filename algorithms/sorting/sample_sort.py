"""Sample sort: sort locally, let a sample of the keys choose p - 1 splitters, send every key once, merge.

Every rank sorts its keys and cuts them into blocks of equal length; one key stands for each block. The root
merges these samples and takes those that divide their weight evenly as splitters. The splitters cut every
rank's sorted keys into p pieces, piece j goes to rank j, and rank j merges what it receives.

Cost, for n keys on p ranks with oversampling a and latency alpha, key time beta::

    agree       log p: one Allgather of 96 bytes per rank, all start-ups up to thousands of ranks
    local sort  (n/p) log(n/p)
    splitters   a p^2 (beta + log p): the root gathers and merges p runs of a p samples (a 32 if p < 32)
    exchange    p alpha + (n/p) beta: every rank sends to every rank
    merge       (n/p) log p

Requires: nothing. Any p >= 1; any number of keys per rank, none included; bool, integers, and floats of at
most 64 bits, the same dtype on all ranks.

Properties
    Deterministic: the output depends on the keys and p only, to the last bit.
    Order: NumPy's, made total (`labkit.local.codes`): NaNs last, -0.0 directly before 0.0. Equal keys are
    identical bit patterns, so stability is not a question; no pattern is lost, NaN payloads included.
    Balance: no rank ends with more than `largest_block` keys, which is below (1 + (1 + 1/p)/a) n/p + 1,
    whatever the keys: all equal, skewed, or all on one rank. That is the worst case; usual inputs stay
    within 1.2 n/p. With a ``seed`` each sample is a random key of its block, and some rank exceeds
    n/p + 2 w (1 + sqrt(p/2 ln(2 p/q))), w the block length, only with probability q (Hoeffding).
    Memory: the root holds up to (a p + 1) p samples.

Reference
    W. D. Frazer, A. C. McKellar: Samplesort: a sampling approach to minimal storage tree sorting. Journal
    of the ACM 17 (1970), doi:10.1145/321592.321600. Regular samples: H. Shi, J. Schaeffer: Parallel sorting
    by regular sampling. J. Parallel Distrib. Comput. 14 (1992).

Examples
--------
>>> import labkit as lk, numpy as np
>>> from labkit.algorithms.sorting.sample_sort import sample_sort
>>> def program(comm):
...     return sample_sort(comm, np.arange(comm.rank, 12, comm.size))
>>> [block.tolist() for block in lk.run(program, 3, on="star:3").results]
[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from labkit import local
from labkit.algorithms.sort_checker import check_sorted
from labkit.algorithms.sorting._agreement import agree
from labkit.algorithms.sorting._splitting import Counts, Keys, cuts_after, exchange, require_check
from labkit.errors import DataError
from labkit.program.context import phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "block_length", "cost", "largest_block", "sample_sort"]

ROOT = 0
#: samples of a rank, on fewer ranks than that too: there they cost next to nothing, and halve the imbalance
FEWEST_SAMPLES = 32
#: its fractional part, times 2**32
GOLDEN_RATIO = 0x9E3779B9


class Splitters(NamedTuple):
    """The p - 1 splitters: a key, the rank it was sampled on, and its sample's number there.

    The last two break ties, so that equal keys are spread evenly too (`_splitting.cuts_after`).
    """

    keys: Keys
    owners: Counts
    numbers: Counts


def sample_sort(
    comm: Intracomm,
    keys: ArrayLike,
    *,
    oversampling: float = 1.0,
    seed: int | None = None,
    check: Literal["off", "local", "global"] = "off",
) -> Keys:
    """Sort the keys of all ranks; return this rank's block of the sorted sequence.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one.
    keys : array_like, shape (n_local,)
        This rank's keys; not changed. n_local may differ between ranks.
    oversampling : float
        The number a > 0: a rank that holds n/p keys gives about a max(p, 32) samples. More samples, better
        balance.
    seed : int, optional
        Draw each sample at random from its block: keys made to defeat fixed places cannot know it.
    check : {"off", "local", "global"}
        Verify the result: not at all; this rank's block alone; or with every rank's help
        (`labkit.algorithms.sort_checker.check_sorted`, two small collectives).

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
        given = agree(comm, keys, oversampling=oversampling, seed=seed, check=check)
        _require_valid(oversampling, seed, check)
        require_check(check, given.keys)
        block = block_length(given.total, comm.size, oversampling)

    with phase("local sort"):
        mine = local.sort(local.to_codes(given.keys))

    with phase("splitters"):
        samples = sample_positions(len(mine), block, seed, comm.rank)
        splitters = choose_splitters(comm, mine[samples], given.lengths, block)

    with phase("exchange"):
        own = samples[splitters.numbers[splitters.owners == comm.rank]]
        cuts = cuts_after(mine, splitters.keys, splitters.owners, own, comm.rank)
        pieces, counts = exchange(comm, mine, cuts)

    with phase("merge"):
        merged = local.from_codes(local.merge(pieces, counts, out=mine), given.keys.dtype)

    if check != "off":
        most = largest_block(given.total, comm.size, oversampling) if seed is None else None
        check_sorted(comm, given.keys, merged, scope=check, largest=most).require()
    return merged


def block_length(n: int, p: int, oversampling: float) -> int:
    """Return how many keys one sample stands for: oversampling * max(p, 32) blocks per n/p keys."""
    return max(1, int(np.ceil(n / (oversampling * p * max(p, FEWEST_SAMPLES)))))


def largest_block(n: int, p: int, oversampling: float = 1.0) -> int:
    """Return the number of keys that no rank's result exceeds (without a seed), whatever the keys.

    Let w be the block length. The weight of a rank's samples up to a splitter and the number of its keys up
    to there differ by part of one block: what follows the last of these samples, less what precedes the
    next. That is at most w - 1 from one extreme to the other, so at most p (w - 1) for a bucket between two
    splitters; and a splitter's weight misses its target by at most w - 1.
    """
    return -(-n // p) + (p + 1) * (block_length(n, p, oversampling) - 1)


def block_bounds(n_local: int, block: int) -> Counts:
    """Return the bounds of the equal blocks, none longer than `block`, that n_local keys are cut into."""
    blocks = -(-n_local // block)
    return np.arange(blocks + 1, dtype=np.int64) * n_local // max(blocks, 1)


def sample_positions(n_local: int, block: int, seed: int | None, rank: int) -> Counts:
    """Choose one position in every block: the same place in all of a rank's blocks, or with a seed any place.

    The place moves from rank to rank by the golden ratio, so that on any ranks whose keys are alike the
    samples divide the keys evenly; the same place everywhere would make them coincide.
    """
    bounds = block_bounds(n_local, block)
    lengths = np.diff(bounds)
    if seed is None:
        return bounds[:-1] + (lengths * (rank * GOLDEN_RATIO % (1 << 32)) >> 32)
    raw = np.random.PCG64([seed, rank]).random_raw(len(lengths))
    return bounds[:-1] + (raw % lengths.astype(np.uint64)).astype(np.int64)


def choose_splitters(comm: Intracomm, samples: Keys, lengths: Counts, block: int) -> Splitters:
    """Gather all samples at the root, which picks the splitters and tells everyone."""
    counts = -(-lengths // block)
    gathered = np.empty(counts.sum(), samples.dtype) if comm.rank == ROOT else None
    if (counts == counts[0]).all():  # a tree: log p start-ups at the root, where Gatherv has p
        comm.Gather(samples, gathered, root=ROOT)
    else:
        comm.Gatherv(samples, None if gathered is None else [gathered, counts], root=ROOT)
    chosen = np.empty((3, comm.size - 1), np.int64)
    if gathered is not None:
        chosen[:] = pick(gathered, counts, lengths, block)
    comm.Bcast(chosen, root=ROOT)
    return Splitters(chosen[0].astype(samples.dtype), chosen[1], chosen[2])


def pick(samples: Keys, counts: Counts, lengths: Counts, block: int) -> Splitters:
    """Pick the samples up to which about 1/p, 2/p, ... of all keys come.

    A sample weighs as many keys as its block. Samples arrive in the order of (rank, place), so merging
    them with ties by position orders them by (key, rank, place).
    """
    p = len(lengths)
    if len(samples) == 0:
        return Splitters(np.zeros(p - 1, np.int64), np.full(p - 1, -1), np.zeros(p - 1, np.int64))
    owners = np.repeat(np.arange(p), counts)
    numbers = np.arange(len(samples)) - np.repeat(np.cumsum(counts) - counts, counts)
    weights = np.concatenate([np.diff(block_bounds(int(n), block)) for n in lengths])
    order = local.merge_order(samples, counts)
    keys_up_to = np.cumsum(weights[order])
    targets = -(-np.arange(1, p) * int(lengths.sum()) // p)
    chosen = order[np.searchsorted(keys_up_to, targets)]
    return Splitters(samples[chosen].astype(np.int64), owners[chosen], numbers[chosen])


def _require_valid(oversampling: float, seed: int | None, check: str) -> None:
    if not 0 < oversampling < float("inf"):
        raise DataError(f"oversampling must be a finite number > 0, got {oversampling!r}", code="not-finite")
    if seed is not None and seed < 0:
        raise DataError(f"seed must be None or an integer >= 0, got {seed!r}", code="wrong-type")
    require_check(check)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Predict the messages and bytes on the root's path, for n_bytes of 8-byte keys per rank, oversampling 1.

    The root takes part in an Allgather, receives the samples of all others, broadcasts the splitters, and
    exchanges counts and keys with every rank.
    """
    p = ranks
    samples = p * min(max(p, FEWEST_SAMPLES), n_bytes / 8)
    rounds = 2 * ceil_log2(p) + 3 * (p - 1)
    volume = (p - 1) * (24 + 24 + 8) + (p - 1) / p * (8 * samples + n_bytes)
    return Cost(rounds, volume)


ALGORITHM = Algorithm(
    "sample_sort",
    "sorting",
    function=sample_sort,
    cost=cost,
    expectations={
        "agree": "log p",
        "local sort": "1",
        "splitters": "p^2 log p",
        "exchange": "p",
        "merge": "log p",
        "": "p^2 log p",
    },
)
