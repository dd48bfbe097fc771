"""Sorting, merging and searching: the work is done here, and the simulated machine is charged for it.

Keys may be of any dtype NumPy sorts; sorters under study pass integer codes (`labkit.local.codes`).
On a real machine and outside a run nothing is charged.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labkit import _kernels
from labkit.errors import DataError
from labkit.local.costs import calibration, charge
from labkit.local.standin import StandIn
from labkit.program.sized import Sized

__all__ = [
    "KERNELS",
    "count_up_to",
    "merge",
    "merge_order",
    "most_runs",
    "predicted_s",
    "require_integers",
    "sort",
]

#: kernel charged -> what its items are and what its logarithm is about
KERNELS = {
    "code": "n float keys turned into codes or back",
    "sort": "n keys, log2 n",
    "merge": "n keys, log2 of the runs, up to most_runs",
    "merge_many": "n keys in more runs, log2 n",
    "merge_order": "n keys, log2 of the runs",
    "count_up_to": "m limits, log2 of the keys",
    "digit_counts": "n keys, log2 of the 2**bits digits, an entry per digit",
    "scatter": "n keys, log2 of the 2**bits digits, an entry per digit",
    "scatter_few": "n keys, far fewer than the 2**16 digits",
    "classify": "n keys, log2 of the m + 1 buckets, an entry per splitter",
    "histogram": "n keys, log2 of the m + 1 buckets, an entry per splitter",
    "distribute": "n keys, log2 of the m + 1 buckets, an entry per splitter",
}

#: bytes of a key -> (least number of keys, the most runs that a tree of merges takes): with more runs NumPy's
#: SIMD sort of all keys takes less time. The crossovers are measured by benchmarks/local_kernels.py: the
#: tree's time grows with n log k, the sort's with n log n, so the longer the input the more runs pay.
_MOST_RUNS = {1: ((0, 4),), 2: ((0, 4),), 4: ((0, 4),), 8: ((0, 8), (4096, 16), (16384, 32))}

#: large sorted arrays have room for a sixteenth more keys, because an exchange changes the number a little
_ROOM, _LARGE_BYTES = 16, 1 << 20

Keys = NDArray[Any]
Counts = NDArray[np.int64]


def most_runs(itemsize: int, n: int) -> int:
    """Return the most runs that `merge` merges by a tree; it sorts again what comes in more.

    Parameters
    ----------
    itemsize : int
        Size of a key in bytes: 1, 2, 4 or 8.
    n : int
        The number of keys.

    Examples
    --------
    >>> most_runs(8, 1000), most_runs(8, 100_000)
    (8, 32)
    """
    return max(runs for keys, runs in _MOST_RUNS[itemsize] if n >= keys)


def predicted_s(kernel: str, itemsize: int, items: int, log_of: int = 1, entries: int = 0) -> float:
    """Return what one call costs on the calibrated machine, in seconds.

    Parameters
    ----------
    kernel : str
        One of `KERNELS`, which describes what `items` and `log_of` are for it.
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
    if isinstance(keys, StandIn):
        return keys.sorted()
    room = len(keys) // _ROOM if keys.nbytes >= _LARGE_BYTES else 0
    made = np.empty(len(keys) + room, keys.dtype)[: len(keys)]
    np.copyto(made, keys)
    made.sort(kind=_kind(keys))
    return made


def merge(keys: Keys, lengths: ArrayLike, out: Keys | None = None) -> Keys:
    """Merge sorted runs that lie one after the other into one sorted array.

    Parameters
    ----------
    keys : ndarray, shape (n,)
        The runs, in order; each is sorted.
    lengths : array_like of int, shape (k,)
        The length of each run, which may be 0; their sum is n.
    out : ndarray, shape (m,), optional
        An array that is no longer needed, such as what `sort` returned: the result takes its memory if it
        fits, which saves the first touch of new memory.

    Returns
    -------
    ndarray, shape (n,)

    Raises
    ------
    DataError
        If the lengths are not those of the keys, or a run turns out not to be sorted. (Not every unsorted run
        is found out; the result then is some order of the keys.)

    Notes
    -----
    Up to `most_runs` runs are merged by a tree of two-way merges: about n log2(k) steps. More runs are
    sorted again, which costs n log2(n) steps of a SIMD sort, whatever k: it is faster from there on, and is
    charged as the kernel ``merge_many``. On a simulated core with derived costs the tree is charged for more
    runs, too, as long as it is the cheaper one there: older cores have no SIMD sort.
    """
    counts = _as_counts(lengths)
    if isinstance(keys, StandIn):
        _charge_merge(keys, int(np.count_nonzero(counts)))
        return keys
    if keys.dtype.kind in "iu" and keys.dtype.isnative:
        keys = np.ascontiguousarray(keys)
        made = _memory(out, keys)
        most = most_runs(keys.itemsize, len(keys))
        runs = _kernels.merge_runs(keys, counts, made, most)
        _require_runs(runs, keys, counts)
        _charge_merge(keys, runs)
        return made if runs <= most else _sorted(keys)
    # floats have NaNs, which no comparison of two keys puts in order
    _require_runs(0 if int(counts.sum()) == len(keys) else -1, keys, counts)
    charge("merge_many", keys.itemsize, len(keys), len(keys))
    return _sorted(keys)


