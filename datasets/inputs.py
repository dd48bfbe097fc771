"""Keys to sort, made rank by rank: what each rank holds, from a seed, and why that hurts some sorter.

Every rank makes its own block without talking to anybody. Keys come from the raw output of PCG64 by the
integer transformations in this file, not from NumPy's distributions, whose streams may change between
versions: the same arguments give the same bits everywhere.

Most inputs are drawn as 64-bit *positions* on the key axis, from which a key of any dtype is made: the top
bits for integers (signed ones from the lowest value up), a fraction in [0, 1) for floats. "Slice j" is the
j-th of p equal parts of that axis, the one that ends on rank j when the keys are uniform.

The nine of D. R. Helman, D. A. Bader, J. JaJa: A randomized parallel sorting algorithm with an experimental
study (J. Parallel Distrib. Comput. 52, 1998, doi:10.1006/jpdc.1998.1462), the additions of M. Axtmann and
P. Sanders: Robust massively parallel sorting (ALENEX 2017, doi:10.1137/1.9781611974768.7), and a few more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from labkit.errors import DataError
from labkit.local.codes import is_sortable
from labkit.program.context import run_seed

__all__ = ["INPUTS", "SIZES", "Place", "keys", "sizes", "why"]

Keys = NDArray[Any]
Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Place:
    """Where a block of keys lies: what a generator may use.

    Attributes
    ----------
    rank, ranks : int
        This rank and the number of ranks.
    lengths : tuple of int
        Keys per rank.
    dtype : dtype
        Of the keys to be made.
    seed : int
    bits : callable, optional
        ``bits(nth)``: a stream of bits to use in the place of those of the seed.
    """

    rank: int
    ranks: int
    lengths: tuple[int, ...]
    dtype: np.dtype[Any]
    seed: int
    bits: Callable[[int], Any] | None = None

    @property
    def n(self) -> int:
        """The number of keys of this rank."""
        return self.lengths[self.rank]

    @property
    def total(self) -> int:
        """The number of keys on all ranks."""
        return sum(self.lengths)

    @property
    def indices(self) -> Words:
        """The global indices of this rank's keys."""
        first = sum(self.lengths[: self.rank])
        return np.arange(first, first + self.n, dtype=np.uint64)

    @cached_property
    def own(self) -> Any:
        """The stream of bits of this rank."""
        return self._stream(1 + self.rank)

    @cached_property
    def common(self) -> Any:
        """A stream that is the same on all ranks."""
        return self._stream(0)

    def _stream(self, nth: int) -> Any:
        return np.random.PCG64([self.seed, nth]) if self.bits is None else self.bits(nth)

    def words(self) -> Words:
        """The next n 64-bit words of this rank's stream."""
        words: Words = self.own.random_raw(self.n).astype(np.uint64, copy=False)
        return words

    def in_slices(self, slices: NDArray[np.int64] | int) -> Keys:
        """Keys at random positions of the given slices (one for all, or one per key)."""
        width = ((1 << 64) - 1) // self.ranks
        # p * width falls short of 2**64 by less than p, so the remainder is as good as uniform.
        starts = np.broadcast_to(np.asarray(slices), (self.n,)).astype(np.uint64)
        return self.spread(starts * np.uint64(width) + self.words() % np.uint64(width))

    def spread(self, positions: Words) -> Keys:
        """Keys at 64-bit positions of the key axis."""
        if self.dtype.kind == "f":
            # As many bits as the mantissa holds, so that no key is rounded up to 1.
            bits = np.finfo(self.dtype).nmant + 1
            fractions = (positions >> np.uint64(64 - bits)).astype(np.float64) / float(1 << bits)
            return fractions.astype(self.dtype)
        bits = 1 if self.dtype.kind == "b" else 8 * self.dtype.itemsize
        top = positions >> np.uint64(64 - bits)
        if self.dtype.kind == "i":
            top = top ^ np.uint64(1 << (bits - 1))
        return top.astype(self.dtype)

    def small(self, values: NDArray[Any]) -> Keys:
        """Keys of small integer values (at most 127), as they are."""
        return values.astype(self.dtype)


