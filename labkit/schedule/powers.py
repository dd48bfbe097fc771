"""Small integer helpers that tree and hypercube algorithms share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["ceil_log2", "doublings", "floor_power_of_two", "subtree_sizes"]


def doublings(size: int) -> list[int]:
    """Return 1, 2, 4, ... below `size`: the distances of a tree or of recursive doubling.

    Examples
    --------
    >>> doublings(6)
    [1, 2, 4]
    """
    return [1 << k for k in range(ceil_log2(size))]


def ceil_log2(size: int) -> int:
    """Return the smallest k with ``2**k >= size``."""
    return (size - 1).bit_length()


def floor_power_of_two(size: int) -> int:
    """Return the largest power of two that is not above `size` (at least 1)."""
    return 1 << (size.bit_length() - 1)


def subtree_sizes(number: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return the sizes of the subtrees of a binomial tree over 0..size-1, rooted at 0.

    Examples
    --------
    >>> subtree_sizes(np.arange(6), 6)
    array([6, 1, 2, 1, 2, 1])
    """
    lowest_bit = np.where(number == 0, size, number & -number)
    return np.minimum(lowest_bit, size - number)
