"""Radix sort: digit by digit from the lowest, count in parallel where every key belongs, send it there.

Each pass is a counting sort of one digit of k bits over all ranks. A key's new position in the global
sequence is the number of keys with smaller digits, plus those with its digit on lower ranks, plus those
before it on its own rank. The first two come from two collectives over 2^k counters, the third from the
order at hand. Rank r keeps the positions of its block; the keys go to the ranks of their positions, and are
put in order there. Passes are stable, so b/k of them sort keys of b bits, and no two keys are ever compared.

Cost, for n keys of b bits on p ranks with latency alpha and key time beta; all but `agree` b/k times::

    agree         log p: one Bcast of 8 bytes, one Allreduce of 16
    count         n/p + 2^k
    prefix sums   (log p)(alpha + 2^k beta): one Exscan and one Allreduce of 2^k counters
    scatter       n/p + 2^k, before the exchange and after it
    exchange      p alpha + (n/p) beta: every rank sends to every rank, mostly nothing

In all O(b/k (n/p + 2^k + log p + p)). The literature's O(b/k (n/p + 2^k + log p)) leaves out the p start-ups
of the exchange. There are fewer if only ranks with keys for each other exchange messages
(``exchange="messages"``): the keys of one digit on one rank have consecutive positions, in at most two
blocks, so a rank with n/p keys sends to no more than 2^(k+1) others, however large p is.

Requires: nothing. Any p >= 1; any number of keys per rank, none included; bool, integers, and floats of at
most 64 bits, the same dtype on all ranks.

Properties
    Deterministic: the output depends on the keys and p only, to the last bit.
    Order: NumPy's, made total (`labkit.local.codes`): NaNs last, -0.0 directly before 0.0.
    Balance: exact. Rank r holds positions r n/p to (r + 1) n/p, both rounded down (`block_bounds`), so blocks
    differ by at most one key, whatever the keys and however many each rank brought.
    Data-independent: passes, messages and their number follow from n, p, b and k alone; only the sizes of
    messages depend on the keys. ``skip_constant`` gives that up.
    Why Exscan and Allreduce: they are two trees of 2^k counters, and constant memory. An Allgather of all
    counters would give both results by p 2^k of volume and memory; one pass of own messages would save log p
    of the start-ups, next to p in the exchange.

Reference
    G. E. Blelloch et al.: A comparison of sorting algorithms for the Connection Machine CM-2. Proc. 3rd ACM
    Symp. Parallel Algorithms and Architectures (1991), pp. 3-16. The best radix: M. Zagha, G. E. Blelloch:
    Radix sort for vector multiprocessors. Proc. Supercomputing (1991), doi:10.1145/125826.126164.

Examples
--------
>>> import labkit as lk, numpy as np
>>> from labkit.algorithms.sorting.radix_sort import radix_sort
>>> def program(comm):
...     return radix_sort(comm, np.arange(comm.rank, 12, comm.size), bits=16)
>>> [block.tolist() for block in lk.run(program, 3, on="star:3").results]
[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labkit import local
from labkit.algorithms.sort_checker import check_sorted
from labkit.algorithms.sorting._agreement import agree_briefly
from labkit.algorithms.sorting._splitting import exchange as exchange_by_alltoallv
from labkit.algorithms.sorting._splitting import require_check
from labkit.errors import DataError
from labkit.program.context import phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "block_bounds", "block_sizes", "cost", "largest_block", "radix_sort"]

Keys = NDArray[Any]
Counts = NDArray[np.int64]
#: tag of the messages that carry keys with ``exchange="messages"``
TAG = 32001
MOST_BITS = 16


class Positions(NamedTuple):
    """Where keys belong in the global sequence ordered by one digit.

    Attributes
    ----------
    starts : ndarray of int64, shape (2**k,)
        The position of this rank's first key of each digit.
    totals : ndarray of int64, shape (2**k,)
        How many keys of each digit there are on all ranks.
    """

    starts: Counts
    totals: Counts


def radix_sort(
    comm: Intracomm,
    keys: ArrayLike,
    *,
    bits: int = 8,
    exchange: Literal["alltoallv", "messages"] = "alltoallv",
    skip_constant: bool = False,
    check: Literal["off", "local", "global"] = "off",
) -> Keys:
    """Sort the keys of all ranks; return this rank's block of the sorted sequence.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one.
    keys : array_like, shape (n_local,)
        This rank's keys; not changed. n_local may differ between ranks.
    bits : int
        The digit's width k, 1 to 16. Where it does not divide the keys' width, the last digit is narrower.
    exchange : {"alltoallv", "messages"}
        How keys travel: by Alltoallv, or by one message to each rank that gets any.
    skip_constant : bool
        Do not move keys in a pass in which all have the same digit: small numbers in wide integers sort in a
        part of the time. Off by default, because times then depend on the keys: what is measured is no
        longer b/k passes.
    check : {"off", "local", "global"}
        Verify the result: not at all; this rank's block alone; or with every rank's help
        (`labkit.algorithms.sort_checker.check_sorted`, one small collective).

    Returns
    -------
    ndarray, shape (n_local_sorted,)
        Of the keys' dtype: the sorted sequence from `block_bounds` ``[rank]`` to ``[rank + 1]``.

    Raises
    ------
    DataError
        On all ranks alike, if keys cannot be sorted or ranks differ in dtype or options.
    """
    with phase("agree"):
        stand_ins = local.StandIns(comm, keys)
        given, total = agree_briefly(
            comm, keys, bits=bits, exchange=exchange, skip_constant=skip_constant, check=check
        )
        _require_valid(bits, exchange, check)
        require_check(check, given)
        bounds = block_bounds(total, comm.size)
        send = exchange_by_alltoallv if exchange == "alltoallv" else exchange_by_messages

    with phase("count"):
        mine = stand_ins.with_digits(local.to_codes(given))

    for digit in digits(given.dtype, bits):
        with phase("count"):
            counts = local.digit_counts(mine, *digit)
        with phase("prefix sums"):
            positions = find_positions(comm, counts)
        if skip_constant and positions.totals.max() == total and digit != digits(given.dtype, bits)[-1]:
            continue
        with phase("scatter"):
            mine = local.scatter(mine, counts, *digit)
        with phase("exchange"):
            mine, _ = send(comm, mine, cut(counts, positions, bounds))
        with phase("scatter"):
            mine = local.scatter(mine, digits_of_block(positions, bounds, comm.rank), *digit)

    with phase("scatter"):
        result = local.from_codes(mine, given.dtype)
    if check != "off":
        check_sorted(comm, given, result, scope=check, sizes=block_sizes(total, comm.size).tolist()).require()
    return result


def block_bounds(n: int, p: int) -> Counts:
    """Return the p + 1 bounds of the blocks, equal but for one key, that n sorted keys are divided into."""
    return np.arange(p + 1, dtype=np.int64) * n // p


def block_sizes(n: int, p: int) -> Counts:
    """Return how many keys each rank ends with, whatever the keys."""
    return np.diff(block_bounds(n, p))


def largest_block(n: int, p: int) -> int:
    """Return the number of keys that no rank's result exceeds, whatever the keys."""
    return -(-n // p)


def digits(dtype: np.dtype[Any], bits: int) -> list[tuple[int, int]]:
    """Return every digit's lowest bit and width, in the order of the passes."""
    width = 1 if dtype.kind == "b" else 8 * dtype.itemsize
    return [(shift, min(bits, width - shift)) for shift in range(0, width, bits)]


def find_positions(comm: Intracomm, counts: Counts) -> Positions:
    """Sum the counters of all ranks, and of the ranks before this one."""
    totals, before = np.empty_like(counts), np.zeros_like(counts)
    comm.Allreduce(counts, totals)
    comm.Exscan(counts, before)
    return Positions(np.cumsum(totals) - totals + before, totals)


def cut(counts: Counts, positions: Positions, bounds: Counts) -> Counts:
    """Return, for every bound between two blocks, how many of my keys, in digit order, belong before it.

    The starts do not decrease: all keys of the digits before the last one that starts up to the bound belong
    before it, and none of those after.
    """
    inner = bounds[1:-1]
    digit = np.maximum(np.searchsorted(positions.starts, inner, side="right") - 1, 0)
    before = np.cumsum(counts) - counts
    upto: Counts = before[digit] + np.clip(inner - positions.starts[digit], 0, counts[digit])
    return upto


def digits_of_block(positions: Positions, bounds: Counts, rank: int) -> Counts:
    """Return how many keys of each digit a rank receives: the part of the digits that lies in its block."""
    ends = np.clip(np.cumsum(positions.totals), bounds[rank], bounds[rank + 1])
    return np.diff(ends, prepend=bounds[rank])


def exchange_by_messages(comm: Intracomm, mine: Keys, cuts: Counts) -> tuple[Keys, Counts]:
    """Send the keys between two cuts to each rank that gets any; return pieces in rank order, and lengths."""
    begins = np.concatenate([[0], cuts, [len(mine)]])
    to_receive = np.empty(comm.size, np.int64)
    comm.Alltoall(np.diff(begins), to_receive)
    ends = np.cumsum(to_receive)
    pieces = local.room_like(mine, int(ends[-1]))
    requests = []
    for peer in np.flatnonzero(to_receive).tolist():
        piece = pieces[ends[peer] - to_receive[peer] : ends[peer]]
        requests.append(comm.Irecv(piece, source=peer, tag=TAG))
    # Beginning behind oneself: if all began with rank 0, it would be the bottleneck of every pass.
    wanted = np.flatnonzero(np.diff(begins))
    for peer in np.roll(wanted, -np.searchsorted(wanted, comm.rank)).tolist():
        requests.append(comm.Isend(mine[begins[peer] : begins[peer + 1]], dest=peer, tag=TAG))
    for request in requests:
        request.Wait()
    return pieces, to_receive


def _require_valid(bits: int, exchange: str, check: str) -> None:
    if isinstance(bits, bool) or not isinstance(bits, int | np.integer) or not 1 <= bits <= MOST_BITS:
        raise DataError(f"bits must be an integer from 1 to {MOST_BITS}, got {bits!r}", code="out-of-range")
    if exchange not in ("alltoallv", "messages"):
        raise DataError(f'exchange must be "alltoallv" or "messages", got {exchange!r}', code="unknown-name")


def cost(ranks: int, n_bytes: float) -> Cost:
    """Predict a rank's messages and bytes, for n_bytes of 8-byte keys per rank, 8-bit digits, Alltoallv."""
    p, passes, counters = ranks, 8, 8 * 2**8
    trees = ceil_log2(p)
    rounds = 2 * trees + passes * (2 * trees + 2 * (p - 1))
    volume = trees * (8 + 16) + passes * (2 * trees * counters + (p - 1) * 8 + (p - 1) / p * n_bytes)
    return Cost(rounds, volume, trees * (16 + passes * 2 * counters))


ALGORITHM = Algorithm(
    "radix_sort",
    "sorting",
    function=radix_sort,
    cost=cost,
    expectations={
        "agree": "log p",
        "count": "1",
        "prefix sums": "log p",
        "scatter": "1",
        "exchange": "p",
        "": "p",
    },
)
