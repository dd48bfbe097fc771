"""The kernels: NumPy does the work, the simulated machine is charged for it.

Keys may be of any dtype NumPy sorts; sorters under study pass integer codes (`labkit.local.codes`).
On a real machine and outside a run nothing is charged.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError
from labkit.local.calibration import calibration, charge

__all__ = ["KERNELS", "count_up_to", "merge", "merge_order", "predicted_s", "sort"]

#: kernel charged -> what its items are and what its logarithm is about
KERNELS = {
    "code": "n float keys turned into codes or back",
    "sort": "n keys, log2 n",
    "merge": "n keys, log2 of the runs",
    "merge_order": "n keys, log2 of the runs",
    "count_up_to": "m limits, log2 of the keys",
    "digit_counts": "n keys, log2 of the 2**bits digits, an entry per digit",
    "scatter": "n keys, log2 of the 2**bits digits, an entry per digit",
    "classify": "n keys, log2 of the m + 1 buckets, an entry per splitter",
    "histogram": "n keys, log2 of the m + 1 buckets, an entry per splitter",
    "distribute": "n keys, log2 of the m + 1 buckets, an entry per splitter",
}

Keys = NDArray[Any]
Counts = NDArray[np.int64]


def predicted_s(kernel: str, itemsize: int, items: int, log_of: int = 1, entries: int = 0) -> float:
    """Return what one call costs on the calibrated machine, in seconds.

    Parameters
    ----------
    kernel : str
        One of `KERNELS`, which says what `items` and `log_of` are for it.
    itemsize : int
        Size of a key in bytes: 1, 2, 4 or 8.
    items, log_of, entries : int
        The numbers in the cost formula.
    """
    return calibration().seconds(kernel, itemsize, items, log_of, entries)


def sort(keys: Keys) -> Keys:
    """Sort keys into a new array.

    Parameters
    ----------
    keys : ndarray, shape (n,)

    Returns
    -------
    ndarray, shape (n,)
    """
    charge("sort", keys.itemsize, len(keys), len(keys))
    # NumPy's default has no SIMD for single bytes; its stable sort counts them, 30 times faster.
    return np.sort(keys, kind="stable" if keys.itemsize == 1 else None)


def merge(keys: Keys, lengths: Counts) -> Keys:
    """Merge sorted runs that lie one after the other into one sorted array.

    Parameters
    ----------
    keys : ndarray, shape (n,)
        The runs, in order; each is sorted.
    lengths : ndarray of int, shape (k,)
        The length of each run, which may be 0; their sum is n.

    Returns
    -------
    ndarray, shape (n,)

    Notes
    -----
    NumPy's stable sort finds the runs and merges them: about n log2(k) comparisons. Sorting anew with SIMD
    instructions can be faster from about 8 runs on; this kernel stays a merge, so that its cost grows as
    the merge step of the literature's sorters does.
    """
    charge("merge", keys.itemsize, len(keys), _runs(keys, lengths))
    return np.sort(keys, kind="stable")


def merge_order(keys: Keys, lengths: Counts) -> NDArray[np.int64]:
    """Return the order in which `merge` would take the keys: ``keys[order]`` is sorted, ties by position.

    Parameters
    ----------
    keys, lengths
        As for `merge`.

    Returns
    -------
    ndarray of int, shape (n,)
    """
    charge("merge_order", keys.itemsize, len(keys), _runs(keys, lengths))
    return np.argsort(keys, kind="stable").astype(np.int64, copy=False)


def count_up_to(keys: Keys, limits: Keys, including: NDArray[np.bool_]) -> Counts:
    """Count, for every limit, the sorted keys below it (and those equal to it where `including`).

    Parameters
    ----------
    keys : ndarray, shape (n,)
        Sorted.
    limits : ndarray, shape (m,)
        Of the keys' dtype.
    including : ndarray of bool, shape (m,)
        Whether keys equal to the limit count too.

    Returns
    -------
    ndarray of int64, shape (m,)
    """
    charge("count_up_to", keys.itemsize, len(limits), max(len(keys), 2))
    counts = np.searchsorted(keys, limits, side="left")
    counts[including] = np.searchsorted(keys, limits[including], side="right")
    return counts.astype(np.int64, copy=False)


def _runs(keys: Keys, lengths: Counts) -> int:
    if (total := int(np.sum(lengths))) != len(keys):
        raise DataError(f"the runs' lengths add up to {total}, but there are {len(keys)} keys")
    return max(int(np.count_nonzero(lengths)), 1)
