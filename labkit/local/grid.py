"""The inputs on which the node-local kernels are measured: every kernel over a grid of sizes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit import _kernels
from labkit.errors import DataError
from labkit.local import work
from labkit.local.codes import to_codes
from labkit.local.costs import charge
from labkit.local.standin import StandIn
from labkit.local.work import require_integers

__all__ = [
    "MOST_DIGIT_BITS",
    "GridCell",
    "classify",
    "digit_counts",
    "distribute",
    "histogram",
    "jobs",
    "packing_jobs",
    "partition",
    "scatter",
]

SIZES = (16, 64, 256, 1000, 4096, 16384, 65536, 262144)

RUNS = (2, 3, 4, 8, 16, 32)

MANY_RUNS = (64, 256, 1024)

LIMITS = (4, 16, 64, 256, 1024)

DIGIT_BITS = (1, 4, 8, 12, 16)

SPLITTERS = (1, 15, 63, 255, 1023)

DIFFERENT_KEYS = 1 << 17

#: bytes in a row, and bytes of data in a call, where data with gaps are packed
PACKED_RUNS = (8, 32, 128, 1024, 8192)

PACKED_SIZES = (1 << 10, 1 << 14, 1 << 18, 1 << 20)

Codes = NDArray[Any]


class GridCell(NamedTuple):
    """One cell of the grid: the numbers of the cost formula, and the work that is timed."""

    items: int
    log_of: int
    entries: int
    call: Callable[[], object]


def jobs(kernel: str, itemsize: int) -> Iterator[GridCell]:
    """Yield the grid of one kernel for keys of one size."""
    return GRIDS[kernel](_Source(itemsize))


class _Source:
    """Random codes of one size."""

    def __init__(self, itemsize: int) -> None:
        self.itemsize = itemsize
        self._bits = np.random.PCG64(1)

    def codes(self, n: int) -> Codes:
        shift = np.uint64(64 - 8 * self.itemsize)
        return (self._bits.random_raw(n) >> shift).astype(f"u{self.itemsize}")

    def only_codes(self, n: int) -> tuple[Codes]:
        return (self.codes(n),)

    def floats(self, n: int) -> tuple[Codes]:
        return (self.codes(n).view(f"f{self.itemsize}"),)

    def runs(self, n: int, k: int) -> tuple[Codes, Codes]:
        parts = [np.sort(part) for part in np.array_split(self.codes(n), k)]
        return np.concatenate(parts), np.array([len(part) for part in parts])


def _cycled(
    function: Callable[..., object], n: int, make: Callable[[], tuple[object, ...]]
) -> Callable[[], object]:
    """Call `function` on many different inputs of n keys, one after the other.

    One small input, repeated, teaches the branch predictor its comparisons: merging looks 3 times faster.
    """
    inputs = itertools.cycle([make() for _ in range(max(1, DIFFERENT_KEYS // n))])
    return lambda: function(*next(inputs))


def _code(source: _Source) -> Iterator[GridCell]:
    for n in SIZES:
        yield GridCell(n, 1, 0, _cycled(to_codes, n, partial(source.floats, n)))


def _sort(source: _Source) -> Iterator[GridCell]:
    for n in SIZES:
        yield GridCell(n, n, 0, _cycled(work.sort, n, partial(source.only_codes, n)))


def _merge(source: _Source) -> Iterator[GridCell]:
    for n, k in itertools.product(SIZES, RUNS):
        if k <= min(n // 4, work.most_runs(source.itemsize, n)):
            yield GridCell(n, k, 0, _cycled(work.merge, n, partial(source.runs, n, k)))


def _merge_many(source: _Source) -> Iterator[GridCell]:
    for n, k in itertools.product(SIZES, (16, *MANY_RUNS)):
        if work.most_runs(source.itemsize, n) < k <= n // 4:
            yield GridCell(n, n, 0, _cycled(work.merge, n, partial(source.runs, n, k)))


def _merge_order(source: _Source) -> Iterator[GridCell]:
    for n, k in itertools.product(SIZES, RUNS + MANY_RUNS):
        if k <= n // 4:
            yield GridCell(n, k, 0, _cycled(work.merge_order, n, partial(source.runs, n, k)))


def _count_up_to(source: _Source) -> Iterator[GridCell]:
    def make(n: int, m: int) -> tuple[Any, ...]:
        return np.sort(source.codes(n)), np.sort(source.codes(m)), np.arange(m) % 2 == 0

    for n, m in itertools.product(SIZES[2:-1], LIMITS):
        yield GridCell(m, n, 0, _cycled(work.count_up_to, n, partial(make, n, m)))


# Kernels of radix sorts: count the digits of keys, and bring keys into the order of one digit.
#
# A digit is `bits` bits of a key, from bit `shift` upwards, read so that digits are ordered as the keys are:
# a signed key's top bit is turned around. Keys are integers; codes (`labkit.local.to_codes`) make integers
# of
# floats.

#: widest digit, in bits: its counts fill a second-level cache
MOST_DIGIT_BITS = 16

#: a table of 2**bits digits is worth no pass over it when there are at least this many digits per key ...
_DIGITS_PER_KEY = 64

#: ... and at least this many digits: smaller tables cost less than two scatters (benchmarks/local_kernels.py)
_LARGE_TABLE = 1 << 16

Keys = NDArray[Any]

Counts = NDArray[np.int64]


def digit_counts(keys: Keys, shift: int, bits: int) -> Counts:
    """Count how many times each digit occurs.

    Parameters
    ----------
    keys : ndarray of integers, shape (n,)
    shift : int
        The digit's lowest bit, from 0 to the key's bits - 1.
    bits : int
        Width of the digit, 1 to 16. Bits above the key's top are 0.

    Returns
    -------
    ndarray of int64, shape (2**bits,)

    Raises
    ------
    DataError
        If the keys are no integers, or the digit is none of theirs.

    Examples
    --------
    >>> import numpy as np
    >>> digit_counts(np.array([-1, 5, 6, 0]), shift=0, bits=2)
    array([1, 1, 1, 1])
    """
    _require_digit(keys, shift, bits)
    charge("digit_counts", keys.itemsize, len(keys), 1 << bits, 1 << bits)
    if isinstance(keys, StandIn):
        return keys.digit_counts(shift, bits)
    counts = np.empty(1 << bits, np.int64)
    _kernels.count_digits(np.ascontiguousarray(keys), shift, bits, counts)
    return counts


def scatter(keys: Keys, counts: Counts, shift: int, bits: int) -> Keys:
    """Order keys by one digit; keys with the same digit keep their order.

    Parameters
    ----------
    keys, shift, bits
        As for `digit_counts`.
    counts : ndarray of int64, shape (2**bits,)
        What `digit_counts` gave for these keys.

    Returns
    -------
    ndarray, shape (n,)

    Raises
    ------
    DataError
        As for `digit_counts`, and if the counts are not those of these keys.

    Notes
    -----
    Places come from the running sum of the counts. That is a pass over all digits: when they are far more
    than the keys, they are scattered by each half of the digit instead, and ``scatter_few`` is charged.
    """
    _require_digit(keys, shift, bits)
    counts = np.ascontiguousarray(counts, np.int64)
    is_in_halves = is_few(len(keys), bits)
    if is_in_halves:
        charge("scatter_few", keys.itemsize, len(keys))
    else:
        charge("scatter", keys.itemsize, len(keys), 1 << bits, 1 << bits)
    if isinstance(keys, StandIn):
        return keys.scattered(shift, bits)
    keys = np.ascontiguousarray(keys)
    scattered = _scattered_in_halves if is_in_halves else _scattered_by_table
    out = scattered(keys, counts, shift, bits)
    if out is None:
        raise DataError(
            "the counts do not belong to these keys; pass the result of digit_counts(keys)",
            code="not-comparable",
        )
    return out


def is_few(n: int, bits: int) -> bool:
    """Whether n keys are so few that `scatter` orders them by halves of a digit of `bits` bits."""
    return 1 << bits >= max(_LARGE_TABLE, _DIGITS_PER_KEY * n)


def _scattered_by_table(keys: Keys, counts: Counts, shift: int, bits: int) -> Keys | None:
    """Return the keys in the order of their digits; None if the counts do not match them."""
    out = np.empty(len(keys), keys.dtype)
    fits = len(counts) == 1 << bits and _kernels.scatter_by_digit(keys, shift, bits, counts, out)
    return out if fits else None


def _scattered_in_halves(keys: Keys, counts: Counts, shift: int, bits: int) -> Keys | None:
    """Do what `_scattered_by_table` does, by a scatter for each half of the digit: small tables."""
    half = bits // 2
    out = keys
    for low, width in ((shift, half), (shift + half, bits - half)):
        if low < 8 * keys.itemsize:  # above the key's top a digit's bits are 0
            small = np.empty(1 << width, np.int64)
            _kernels.count_digits(out, low, width, small)
            source, out = out, np.empty(len(keys), keys.dtype)
            _kernels.scatter_by_digit(source, low, width, small, out)
    return out if _are_counts_of(out, counts, shift, bits) else None


def _are_counts_of(ordered: Keys, counts: Counts, shift: int, bits: int) -> bool:
    """Whether these are the counts of the digits of keys in their order, and no others."""
    unsigned = np.dtype(f"u{ordered.itemsize}").type
    words = ordered.view(unsigned)
    if ordered.dtype.kind == "i":
        words = words ^ unsigned(1 << (8 * ordered.itemsize - 1))
    mask = unsigned(min((1 << bits) - 1, np.iinfo(unsigned).max))
    digits = (words >> unsigned(shift)) & mask
    last = np.append(np.flatnonzero(digits[1:] != digits[:-1]), np.arange(len(ordered))[-1:])
    sizes = last.copy()
    sizes[1:] -= last[:-1]
    sizes[:1] += 1
    return (
        len(counts) == 1 << bits
        and np.count_nonzero(counts) == len(sizes)
        and bool((counts[digits[last]] == sizes).all())
    )


def partition(keys: Keys, shift: int, bits: int) -> tuple[Keys, Counts]:
    """Order keys by one digit, stably, and count the digits: `digit_counts`, then `scatter`.

    Parameters
    ----------
    keys, shift, bits
        As for `digit_counts`.

    Returns
    -------
    keys : ndarray, shape (n,)
    counts : ndarray of int64, shape (2**bits,)
        The first ``counts[0]`` keys have digit 0, and so on.

    Examples
    --------
    >>> import numpy as np
    >>> partition(np.array([7, 4, 2, 5]), shift=0, bits=1)
    (array([4, 2, 7, 5]), array([2, 2]))
    """
    counts = digit_counts(keys, shift, bits)
    return scatter(keys, counts, shift, bits), counts


def _require_digit(keys: Keys, shift: int, bits: int) -> None:
    if not isinstance(keys, StandIn):
        require_integers(keys)
    if not (0 <= shift < 8 * keys.itemsize and 1 <= bits <= MOST_DIGIT_BITS):
        raise DataError(
            f"no digit of {bits} bits from bit {shift} in keys of {8 * keys.itemsize} bits; "
            f"allowed are 1 to {MOST_DIGIT_BITS} bits from a bit of the key",
            code="out-of-range",
        )


def _digit_counts(source: _Source) -> Iterator[GridCell]:
    for n, bits in _digit_sizes(source):
        make = lambda n=n, bits=bits: (source.codes(n), 0, bits)  # noqa: E731
        yield GridCell(n, 1 << bits, 1 << bits, _cycled(digit_counts, n, make))


def _scatter(source: _Source) -> Iterator[GridCell]:
    for n, bits in _digit_sizes(source):
        if not is_few(n, bits):
            yield GridCell(n, 1 << bits, 1 << bits, _scatter_call(source, n, bits))


def _scatter_few(source: _Source) -> Iterator[GridCell]:
    bits = MOST_DIGIT_BITS
    for n in SIZES:
        if is_few(n, bits):
            yield GridCell(n, 1, 0, _scatter_call(source, n, bits))


def _scatter_call(source: _Source, n: int, bits: int) -> Callable[[], object]:
    def make() -> tuple[Any, ...]:
        keys = source.codes(n)
        return keys, digit_counts(keys, 0, bits), 0, bits

    # Many tables of counts would be measured as misses of the cache, which a rank's one table is not.
    return _cycled(scatter, max(n, 1 << bits), make)


def _digit_sizes(source: _Source) -> Iterator[tuple[int, int]]:
    return ((n, bits) for n, bits in itertools.product(SIZES, DIGIT_BITS) if bits <= 8 * source.itemsize)


def _splits(function: Callable[..., object]) -> Callable[[_Source], Iterator[GridCell]]:
    def grid(source: _Source) -> Iterator[GridCell]:
        for n, m in itertools.product(SIZES, SPLITTERS):
            make = lambda n=n, m=m: (source.codes(n), np.sort(source.codes(m)))  # noqa: E731
            yield GridCell(n, m + 1, m, _cycled(function, n, make))

    return grid


def classify(keys: Keys, splitters: Keys) -> NDArray[np.int64]:
    """Find the bucket of every key.

    Parameters
    ----------
    keys : ndarray of integers, shape (n,)
        In any order.
    splitters : ndarray, shape (m,)
        Sorted, of the keys' dtype.

    Returns
    -------
    ndarray of int64, shape (n,)
        From 0 to m.

    Raises
    ------
    DataError
        If the keys are no integers, or the splitters are of another dtype or not sorted.

    References
    ----------
    P. Sanders, S. Winkel: Super Scalar Sample Sort. ESA 2004, doi:10.1007/978-3-540-30140-0_69.

    Examples
    --------
    >>> import numpy as np
    >>> classify(np.array([9, 3, 4, 0]), np.array([3, 8]))
    array([2, 0, 1, 0])
    """
    keys, splitters = _checked(keys, splitters)
    buckets = np.empty(len(keys), np.int64)
    _require_sorted(_kernels.classify(keys, splitters, buckets))
    charge("classify", keys.itemsize, len(keys), len(splitters) + 1, len(splitters))
    return buckets


def histogram(keys: Keys, splitters: Keys) -> Counts:
    """Count the keys of every bucket.

    Parameters
    ----------
    keys, splitters
        As for `classify`.

    Returns
    -------
    ndarray of int64, shape (m + 1,)

    Examples
    --------
    >>> import numpy as np
    >>> histogram(np.array([9, 3, 4, 0]), np.array([3, 8]))
    array([2, 1, 1])
    """
    keys, splitters = _checked(keys, splitters)
    counts = np.empty(len(splitters) + 1, np.int64)
    _require_sorted(_kernels.count_buckets(keys, splitters, counts))
    charge("histogram", keys.itemsize, len(keys), len(splitters) + 1, len(splitters))
    return counts


def distribute(keys: Keys, splitters: Keys) -> tuple[Keys, Counts]:
    """Bring the keys into the order of their buckets; keys of one bucket keep their order.

    Parameters
    ----------
    keys, splitters
        As for `classify`.

    Returns
    -------
    keys : ndarray, shape (n,)
        Bucket after bucket.
    counts : ndarray of int64, shape (m + 1,)
        The keys in each.

    Examples
    --------
    >>> import numpy as np
    >>> distribute(np.array([9, 3, 4, 0]), np.array([3, 8]))
    (array([3, 0, 4, 9]), array([2, 1, 1]))
    """
    keys, splitters = _checked(keys, splitters)
    counts = np.empty(len(splitters) + 1, np.int64)
    out = np.empty(len(keys), keys.dtype)
    _require_sorted(_kernels.distribute(keys, splitters, counts, out))
    charge("distribute", keys.itemsize, len(keys), len(splitters) + 1, len(splitters))
    return out, counts


def _checked(keys: Keys, splitters: Keys) -> tuple[Keys, Keys]:
    require_integers(keys)
    if splitters.dtype != keys.dtype:
        raise DataError(
            f"keys of dtype {keys.dtype} cannot be classified by splitters of dtype {splitters.dtype}; "
            "pass splitters of the same dtype as the keys",
            code="unsupported",
        )
    return np.ascontiguousarray(keys), np.ascontiguousarray(splitters)


def _require_sorted(is_sorted: bool) -> None:
    if not is_sorted:
        raise DataError("the splitters are not sorted; pass them in increasing order", code="not-sorted")


GRIDS: dict[str, Callable[[_Source], Iterator[GridCell]]] = {
    "code": _code,
    "sort": _sort,
    "merge": _merge,
    "merge_many": _merge_many,
    "merge_order": _merge_order,
    "count_up_to": _count_up_to,
    "digit_counts": _digit_counts,
    "scatter": _scatter,
    "scatter_few": _scatter_few,
    "classify": _splits(classify),
    "histogram": _splits(histogram),
    "distribute": _splits(distribute),
}


def packing_jobs() -> Iterator[GridCell]:
    """Yield the calls that gather and scatter every second piece of a matrix's column."""
    for size in PACKED_SIZES:
        for run in PACKED_RUNS:
            if run <= size:
                yield _packing_job(size, run)


def _packing_job(size: int, run: int) -> GridCell:
    count = size // run
    memory = np.zeros(2 * size, np.uint8)
    layout = _kernels.Layout(np.arange(count, dtype=np.int64) * (2 * run), np.full(count, run), 2 * size)
    address = int(memory.__array_interface__["data"][0])

    def call() -> object:
        layout.unpack(address, layout.pack(address, 1))
        return memory  # must live as long as its address is used

    return GridCell(size, 1, count, call)
