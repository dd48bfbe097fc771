"""Mini sort: quicksort over the ranks themselves, for one key per rank.

The ranks of a range agree on a pivot: a tree of medians of their keys, whose root broadcasts its result.
Each rank compares its own key with the pivot. Exclusive prefix sums of the smaller and the equal keys tell
every key its place: smaller keys go to the first ranks of the range, equal keys to the next, larger ones to
the last; one message per rank takes it there. Keys equal to the pivot have arrived; the first and the last
part of the range go on by themselves, as ranges of ranks: a range is two numbers, no communicator is made.

Cost, for p ranks with latency alpha, in O(log p) expected levels::

    agree         log p: one Bcast of 8 bytes, one Allreduce of 16
    pivot         log p alpha per level: up one tree of medians, down one of copies
    prefix sums   log p alpha per level
    exchange      alpha per level

In all O(log^2 p) expected, with a constant number of words in every message and in every rank's memory.

Requires: one key on every rank: an array of shape (1,) or a scalar; bool, an integer, or a float of at most
64 bits, the same dtype on all ranks. The messages of other operations that are under way on the communicator
must not bear the tags 32002 and 32003.

Properties
    Deterministic: pivots depend on the keys, p, ``median`` and ``seed`` only.
    Order: NumPy's, made total (`labkit.local.codes`): NaNs last, -0.0 directly before 0.0.
    Duplicates: every level ends for all keys equal to its pivot, of which there is at least one, so it
    terminates whatever the keys, and with d different keys after at most d levels: all-equal keys take one.
    No key has to carry its origin to break ties. Equal keys keep the order of their ranks.
    Pivots: with 3^h voters, at least 2^h keys are on either side of the ternary tree's pivot, itself counted;
    keys are on the whole closer to its middle with the binary tree, in which all ranks vote.

Reference
    C. Siebert, F. Wolf: Parallel sorting with minimal data. Proc. EuroMPI (2011), LNCS 6960,
    doi:10.1007/978-3-642-24449-0_20. Ternary medians: P. J. Rousseeuw, G. W. Bassett: The remedian. J. Amer.
    Statist. Assoc. 85 (1990), doi:10.1080/01621459.1990.10475311. Binary tree: M. Axtmann, P. Sanders: Robust
    massively parallel sorting. Proc. ALENEX (2017), doi:10.1137/1.9781611974768.7.

Examples
--------
>>> import labkit as lk
>>> from labkit.algorithms.sorting.mini_sort import mini_sort
>>> def program(comm):
...     return mini_sort(comm, (7 * comm.rank) % 10)
>>> [block.tolist() for block in lk.run(program, 5, on="star:5").results]
[[0], [1], [4], [7], [8]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labkit import local
from labkit.algorithms.sort_checker import check_sorted
from labkit.algorithms.sorting._agreement import agree_briefly
from labkit.algorithms.sorting._rank_range import RankRange
from labkit.algorithms.sorting._splitting import require_check, require_keys
from labkit.errors import DataError
from labkit.program.context import phase
from labkit.registry import Algorithm, Cost, Requirements
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "block_sizes", "cost", "largest_block", "mini_sort"]

Key = Any
#: two counters in one number: of smaller keys, and above them, of equal ones
SMALLER, EQUAL = 1, 1 << 32


def mini_sort(
    comm: Intracomm,
    key: ArrayLike,
    *,
    median: Literal["ternary", "binary"] = "ternary",
    seed: int = 0,
    check: Literal["off", "local", "global"] = "off",
) -> NDArray[Any]:
    """Sort one key per rank; return the one that belongs to this rank.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one.
    key : array_like, shape (1,) or ()
        This rank's key; not changed.
    median : {"ternary", "binary"}
        The tree that approximates the median: medians of three, or the two middle ones of up to four.
    seed : int
        Chooses who votes and how ties between two middle keys end; every number gives a correct sort.
    check : {"off", "local", "global"}
        Verify the result: not at all; this rank's block alone; or with every rank's help
        (`labkit.algorithms.sort_checker.check_sorted`, one small collective).

    Returns
    -------
    ndarray, shape (1,)
        Of the key's dtype: the key of this rank's place in the sorted sequence.

    Raises
    ------
    DataError
        On all ranks alike, if a rank passed another number of keys than one, if keys cannot be sorted, or if
        ranks differ in dtype or options.
    """
    require_keys(key, "mini sort sorts one key per rank, which memory holds: pass that key")
    with phase("agree"):
        given, _ = agree_briefly(
            comm,
            np.atleast_1d(key),
            keys_per_rank=1,
            instead="for more keys or fewer use a sort that takes any number, such as sample_sort",
            median=median,
            seed=seed,
            check=check,
        )
        _require_valid(median, seed, check)
        codes = local.to_codes(given)
        mine = codes.item(0)
        group = RankRange(comm, codes.dtype)
        approximate_median = ternary_median if median == "ternary" else binary_median

    while group.size > 1:
        with phase("pivot"):
            root = draw(seed, group.first, group.size) % group.size
            pivot = group.broadcast(approximate_median(group, mine, root, seed), root)
        with phase("prefix sums"):
            vote = SMALLER if mine < pivot else EQUAL if mine == pivot else 0
            before, total = group.sum_before_and_total(vote)
        with phase("exchange"):
            mine = group.move(mine, new_place(vote, group.place, before, total))
        equal, smaller = divmod(total, EQUAL)
        if group.place < smaller:
            group.narrow(0, smaller)
        elif group.place < smaller + equal:
            break
        else:
            group.narrow(smaller + equal, group.size - smaller - equal)

    result = local.from_codes(np.array([mine], codes.dtype), given.dtype)
    if check != "off":
        check_sorted(comm, given, result, scope=check, sizes="even").require()
    return result


def new_place(vote: int, place: int, before: int, total: int) -> int:
    """Return where a key goes: smaller keys first, then the equal, then the larger, each in rank order."""
    equal, smaller = divmod(total, EQUAL)
    equal_before, smaller_before = divmod(before, EQUAL)
    if vote == SMALLER:
        return smaller_before
    if vote == EQUAL:
        return smaller + equal_before
    return smaller + equal + place - smaller_before - equal_before


def ternary_median(group: RankRange, key: Key, root: int, seed: int) -> Key:
    """Climb a tree of medians of three; what arrives at place `root` is a median of the range, about.

    The largest power of three ranks that there are vote, spread evenly over the range, so that a range which
    is nearly in order has a good median too.
    """
    voters = 1
    while 3 * voters <= group.size:
        voters *= 3
    offset = (group.place - root) % group.size
    number = -(-offset * voters // group.size)
    if spread(number, voters, group.size) != offset:
        return key
    stride = 1
    while stride < voters and number % (3 * stride) == 0:
        others = [
            group.receive(root + spread(number + child * stride, voters, group.size))[0] for child in (1, 2)
        ]
        key = sorted([key, *others])[1]
        stride *= 3
    if number:
        group.send([key], root + spread(number - number % (3 * stride), voters, group.size))
    return key


def spread(voter: int, voters: int, size: int) -> int:
    """Return how far from the root a voter stands."""
    return voter * size // voters


def binary_median(group: RankRange, key: Key, root: int, seed: int) -> Key:
    """Climb a binomial tree of all ranks with the one or two middle keys of what each has below it.

    Of three keys, and of two at the root, a coin says on which side to drop one: always the same side would
    pull all medians there.
    """
    number = (group.place - root) % group.size
    coins = draw(seed, group.first + number, group.size)
    middle = [key]
    distance = 1
    while distance < group.size and not number & distance:
        if number + distance < group.size:
            below = min(distance, group.size - number - distance)
            middle = sorted(middle + group.receive(root + number + distance, min(below, 2)))
            if len(middle) == 4:
                middle = middle[1:3]
            elif len(middle) == 3:
                middle = middle[:2] if coins & distance else middle[1:]
        distance *= 2
    if number:
        group.send(middle, root + number - distance)
    return middle[coins & 1 if len(middle) == 2 else 0]


def draw(*words: int) -> int:
    """Return 32 bits that look random and follow from the words: all ranks that know them draw the same."""
    bits = 0
    for word in words:
        bits = (bits ^ word) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
        bits ^= bits >> 32
    return bits & 0xFFFFFFFF


def block_sizes(n: int, p: int) -> NDArray[np.int64]:
    """Return how many keys each rank ends with: one."""
    return np.ones(p, np.int64)


def largest_block(n: int, p: int) -> int:
    """Return the number of keys that no rank's result exceeds: the one that each brought."""
    return 1


