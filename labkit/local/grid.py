"""The inputs on which the node-local kernels are measured: every kernel over a grid of sizes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit import _kernels
from labkit.local import buckets, digits, work
from labkit.local.codes import to_codes

__all__ = ["Job", "jobs", "packing_jobs"]

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


class Job(NamedTuple):
    """One cell of the grid: the numbers of the cost formula, and the work that is timed."""

    items: int
    log_of: int
    entries: int
    call: Callable[[], object]


def jobs(kernel: str, itemsize: int) -> Iterator[Job]:
    """Yield the grid of one kernel for keys of one size.

    Parameters
    ----------
    kernel : str
        One of `labkit.local.KERNELS`.
    itemsize : int
        Bytes of a key.
    """
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
    function: Callable[..., object], n: int, make: Callable[[], tuple[Any, ...]]
) -> Callable[[], object]:
    """Call `function` on many different inputs of n keys, one after the other.

    One small input, repeated, teaches the branch predictor its comparisons: merging looks 3 times faster.
    """
    inputs = itertools.cycle([make() for _ in range(max(1, DIFFERENT_KEYS // n))])
    return lambda: function(*next(inputs))


def _code(source: _Source) -> Iterator[Job]:
    for n in SIZES:
        yield Job(n, 1, 0, _cycled(to_codes, n, partial(source.floats, n)))


def _sort(source: _Source) -> Iterator[Job]:
    for n in SIZES:
        yield Job(n, n, 0, _cycled(work.sort, n, partial(source.only_codes, n)))


def _merge(source: _Source) -> Iterator[Job]:
    for n, k in itertools.product(SIZES, RUNS):
        if k <= min(n // 4, work.most_runs(source.itemsize, n)):
            yield Job(n, k, 0, _cycled(work.merge, n, partial(source.runs, n, k)))


def _merge_many(source: _Source) -> Iterator[Job]:
    for n, k in itertools.product(SIZES, (16, *MANY_RUNS)):
        if work.most_runs(source.itemsize, n) < k <= n // 4:
            yield Job(n, n, 0, _cycled(work.merge, n, partial(source.runs, n, k)))


def _merge_order(source: _Source) -> Iterator[Job]:
    for n, k in itertools.product(SIZES, RUNS + MANY_RUNS):
        if k <= n // 4:
            yield Job(n, k, 0, _cycled(work.merge_order, n, partial(source.runs, n, k)))


def _count_up_to(source: _Source) -> Iterator[Job]:
    def make(n: int, m: int) -> tuple[Any, ...]:
        return np.sort(source.codes(n)), np.sort(source.codes(m)), np.arange(m) % 2 == 0

    for n, m in itertools.product(SIZES[2:-1], LIMITS):
        yield Job(m, n, 0, _cycled(work.count_up_to, n, partial(make, n, m)))


def _digit_counts(source: _Source) -> Iterator[Job]:
    for n, bits in _digit_sizes(source):
        make = lambda n=n, bits=bits: (source.codes(n), 0, bits)  # noqa: E731
        yield Job(n, 1 << bits, 1 << bits, _cycled(digits.digit_counts, n, make))


def _scatter(source: _Source) -> Iterator[Job]:
    for n, bits in _digit_sizes(source):
        if not digits.is_few(n, bits):
            yield Job(n, 1 << bits, 1 << bits, _scatter_call(source, n, bits))


def _scatter_few(source: _Source) -> Iterator[Job]:
    bits = digits.MOST_DIGIT_BITS
    for n in SIZES:
        if digits.is_few(n, bits):
            yield Job(n, 1, 0, _scatter_call(source, n, bits))


def _scatter_call(source: _Source, n: int, bits: int) -> Callable[[], object]:
    def make() -> tuple[Any, ...]:
        keys = source.codes(n)
        return keys, digits.digit_counts(keys, 0, bits), 0, bits

    # Many tables of counts would be measured as misses of the cache, which a rank's one table is not.
    return _cycled(digits.scatter, max(n, 1 << bits), make)


def _digit_sizes(source: _Source) -> Iterator[tuple[int, int]]:
    return ((n, bits) for n, bits in itertools.product(SIZES, DIGIT_BITS) if bits <= 8 * source.itemsize)


def _splits(function: Callable[..., object]) -> Callable[[_Source], Iterator[Job]]:
    def grid(source: _Source) -> Iterator[Job]:
        for n, m in itertools.product(SIZES, SPLITTERS):
            make = lambda n=n, m=m: (source.codes(n), np.sort(source.codes(m)))  # noqa: E731
            yield Job(n, m + 1, m, _cycled(function, n, make))

    return grid


GRIDS: dict[str, Callable[[_Source], Iterator[Job]]] = {
    "code": _code,
    "sort": _sort,
    "merge": _merge,
    "merge_many": _merge_many,
    "merge_order": _merge_order,
    "count_up_to": _count_up_to,
    "digit_counts": _digit_counts,
    "scatter": _scatter,
    "scatter_few": _scatter_few,
    "classify": _splits(buckets.classify),
    "histogram": _splits(buckets.histogram),
    "distribute": _splits(buckets.distribute),
}


def packing_jobs() -> Iterator[Job]:
    """Yield the calls that gather and scatter every second piece of a matrix's column."""
    for size in PACKED_SIZES:
        for run in PACKED_RUNS:
            if run <= size:
                yield _packing_job(size, run)


def _packing_job(size: int, run: int) -> Job:
    count = size // run
    memory = np.zeros(2 * size, np.uint8)
    layout = _kernels.Layout(np.arange(count, dtype=np.int64) * (2 * run), np.full(count, run), 2 * size)
    address = int(memory.__array_interface__["data"][0])

    def call() -> object:
        layout.unpack(address, layout.pack(address, 1))
        return memory  # must live as long as its address is used

    return Job(size, 1, count, call)