def _charge_merge(keys: Keys, runs: int) -> None:
    """Charge a tree of merges, or a sort where that is faster."""
    n, size, tree = len(keys), keys.itemsize, max(runs, 1)
    table = calibration()
    is_tree = runs <= most_runs(size, n) or (
        table.is_derived and table.seconds("merge", size, n, tree) <= table.seconds("merge_many", size, n, n)
    )
    charge("merge" if is_tree else "merge_many", size, n, tree if is_tree else n)


def merge_order(keys: Keys, lengths: Counts) -> NDArray[np.int64]:
    """Return the order in which `merge` would take the keys: ``keys[order]`` is sorted, ties by position.

    Parameters
    ----------
    keys, lengths
        As for `merge`; keys are integers.

    Returns
    -------
    ndarray of int64, shape (n,)

    Raises
    ------
    DataError
        As for `merge`, and if the keys are no integers.
    """
    require_integers(keys)
    lengths = _as_counts(lengths)
    order = np.empty(len(keys), np.int64)
    runs = _kernels.merge_order(np.ascontiguousarray(keys), lengths, order)
    _require_runs(runs, keys, lengths)
    charge("merge_order", keys.itemsize, len(keys), max(runs, 1))
    return order


def count_up_to(keys: Keys, limits: Keys, including: NDArray[np.bool_] | bool) -> Counts:
    """Count, for every limit, the sorted keys below it (and those equal to it where `including`).

    Parameters
    ----------
    keys : ndarray, shape (n,)
        Sorted.
    limits : ndarray, shape (m,)
        Of the keys' dtype, in any order.
    including : bool, or ndarray of bool, shape (m,)
        Whether keys equal to the limit count too.

    Returns
    -------
    ndarray of int64, shape (m,)
    """
    charge("count_up_to", keys.itemsize, len(limits), max(len(keys), 2))
    if isinstance(keys, StandIn):
        return keys.count_up_to(limits, including)
    if keys.dtype.kind not in "iu" or not keys.dtype.isnative or limits.dtype != keys.dtype:
        return _searched(keys, limits, np.broadcast_to(including, limits.shape))
    counts = np.empty(len(limits), np.int64)
    flags = including if isinstance(including, bool) else np.ascontiguousarray(including, bool).view(np.uint8)
    _kernels.count_up_to(np.ascontiguousarray(keys), np.ascontiguousarray(limits), flags, counts)
    return counts


def _searched(keys: Keys, limits: Keys, including: NDArray[np.bool_]) -> Counts:
    counts = np.searchsorted(keys, limits, side="left")
    counts[including] = np.searchsorted(keys, limits[including], side="right")
    return counts.astype(np.int64, copy=False)


def require_integers(keys: Keys) -> None:
    """Refuse keys that the compiled kernels do not take: anything but integers of this machine."""
    if isinstance(keys, Sized):
        raise DataError(f"this kernel needs every key, and {keys!r} has none", code="unsupported")
    dtype = keys.dtype
    if dtype.kind not in "iu" or not dtype.isnative:
        raise DataError(
            f"this kernel takes integer keys in native byte order, got {dtype}; pass codes: to_codes(keys)",
            code="wrong-type",
        )


def _as_counts(lengths: ArrayLike) -> Counts:
    return np.ascontiguousarray(lengths, np.int64)


def _kind(keys: Keys) -> Literal["stable"] | None:
    # NumPy's default has no SIMD for single bytes; its stable sort counts them, 30 times faster.
    return "stable" if keys.itemsize == 1 else None


def _sorted(keys: Keys) -> Keys:
    return np.sort(keys, kind=_kind(keys))


def _memory(unneeded: Keys | None, keys: Keys) -> Keys:
    """Return an array for as many keys: in the memory of one that is not needed any more, or a new one."""
    if unneeded is not None and unneeded.dtype == keys.dtype and unneeded.flags.c_contiguous:
        whole, n = unneeded.base, len(unneeded)
        if (
            isinstance(whole, np.ndarray)
            and unneeded.nbytes >= _LARGE_BYTES
            and len(whole) == n + n // _ROOM
            and whole.ctypes.data == unneeded.ctypes.data
        ):
            unneeded = whole  # what `sort` made
        if unneeded.flags.writeable and len(unneeded) >= len(keys):
            return unneeded[: len(keys)]
    return np.empty(len(keys), keys.dtype)


def _require_runs(runs: int, keys: Keys, lengths: Counts) -> None:
    if runs == -1 and lengths.size and int(lengths.min()) < 0:
        raise DataError(f"a run cannot have {int(lengths.min())} keys; lengths are >= 0", code="out-of-range")
    if runs == -1:
        raise DataError(
            f"the runs' lengths add up to {int(lengths.sum())}, but there are {len(keys)} keys",
            code="count-mismatch",
        )
    if runs == -2:
        raise DataError(
            "a run is not sorted; merging takes sorted runs, one after the other", code="not-sorted"
        )
