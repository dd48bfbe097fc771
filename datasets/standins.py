"""The inputs of `labkit.datasets.inputs` as stand-in data: their distributions, for sizes that nobody holds.

``stand_in("uniform", rank, ranks, 10**7)`` has the distribution of ``keys("uniform", rank, ranks, 10**7)``
and takes no memory; see `labkit.local.standin` for what it can do and which keys it stands for. An input
whose point is which key lies where (``worst_regular``, ``bit_patterns``) or whose shares are drawn at
random (``random_duplicates``) has none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from labkit import local
from labkit.errors import DataError
from labkit.local import Range, StandIn

__all__ = ["STAND_INS", "stand_in"]

_AXIS = 1 << 64
_SIGN = 1 << 63
#: pieces of the bell curve; each is taken as uniform
_PIECES = 4096

Ranges = list[Range]


def _uniform(rank: int, ranks: int, n: int) -> Ranges:
    return [Range(n, 0, _AXIS)]


def _parts(n: int, shares: Iterable[float]) -> list[int]:
    """Divide n by shares that add up to 1, each bound rounded down."""
    bounds = [0, *(min(n, math.floor(n * at)) for at in np.cumsum(np.fromiter(shares, float)))]
    bounds[-1] = n
    return [b - a for a, b in pairwise(bounds)]


def _bell(x: float) -> float:
    """Share of the means of four uniform numbers that is below x: in each quarter of degree 4."""
    t = 4.0 * x
    total: float = sum((-1) ** k * math.comb(4, k) * (t - k) ** 4 for k in range(5) if t > k)
    return min(max(total / 24.0, 0.0), 1.0)


def _gaussian(rank: int, ranks: int, n: int) -> Ranges:
    counts = _parts(n, (_bell((i + 1) / _PIECES) - _bell(i / _PIECES) for i in range(_PIECES)))
    width = _AXIS // _PIECES
    return [Range(count, i * width, width) for i, count in enumerate(counts)]


def _values(counts: dict[int, int]) -> Ranges:
    """Small values, each so many times, as `Place.small` makes them of int64 keys."""
    return [Range(count, _SIGN + value, 1) for value, count in sorted(counts.items())]


def _all_equal(rank: int, ranks: int, n: int) -> Ranges:
    return _values({1: n})


def _in_slices(ranks: int, counts: dict[int, int]) -> Ranges:
    width = (_AXIS - 1) // ranks
    return [Range(count, at * width, width) for at, count in sorted(counts.items())]


def _bucket(rank: int, ranks: int, n: int) -> Ranges:
    bounds = [-(-j * n // ranks) for j in range(ranks + 1)]
    return _in_slices(ranks, {j: b - a for j, (a, b) in enumerate(pairwise(bounds))})


def _g_group(rank: int, ranks: int, n: int, group: int | None = None) -> Ranges:
    g = math.isqrt(ranks) if group is None else group
    counts: dict[int, int] = {}
    for part in range(g):
        at = (rank // g * g + ranks // 2 + part) % ranks
        counts[at] = counts.get(at, 0) + -(-(part + 1) * n // g) + (-part * n // g)
    return _in_slices(ranks, counts)


def _staggered(rank: int, ranks: int, n: int) -> Ranges:
    at = min(2 * rank + 1, ranks - 1) if rank < ranks // 2 else 2 * (rank - ranks // 2)
    return _in_slices(ranks, {at: n})


def _sorted(rank: int, ranks: int, n: int) -> Ranges:
    step = (_AXIS - 1) // max(n * ranks, 1)
    return [Range(n, rank * n * step, max(n * step, 1))]


def _reversed(rank: int, ranks: int, n: int) -> Ranges:
    return _sorted(ranks - 1 - rank, ranks, n)


def _few_unique(rank: int, ranks: int, n: int, values: int = 5) -> Ranges:
    return _values(dict(enumerate(_parts(n, [1 / values] * values))))


def _zipf(rank: int, ranks: int, n: int, values: int = 100, exponent: int = 1) -> Ranges:
    shares = [(1 << 48) // k**exponent for k in range(1, values + 1)]
    return _values(dict(enumerate(_parts(n, (share / sum(shares) for share in shares)), 1)))


def _all_to_one(rank: int, ranks: int, n: int) -> Ranges:
    counts = {0: min(n, 1)}
    target = ranks - 1 - rank
    counts[target] = counts.get(target, 0) + n - min(n, 1)
    return _in_slices(ranks, counts)


def _mirrored(rank: int, ranks: int, n: int) -> Ranges:
    bits = max((ranks - 1).bit_length(), 1)
    reverse = int(f"{rank:0{bits}b}"[::-1], 2)
    return _in_slices(ranks, {reverse * ranks >> bits: n})


#: name of an input -> its distribution on a rank
STAND_INS: dict[str, Callable[..., Ranges]] = {
    "uniform": _uniform,
    "gaussian": _gaussian,
    "all_equal": _all_equal,
    "bucket": _bucket,
    "g_group": _g_group,
    "staggered": _staggered,
    "sorted": _sorted,
    "reversed": _reversed,
    "few_unique": _few_unique,
    "zipf": _zipf,
    "all_to_one": _all_to_one,
    "mirrored": _mirrored,
}


def stand_in(name: str, rank: int, ranks: int, n_local: int, **options: Any) -> StandIn:
    """Make the stand-in of the keys that one rank holds.

    Parameters
    ----------
    name : str
        One of `STAND_INS`; what each is for says `labkit.datasets.inputs.why`.
    rank, ranks : int
        This rank and the number of ranks.
    n_local : int
        Keys per rank.
    **options
        The input's own, such as ``values`` of ``few_unique``.

    Returns
    -------
    StandIn, shape (n_local,)
        Keys of dtype int64.

    Raises
    ------
    DataError
        If a name is unknown, has no distribution, or a number is out of range.

    Examples
    --------
    >>> mine = stand_in("uniform", rank=3, ranks=4096, n_local=10**7).sorted()
    >>> mine.count_up_to([-(2**62), 0, 2**62], including=False).tolist()
    [2500000, 5000000, 7500000]
    """
    if name not in STAND_INS:
        raise DataError(
            f"no stand-in is called {name!r}; there are {', '.join(STAND_INS)}", code="unknown-name"
        )
    if ranks < 1 or not 0 <= rank < ranks or n_local < 0:
        raise DataError(
            f"need 0 <= rank < ranks and n_local >= 0, got {rank=}, {ranks=}, {n_local=}", code="out-of-range"
        )
    try:
        return local.stand_in(STAND_INS[name](rank, ranks, n_local, **options), rank)
    except TypeError as error:
        raise DataError(
            f"input {name} does not take these options: {error}", code="wrong-arguments"
        ) from error
