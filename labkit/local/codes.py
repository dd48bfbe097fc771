"""Keys as integers whose order is the keys' order.

A sorter that works on integer codes needs no case for NaN, for signed zeros or for a missing value: the
codes of all keys of a dtype are totally ordered, equal codes are equal bit patterns, and every bit pattern
comes back unchanged. The order is NumPy's, made total:

- numbers in increasing order, ``-0.0`` directly before ``0.0`` (which NumPy calls equal);
- every NaN after every number, whatever its sign; NaNs among themselves by their bits.

So sorted output is unique to the last bit, and stability is not a question: equal keys are identical.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError
from labkit.local.costs import charge

__all__ = ["KEY_KINDS", "decode", "encode", "from_codes", "is_sortable", "to_codes"]

#: `numpy.dtype.kind` of the keys that can be coded: bool, signed, unsigned, float (16, 32 and 64 bits)
KEY_KINDS = "biuf"

Keys = NDArray[Any]


def is_sortable(dtype: np.dtype[np.generic]) -> bool:
    """Whether keys of this dtype have codes: bool, integers, and floats of at most 64 bits."""
    return dtype.kind in KEY_KINDS and dtype.itemsize <= 8


def to_codes(keys: Keys) -> Keys:
    """Turn keys into integers of the same size and order.

    Parameters
    ----------
    keys : ndarray, shape (n_local,)
        Keys of a dtype that `is_sortable`, in native byte order.

    Returns
    -------
    ndarray, shape (n_local,)
        For integers the keys themselves (no copy), for bool a view as uint8, for floats new unsigned codes.

    Raises
    ------
    DataError
        If the dtype has no codes.

    Examples
    --------
    >>> import numpy as np
    >>> keys = np.array([np.nan, 0.0, -0.0, -np.inf, 1.5])
    >>> from_codes(np.sort(to_codes(keys)), keys.dtype)
    array([-inf, -0. ,  0. ,  1.5,  nan])
    """
    if keys.dtype.kind == "f":
        charge("code", keys.itemsize, len(keys))
    return encode(keys)


def from_codes(codes: Keys, dtype: np.dtype[np.generic]) -> Keys:
    """Turn codes back into the keys they came from, bit for bit (`to_codes`).

    Parameters
    ----------
    codes : ndarray, shape (n_local,)
        What `to_codes` gave, in any order.
    dtype : dtype
        The keys' dtype.

    Returns
    -------
    ndarray, shape (n_local,)
    """
    if dtype.kind == "f":
        charge("code", codes.itemsize, len(codes))
    return decode(codes, dtype)


def encode(keys: Keys) -> Keys:
    """`to_codes` without a charge, for instruments."""
    _require_sortable(keys.dtype)
    if keys.dtype.kind in "iu":
        return keys
    bits = np.ascontiguousarray(keys).view(f"u{keys.dtype.itemsize}")
    if keys.dtype.kind == "b":
        return bits
    sign, negative_nans = _float_constants(keys.dtype)
    # Negative numbers run backwards: flip all their bits; the others only move up. Then rotate the ring
    # of codes so that the negative NaNs, which came out lowest, come last.
    codes: Keys = (bits ^ (_all_ones_where_signed(bits) | sign)) - negative_nans
    return codes


def decode(codes: Keys, dtype: np.dtype[np.generic]) -> Keys:
    """`from_codes` without a charge, for instruments."""
    _require_sortable(dtype)
    if dtype.kind in "iu":
        return codes
    if dtype.kind == "b":
        return codes.view(np.bool_)
    sign, negative_nans = _float_constants(dtype)
    rotated = codes + negative_nans
    keys: Keys = (rotated ^ (~_all_ones_where_signed(rotated) | sign)).view(dtype)
    return keys


def _all_ones_where_signed(bits: Keys) -> Keys:
    """Spread the top bit over the whole integer (an arithmetic shift; three times as fast as np.where)."""
    signed = bits.view(f"i{bits.itemsize}")
    return (signed >> (8 * bits.itemsize - 1)).view(bits.dtype)


def _require_sortable(dtype: np.dtype[np.generic]) -> None:
    if not is_sortable(dtype):
        raise DataError(
            f"keys of dtype {dtype} cannot be sorted; allowed are bool, integers of 8 to 64 bits and floats "
            "of 16 to 64 bits; convert the keys with .astype(...)",
            code="wrong-type",
        )


@lru_cache
def _float_constants(dtype: np.dtype[Any]) -> tuple[object, object]:
    """Return the sign bit, and the number of NaNs with that bit set, as scalars of the codes' dtype."""
    unsigned = np.dtype(f"u{dtype.itemsize}").type
    mantissa_bits = np.finfo(dtype).nmant
    return unsigned(1 << (8 * dtype.itemsize - 1)), unsigned((1 << mantissa_bits) - 1)
