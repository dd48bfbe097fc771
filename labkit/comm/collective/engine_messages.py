"""Messages as the engine takes them: bytes, element size, and block sizes in elements."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from labkit.comm.buffers import Simple, Vector
from labkit.comm.collective.native import Bound
from labkit.comm.handles.exceptions import Exception as MPIException

_ERR_TRUNCATE = 15

__all__ = ["block", "blocks_kept", "filled", "own_block", "single", "table"]


def block(message: Simple) -> Bound:
    """One block, or equal blocks of `message.count` elements each."""
    memory = message.memory[message.offset :] if message.offset else message.memory
    return Bound(memory, message.element_bytes, message.count)


def table(message: Vector) -> Bound:
    """Blocks of any sizes."""
    return Bound(message.memory, message.element_bytes, 0, message.counts, message.displs)


def single(message: Simple) -> Bound:
    """One block of a vector collective."""
    return Bound(message.memory[message.offset :], message.element_bytes, 0, [message.count], [0])


def _copy(memory: NDArray[np.uint8], begin: int, length: int) -> NDArray[np.uint8]:
    return memory[begin : begin + length].copy()


def blocks_kept(message: Simple, first: int = 0, blocks: int = 1) -> Simple:
    """Return a copy of some of the equal blocks of a receive buffer (IN_PLACE)."""
    begin = message.offset + first * message.bytes
    kept = _copy(message.memory, begin, blocks * message.bytes)
    return Simple(kept, 0, message.count, message.datatype, message.home)


def own_block(message: Vector, rank: int) -> Simple:
    """Return a copy of a rank's own block of a vector message (IN_PLACE)."""
    extent = message.element_bytes
    count = int(message.counts[rank])
    kept = _copy(message.memory, int(message.displs[rank]) * extent, count * extent)
    return Simple(kept, 0, count, message.datatype, message.home)


def filled(sent: Simple, own: Simple, rank: int, name: str) -> Simple:
    """Return a shorter message within a copy of the block that has room for it.

    All ranks must expect as much of a rank, not as much as it sends: with less, the rest of its block is what
    the receive buffer of that rank had there, as with algorithms of real MPI that pass whole blocks on.
    """
    if sent.bytes > own.bytes:
        raise MPIException(
            _ERR_TRUNCATE, f"{name}: rank {rank} sends {sent.bytes} bytes, all expect {own.bytes} of it"
        )
    own.memory[: sent.bytes] = sent.memory[sent.offset : sent.offset + sent.bytes]
    return own
