"""Kernels of radix sorts: count the digits of keys, and bring keys into the order of one digit.

A digit is `bits` bits of a key, from bit `shift` upwards, read so that digits are ordered as the keys are:
a signed key's top bit is turned around. Keys are integers; codes (`labkit.local.to_codes`) make integers of
floats.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit import _kernels
from labkit.errors import DataError
from labkit.local.costs import charge
from labkit.local.standin import StandIn
from labkit.local.work import require_integers

__all__ = ["MOST_DIGIT_BITS", "digit_counts", "partition", "scatter"]

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
        raise DataError("the counts do not belong to these keys; pass the result of digit_counts(keys)")
    return out


def is_few(n: int, bits: int) -> bool:
    """Whether n keys are so few that `scatter` orders them by halves of a digit of `bits` bits."""
    return 1 << bits >= max(_LARGE_TABLE, _DIGITS_PER_KEY * n)


def _scattered_by_table(keys: Keys, counts: Counts, shift: int, bits: int) -> Keys | None:
    """Return the keys in the order of their digits; None if the counts are not theirs."""
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
    """Whether these are the counts of the digits of keys in their order: so many of each, and no others."""
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
            f"allowed are 1 to {MOST_DIGIT_BITS} bits from a bit of the key"
        )
