"""Sections: which blocks of which buffer an operation touches.

A buffer is a sequence of ``n`` blocks whose sizes are bound at run time. A section names the blocks

    ``(first + i*stride + j) mod n``   with ``0 <= j < run`` and ``i*stride + j < length``,

in that order. One form covers what collective algorithms need: one block, a contiguous range, a range
that wraps around, every second pair of blocks (Bruck), and all blocks backwards (stride ``n - 1``).
Every field is a number, or an array with one entry per rank of the group that is being described.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["ALL", "Ints", "Section", "block", "block_indices", "blocks", "whole"]

Ints = int | NDArray[np.int64]

#: ``length`` of a section that spans its whole buffer, however many blocks that has.
ALL = -1


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks of a named buffer; see the module's text for the rule.

    Parameters
    ----------
    buffer : str
        Name of the buffer.
    first, length, run, stride : int or array of shape (n_ranks,)
        The rule's numbers; ``run = 0`` means contiguous (one run of ``length`` blocks).
    """

    buffer: str
    first: Ints = 0
    length: Ints = 1
    run: Ints = 0
    stride: Ints = 1


def block(buffer: str, index: Ints = 0) -> Section:
    """Return the section of one block (index taken modulo the number of blocks)."""
    return Section(buffer, first=index)


def blocks(buffer: str, first: Ints, length: Ints, run: Ints = 0, stride: Ints = 1) -> Section:
    """Return a section of several blocks: contiguous, or runs of `run` every `stride` blocks."""
    return Section(buffer, first, length, run, stride)


def whole(buffer: str) -> Section:
    """Return the section of all blocks of a buffer, in order."""
    return Section(buffer, 0, ALL)


def block_indices(first: int, length: int, run: int, stride: int, n_blocks: int) -> NDArray[np.int64]:
    """Return the block numbers of one section, in order.

    Examples
    --------
    >>> block_indices(3, 4, 0, 1, 5)
    array([3, 4, 0, 1])
    >>> block_indices(2, 6, 2, 4, 8)
    array([2, 3, 6, 7])
    """
    if length == ALL:
        length = n_blocks
    if n_blocks == 0 or length <= 0:
        return np.empty(0, np.int64)
    if run <= 0:
        return np.asarray((first + np.arange(length)) % n_blocks, np.int64)
    offsets = np.arange(0, length, stride)[:, None] + np.arange(run)[None, :]
    return np.asarray((first + offsets[offsets < length]) % n_blocks, np.int64)