def uniform(place: Place) -> Keys:
    """Uniform keys: the friendly case, and the base line of every table."""
    return place.spread(place.words())


def gaussian(place: Place) -> Keys:
    """Mean of four uniform keys: splitters taken from the key range, not from the keys, miss badly."""
    return place.spread(np.add.reduce([place.words() >> np.uint64(2) for _ in range(4)]))


def all_equal(place: Place) -> Keys:
    """One value only: without tie-breaking all go to one rank, and windows in key space never close."""
    return place.small(np.ones(place.n))


def bucket(place: Place) -> Keys:
    """Each rank's j-th part lies in slice j: everyone sends to the same rank first."""
    return place.in_slices(np.arange(place.n) * place.ranks // max(place.n, 1))


def g_group(place: Place, group: int | None = None) -> Keys:
    """Groups of g ranks send to g others in the same order: defeats exchanges that walk by strides.

    `group` is g, by default the integer square root of p.
    """
    g = _positive("group", math.isqrt(place.ranks) if group is None else group)
    part = np.arange(place.n) * g // max(place.n, 1)
    return place.in_slices((place.rank // g * g + place.ranks // 2 + part) % place.ranks)


def staggered(place: Place) -> Keys:
    """All keys of a rank belong to one other rank: the exchange is a permutation of whole blocks."""
    i, p = place.rank, place.ranks
    return place.in_slices(min(2 * i + 1, p - 1) if i < p // 2 else 2 * (i - p // 2))


def random_duplicates(place: Place) -> Keys:
    """Up to 32 values with random shares on each rank: many ties, unevenly spread."""
    weights = place.own.random_raw(32) >> np.uint64(40)
    values = place.own.random_raw(32) >> np.uint64(59)
    chosen = np.searchsorted(np.cumsum(weights), place.words() % weights.sum(), side="right")
    return place.small(values[chosen])


def deterministic_duplicates(place: Place) -> Keys:
    """Half the ranks hold one value, a quarter the next, ...: a few huge ties, each across many ranks."""
    return place.small(_halving_levels(place))


def _halving_levels(place: Place) -> NDArray[np.int64]:
    """log2 n on the first half of the ranks, log2(n/2) on the next quarter, ...; likewise within the last."""
    if place.rank < place.ranks - 1:
        return np.full(place.n, _log2(place.total >> _level(place.rank, place.ranks)))
    first = max(place.total // place.ranks, 1)
    return np.array([_log2(first >> _level(i, place.n)) for i in range(place.n)], np.int64)


def _level(i: int, n: int) -> int:
    """0 for the first half of 0..n-1, 1 for the next quarter, and so on."""
    return _log2(n // (n - i))


def _log2(n: int) -> int:
    return max(n.bit_length() - 1, 0)


def ordered(place: Place) -> Keys:
    """Sorted already: nothing has to move; a sorter that moves keys anyway shows its overhead."""
    return place.spread(place.indices * np.uint64(((1 << 64) - 1) // max(place.total, 1)))


def reversed_order(place: Place) -> Keys:
    """Sorted the other way round: every key crosses the machine, and rank i talks to rank p - 1 - i alone."""
    step = np.uint64(((1 << 64) - 1) // max(place.total, 1))
    return place.spread((np.uint64(max(place.total - 1, 0)) - place.indices) * step)


def few_unique(place: Place, values: int = 5) -> Keys:
    """A handful of values, evenly drawn: fewer values than ranks, so ties must be divided between ranks."""
    return place.small(place.words() % np.uint64(_positive("values", values, most=128)))


def zipf(place: Place, values: int = 100, exponent: int = 1) -> Keys:
    """Value k with a share of 1/k^s: skewed as real data is, a few huge ties and a long tail."""
    shares = [(1 << 48) // k ** _positive("exponent", exponent) for k in range(1, values + 1)]
    edges = np.cumsum(np.array(shares[: _positive("values", values, most=127)], np.uint64))
    return place.small(1 + np.searchsorted(edges, place.words() % edges[-1], side="right"))


def all_to_one(place: Place) -> Keys:
    """Each rank sends its keys to one rank, its last key to rank 0: naive exchanges flood rank 0."""
    target = np.full(place.n, place.ranks - 1 - place.rank)
    target[-1:] = 0
    return place.in_slices(target)


def mirrored(place: Place) -> Keys:
    """Rank i holds slice bit-reverse(i): hypercube quicksort without a shuffle piles up n/sqrt(p) keys."""
    bits = max((place.ranks - 1).bit_length(), 1)
    reverse = int(f"{place.rank:0{bits}b}"[::-1], 2)
    return place.in_slices(reverse * place.ranks >> bits)


def worst_regular(place: Place) -> Keys:
    """Keys that make regular samples as wrong as they can be: some rank gets nearly 2 n/p keys.

    Made against the textbook's choice: samples at the ends of p equal blocks per rank, and as k-th splitter
    the middle rank's k-th sample. Around every other splitter the keys between two samples crowd below it,
    around the others above it.
    """
    p, rank = place.ranks, place.rank
    blocks = max(min(p, place.n), 1)
    ends = (np.arange(1, blocks + 1) * place.n // blocks - 1)[: place.n]
    block = np.searchsorted(ends, np.arange(place.n))
    crowds_below = block % 2 == 1
    is_counted = rank < p // 2  # this rank's samples come before the middle rank's
    if is_counted:  # the keys that follow a sample
        values = 8 * (block - 1) + np.where(crowds_below, 5, 1)
    else:  # the keys that lead to a sample
        values = 8 * block + np.where(crowds_below, -2, 3)
    values[ends] = 8 * block[ends] + (0 if is_counted else 2 if rank == p // 2 else 4)
    bits = (8 * (p + 2)).bit_length()
    return place.spread((values + 8).astype(np.uint64) << np.uint64(64 - bits))


def bit_patterns(place: Place) -> Keys:
    """Every bit pattern of the dtype: for floats NaNs of both signs, infinities, subnormals, both zeros."""
    if place.dtype.kind == "b":
        return uniform(place)
    words = place.words() >> np.uint64(64 - 8 * place.dtype.itemsize)
    patterns = words.astype(f"u{place.dtype.itemsize}")
    if place.dtype.kind == "f":
        # Random 64-bit patterns hardly ever hit the special values, so every fourth key is one of them.
        special = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0], place.dtype).view(patterns.dtype)
        patterns[::4] = special[np.arange(len(patterns[::4])) % len(special)]
    return patterns.view(place.dtype)


#: name -> generator
INPUTS: dict[str, Callable[..., Keys]] = {
    "uniform": uniform,
    "gaussian": gaussian,
    "all_equal": all_equal,
    "bucket": bucket,
    "g_group": g_group,
    "staggered": staggered,
    "random_duplicates": random_duplicates,
    "deterministic_duplicates": deterministic_duplicates,
    "sorted": ordered,
    "reversed": reversed_order,
    "few_unique": few_unique,
    "zipf": zipf,
    "all_to_one": all_to_one,
    "mirrored": mirrored,
    "worst_regular": worst_regular,
    "bit_patterns": bit_patterns,
}

#: name -> how many of p * n_local keys each rank holds
SIZES: dict[str, str] = {
    "even": "n_local on every rank",
    "ragged": "random lengths between 0 and 2 n_local",
    "odd_empty": "nothing on odd ranks, n_local on the others",
    "one_rank": "everything on the last rank",
    "powers": "halving from rank to rank, so that the last ones hold nothing",
    "fewer": "one key on every third rank: fewer keys than ranks",
}


def sizes(name: str, ranks: int, n_local: int, seed: int | None = None) -> tuple[int, ...]:
    """Return how many keys each rank holds.

    Parameters
    ----------
    name : str
        One of `SIZES`.
    ranks, n_local : int
        Number of ranks, and the mean (or largest) number of keys per rank.
    seed : int, optional
        For random lengths; default: that of the run, as for `keys`.
    """
    if name == "even":
        return (n_local,) * ranks
    if name == "ragged":
        raw = np.random.PCG64([run_seed() if seed is None else seed, ranks]).random_raw(ranks)
        return tuple(int(word) % (2 * n_local + 1) for word in raw)
    if name == "odd_empty":
        return tuple(0 if rank % 2 else n_local for rank in range(ranks))
    if name == "one_rank":
        return (*(0,) * (ranks - 1), n_local * ranks)
    if name == "powers":
        return tuple(n_local >> rank for rank in range(ranks))
    if name == "fewer":
        return tuple(int(rank % 3 == 0) for rank in range(ranks))
    raise DataError(f"no sizes are called {name!r}; there are {', '.join(SIZES)}", code="unknown-name")


def keys(
    name: str,
    rank: int,
    ranks: int,
    n_local: int,
    *,
    dtype: DTypeLike = np.int64,
    seed: int | None = None,
    lengths: str = "even",
    bits: Callable[[int], Any] | None = None,
    **options: int,
) -> Keys:
    """Make the keys that one rank holds.

    Parameters
    ----------
    name : str
        One of `INPUTS`; `why` says what each is for.
    rank, ranks : int
        This rank and the number of ranks.
    n_local : int
        Keys per rank, as `lengths` reads it.
    dtype : dtype_like
        Bool, integer or float dtype of the keys.
    seed : int, optional
        Same seed, same keys. Default: the seed of the run that asks, so that the repetitions of a sweep have
        different keys; outside a run, 0.
    lengths : str
        One of `SIZES`.
    bits : callable, optional
        ``bits(nth)``: the stream of bits that all ranks share (0) or of rank nth - 1, an object with
        `random_raw` as `numpy.random.PCG64` has it. Default: PCG64 from the seed.
    **options
        The generator's own, such as ``values`` of ``few_unique``.

    Returns
    -------
    ndarray, shape (n_rank,)

    Raises
    ------
    DataError
        If a name is unknown or a number out of range.

    Examples
    --------
    >>> keys("few_unique", rank=0, ranks=2, n_local=8, values=3)
    array([1, 1, 2, 2, 1, 0, 2, 2])
    >>> keys("reversed", rank=1, ranks=2, n_local=3, dtype="uint8")
    array([85, 42,  0], dtype=uint8)
    """
    if name not in INPUTS:
        raise DataError(f"no input is called {name!r}; there are {', '.join(INPUTS)}", code="unknown-name")
    if ranks < 1 or not 0 <= rank < ranks or n_local < 0:
        raise DataError(
            f"need 0 <= rank < ranks and n_local >= 0, got {rank=}, {ranks=}, {n_local=}", code="out-of-range"
        )
    if not is_sortable(np.dtype(dtype)):
        raise DataError(
            f"keys can be bool, integers or floats of at most 64 bits, got {np.dtype(dtype)}",
            code="out-of-range",
        )
    seed = run_seed() if seed is None else seed
    place = Place(rank, ranks, sizes(lengths, ranks, n_local, seed), np.dtype(dtype), seed, bits)
    try:
        return INPUTS[name](place, **options)
    except TypeError as error:
        raise DataError(
            f"input {name} does not take these options: {error}", code="wrong-arguments"
        ) from error


def why(name: str) -> str:
    """Return one sentence on what an input is for."""
    if name not in INPUTS:
        raise DataError(f"no input is called {name!r}; there are {', '.join(INPUTS)}", code="unknown-name")
    return (INPUTS[name].__doc__ or "").splitlines()[0]


def _positive(name: str, value: int, most: int | None = None) -> int:
    if value < 1 or (most is not None and value > most):
        allowed = ">= 1" if most is None else f"between 1 and {most}"
        raise DataError(f"{name} must be an integer {allowed}, got {value!r}", code="wrong-type")
    return value


def __dir__() -> list[str]:
    return __all__
