"""The right result of a sort, by NumPy's comparisons alone: for tests of sorters, codes and checkers.

It shares nothing with `labkit.local.codes` or `labkit.algorithms.sort_checker`, so that a mistake in one of
them shows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["require_sorted", "sorted_totally"]

Keys = NDArray[Any]


def sorted_totally(keys: Keys) -> Keys:
    """Sort keys in NumPy's order made total: the only right result, to the last bit.

    Parameters
    ----------
    keys : ndarray, shape (n,)

    Returns
    -------
    ndarray, shape (n,)
        Numbers in increasing order, -0.0 before 0.0, then the NaNs: positive ones with growing bits, then
        negative ones with shrinking bits.

    Examples
    --------
    >>> import numpy as np
    >>> sorted_totally(np.array([np.nan, 0.0, 1.0, -0.0, -np.inf]))
    array([-inf,  -0.,   0.,   1.,  nan])
    """
    if keys.dtype.kind != "f":
        return np.sort(keys)
    bits = keys.view(f"u{keys.itemsize}")
    is_nan, is_negative = np.isnan(keys), np.signbit(keys)
    numbers = np.where(is_nan, keys.dtype.type(0), keys)
    payloads = np.where(is_nan, np.where(is_negative, ~bits, bits), bits.dtype.type(0))
    return keys[np.lexsort((payloads, np.where(is_nan, is_negative, ~is_negative), numbers, is_nan))]


def require_sorted(given: list[Keys], result: list[Keys], what: object = "") -> None:
    """Compare the blocks of all ranks, before and after, bit by bit.

    Parameters
    ----------
    given, result : list of ndarray
        Each rank's keys, and each rank's block of the result.
    what : object
        Words for the message.

    Raises
    ------
    AssertionError
        If a block has another dtype or shape, or any bit is wrong.
    """
    dtypes = {block.dtype for block in [*given, *result]}
    assert len(dtypes) == 1, f"{what}: dtypes {dtypes}"
    assert all(block.ndim == 1 for block in result), f"{what}: not one-dimensional"
    expected, found = sorted_totally(np.concatenate(given)), np.concatenate(result)
    bits = f"u{expected.itemsize}"
    np.testing.assert_array_equal(found.view(bits), expected.view(bits), err_msg=str(what))
