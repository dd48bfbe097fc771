"""The native node-local kernels next to the NumPy calls that do the same, in one run, on random 64-bit keys.

Bias: both sides are called from Python and make their outputs; each works through many different inputs,
since one small input teaches the branch predictor its comparisons; least of several samples, the two sides
taking turns. Ratios below 1 mean that the native kernel is faster. The second table is where the thresholds
of `labkit.local.most_runs` come from, the third those of `labkit.local.scatter`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from labkit import _kernels, local

SAMPLES, KEYS_PER_SAMPLE = 7, 1 << 17
BITS = 8
Inputs = tuple[Any, ...]


def times_us(sides: Sequence[Callable[..., object]], make: Callable[[], Inputs], n: int) -> list[float]:
    """Return the least microseconds of a call of each side, on inputs of n keys."""
    inputs = [make() for _ in range(max(1, min(200, KEYS_PER_SAMPLE // n)))]
    best = [float("inf")] * len(sides)
    for _ in range(SAMPLES):
        for i, side in enumerate(sides):
            begin = time.perf_counter()
            for arguments in inputs:
                side(*arguments)
            best[i] = min(best[i], (time.perf_counter() - begin) / len(inputs) * 1e6)
    return best


class Keys:
    """Random inputs, the same in every run."""

    def __init__(self, itemsize: int = 8) -> None:
        self.itemsize = itemsize
        self.bits = np.random.PCG64(1)

    def codes(self, n: int) -> Any:
        shift = np.uint64(64 - 8 * self.itemsize)
        return (self.bits.random_raw(n) >> shift).astype(f"u{self.itemsize}")

    def runs(self, n: int, k: int) -> Inputs:
        parts = [np.sort(part) for part in np.array_split(self.codes(n), k)]
        return np.concatenate(parts), np.array([len(part) for part in parts])

    def splitters(self, n: int, m: int) -> Inputs:
        return self.codes(n), np.sort(self.codes(m))

    def digits(self, n: int, bits: int) -> Inputs:
        keys = self.codes(n)
        return keys, local.digit_counts(keys, 0, bits), 0, bits


def digit(keys: Any, bits: int) -> Any:
    return (keys & keys.dtype.type((1 << bits) - 1)).astype(np.uint16)


def numpy_distribute(keys: Any, splitters: Any) -> Inputs:
    buckets = np.searchsorted(splitters, keys).astype(np.uint16)
    return keys[np.argsort(buckets, kind="stable")], np.bincount(buckets, minlength=len(splitters) + 1)


def cases(keys: Keys, n: int) -> list[tuple[str, Callable[..., object], Callable[..., object], Any]]:
    """Return name, native kernel, NumPy's calls and the maker of inputs."""
    m = 255
    return [
        ("merge, 2 runs", local.merge, lambda x, _: np.sort(x), lambda: keys.runs(n, 2)),
        ("merge, 8 runs", local.merge, lambda x, _: np.sort(x), lambda: keys.runs(n, 8)),
        (
            "merge_order, 8 runs",
            local.merge_order,
            lambda x, _: np.argsort(x, kind="stable"),
            lambda: keys.runs(n, 8),
        ),
        (
            "digit_counts, 8 bits",
            local.digit_counts,
            lambda x, _, bits: np.bincount(digit(x, bits), minlength=1 << bits),
            lambda: (keys.codes(n), 0, BITS),
        ),
        (
            "scatter, 8 bits",
            local.scatter,
            lambda x, _counts, _shift, bits: x[np.argsort(digit(x, bits), kind="stable")],
            lambda: keys.digits(n, BITS),
        ),
        (
            "classify, 255 splitters",
            local.classify,
            lambda x, s: np.searchsorted(s, x),
            lambda: keys.splitters(n, m),
        ),
        (
            "histogram, 255 splitters",
            local.histogram,
            lambda x, s: np.bincount(np.searchsorted(s, x), minlength=m + 1),
            lambda: keys.splitters(n, m),
        ),
        ("distribute, 255 splitters", local.distribute, numpy_distribute, lambda: keys.splitters(n, m)),
    ]


def sort_anew(keys: Any, lengths: Any) -> Any:
    """Check the runs as `labkit.local.merge` does, then sort."""
    _kernels.merge_runs(keys, lengths, np.empty_like(keys), 1)
    return np.sort(keys, kind="stable" if keys.itemsize == 1 else None)


def tree(keys: Any, lengths: Any) -> Any:
    out = np.empty_like(keys)
    _kernels.merge_runs(keys, lengths, out, len(lengths))
    return out


def by_table(keys: Any, counts: Any, shift: int, bits: int) -> Any:
    out = np.empty_like(keys)
    _kernels.scatter_by_digit(keys, shift, bits, counts, out)
    return out


def main() -> None:
    """Print the tables."""
    for n in (1000, 65536):
        for name, native, numpy, make in cases(Keys(), n):
            ours, theirs = times_us([native, numpy], make, n)
            print(f"{name:26} n {n:6}: {ours:8.1f} us, NumPy {theirs:8.1f} us, ratio {ours / theirs:5.2f}")
    print("\nmerge: time of the tree of merges over that of sorting anew, by runs (* what local.merge takes)")
    for itemsize in (1, 2, 4, 8):
        for n in (250, 1000, 4096, 16384, 65536):
            row = []
            for k in (2, 4, 8, 16, 32):
                ours, theirs = times_us([tree, sort_anew], partial(KEYS[itemsize].runs, n, k), n)
                mark = "*" if k <= local.most_runs(itemsize, n) else " "
                row.append(f"{k:3}: {ours / theirs:5.2f}{mark}")
            print(f"{itemsize} bytes, n {n:6}  " + "  ".join(row))
    print("\nscatter: time of the kernel by a table of digits over that of local.scatter")
    for bits, n in ((12, 64), (14, 64), (15, 64), (16, 64), (16, 1000), (16, 4096), (16, 16384)):
        ours, theirs = times_us(
            [by_table, local.scatter], lambda n=n, b=bits: KEYS[8].digits(n, b), 1 << bits
        )
        print(f"{bits} bits, n {n:6}: {ours:6.1f} us / {theirs:6.1f} us = {ours / theirs:5.2f}")


KEYS = {itemsize: Keys(itemsize) for itemsize in (1, 2, 4, 8)}

if __name__ == "__main__":
    main()