def _require_valid(median: str, seed: int, check: str) -> None:
    if median not in ("ternary", "binary"):
        raise DataError(f'median must be "ternary" or "binary", got {median!r}', code="unknown-name")
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise DataError(f"seed must be an integer >= 0, got {seed!r}", code="out-of-range")
    require_check(check)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Predict the messages and bytes on the longest path if every pivot is the median, for keys of 8 bytes.

    A level of a range of s ranks has 2 log3(s) messages up the tree at its root, log2(s) down, log2(s) rounds
    of the prefix sums with 24 bytes, and one exchange.
    """
    rounds, volume, size = 2 * ceil_log2(ranks), ceil_log2(ranks) * (8 + 16), ranks
    while size > 1:
        up = 2 * next(height for height in range(size) if 3 ** (height + 1) > size)
        rounds += up + 2 * ceil_log2(size) + 1
        volume += 8 * (up + ceil_log2(size) + 1) + 24 * ceil_log2(size)
        size //= 2
    return Cost(rounds, volume)


ALGORITHM = Algorithm(
    "mini_sort",
    "sorting",
    function=mini_sort,
    requirements=Requirements(keys_per_rank=1),
    cost=cost,
    expectations={
        "agree": "log p",
        "pivot": "log^2 p",
        "prefix sums": "log^2 p",
        "exchange": "log p",
        "": "log^2 p",
    },
)
