"""Kernels of splitter-based sorts: find the bucket of every key, without sorting the keys.

Sorted splitters s[0] <= ... <= s[m-1] make m + 1 buckets: bucket j holds the keys x with s[j-1] < x <= s[j].
So a key goes to the bucket that is numbered by how many splitters are below it. Of keys that are sorted
already, `count_up_to` finds the buckets' bounds at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit import _kernels
from labkit.errors import DataError
from labkit.local.costs import charge
from labkit.local.work import require_integers

__all__ = ["classify", "distribute", "histogram"]

Keys = NDArray[Any]
Counts = NDArray[np.int64]


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
            "pass splitters of the same dtype as the keys"
        )
    return np.ascontiguousarray(keys), np.ascontiguousarray(splitters)


def _require_sorted(is_sorted: bool) -> None:
    if not is_sorted:
        raise DataError("the splitters are not sorted; pass them in increasing order")
