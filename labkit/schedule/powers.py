"""Small integer helpers that tree and hypercube algorithms share."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "backwards",
    "bine_labels",
    "ceil_log2",
    "doublings",
    "floor_power_of_two",
    "largest_divisor",
    "log_ceil",
    "mesh",
    "prime_factors",
]


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


def log_ceil(size: int, radix: int) -> int:
    """Return the smallest k with ``radix**k >= size``.

    Examples
    --------
    >>> [log_ceil(p, 3) for p in (1, 2, 3, 4, 9, 10)]
    [0, 1, 1, 2, 2, 3]
    """
    k, power = 0, 1
    while power < size:
        k, power = k + 1, power * radix
    return k


def bine_labels(size: int) -> NDArray[np.int64]:
    """Return labels under which Bine trees and butterflies are binomial trees and hypercubes.

    A number (modulo `size`, a power of two) has digits in base -2; neighbours of a Bine network differ in
    all of the lowest digits. In the Gray code of the digits that is one bit. Labels that differ in bit j
    belong to numbers ``(1 - (-2)**(j+1)) / 3`` apart, 1, 1, 3, 5, 11 ..., instead of 1, 2, 4, 8, 16 ...

    Examples
    --------
    >>> bine_labels(8)
    array([0, 1, 5, 4, 6, 7, 3, 2])
    """
    digits = np.arange(size)
    value = np.zeros(size, np.int64)
    for place in range(size.bit_length() - 1):
        value += (digits >> place & 1) * (-2) ** place
    labels = np.empty(size, np.int64)
    labels[value % size] = digits ^ digits >> 1
    return labels


def mesh(size: int, dimensions: int) -> tuple[int, ...]:
    """Return the dimensions of a mesh of `size` points, as equal as whole numbers allow, the smaller first.

    Examples
    --------
    >>> mesh(12, 2), mesh(64, 3), mesh(7, 2)
    ((3, 4), (4, 4, 4), (1, 7))
    """
    if dimensions == 1:
        return (size,)
    first = next(d for d in range(round(size ** (1 / dimensions)), 0, -1) if size % d == 0)
    return (first, *mesh(size // first, dimensions - 1))


def prime_factors(size: int) -> tuple[int, ...]:
    """Return the prime factors, in rising order.

    Examples
    --------
    >>> prime_factors(12), prime_factors(1)
    ((2, 2, 3), ())
    """
    for d in range(2, size + 1):
        if size % d == 0:
            return (d, *prime_factors(size // d))
    return ()


def backwards(dims: Sequence[int]) -> NDArray[np.int64]:
    """Return every number with its digits backwards: of radix ``dims[0]`` the highest, then the lowest one.

    Examples
    --------
    >>> backwards((2, 2, 2)), backwards((2, 3))
    (array([0, 4, 2, 6, 1, 5, 3, 7]), array([0, 2, 4, 1, 3, 5]))
    """
    return np.arange(prod(dims)).reshape(dims[::-1]).transpose().ravel()


def largest_divisor(size: int, limit: int) -> int:
    """Return the largest divisor of `size` that is not above `limit`.

    Examples
    --------
    >>> largest_divisor(12, 5)
    4
    """
    return next(d for d in range(min(limit, size), 0, -1) if size % d == 0)
