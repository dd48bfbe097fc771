"""Messages as the engine takes them: bytes, element size, and block sizes in elements."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from labkit.comm.buffers import Simple, Vector
from labkit.comm.collective.native import Bound

__all__ = ["block", "blocks_kept", "own_block", "single", "table"]


def block(message: Simple) -> Bound:
    """One block, or equal blocks of `message.count` elements each."""
    memory = message.memory[message.offset :] if message.offset else message.memory
    return Bound(memory, message.datatype.extent, message.count)


def table(message: Vector) -> Bound:
    """Blocks of any sizes."""
    return Bound(message.memory, message.datatype.extent, 0, message.counts, message.displs)


def single(message: Simple) -> Bound:
    """One block of a vector collective."""
    return Bound(message.memory[message.offset :], message.datatype.extent, 0, [message.count], [0])


def _copy(memory: NDArray[np.uint8], begin: int, length: int) -> NDArray[np.uint8]:
    return memory[begin : begin + length].copy()


def blocks_kept(message: Simple, first: int = 0, blocks: int = 1) -> Simple:
    """Return a copy of some of the equal blocks of a receive buffer (IN_PLACE)."""
    begin = message.offset + first * message.bytes
    return Simple(_copy(message.memory, begin, blocks * message.bytes), 0, message.count, message.datatype)


def own_block(message: Vector, rank: int) -> Simple:
    """Return a copy of a rank's own block of a vector message (IN_PLACE)."""
    extent = message.datatype.extent
    count = int(message.counts[rank])
    kept = _copy(message.memory, int(message.displs[rank]) * extent, count * extent)
    return Simple(kept, 0, count, message.datatype)
