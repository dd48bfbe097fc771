"""Collectives on buffers: each call becomes one run of a schedule by the engine.

Every rank enters when it gets there; the first one chooses the algorithm, the others must agree with it in
what MPI wants to be the same everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from labkit.comm.buffers import Simple, Vector, parse_simple, parse_vector, parse_vector_w
from labkit.comm.collective.binding import block, blocks_kept, own_block, single, table
from labkit.comm.collective.native import ANYTHING, Call, perform
from labkit.comm.collective.quick import quick, quick_own_block
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.special import is_in_place

__all__ = ["BufferCollectives"]

#: what a rank that is not the root hands in for a buffer that only the root has
_NONE = ANYTHING


class BufferCollectives:
    """The upper-case collectives of a communicator that move data."""

    rank: int
    size: int

    def _check_root(self, root: int) -> bool:
        """Refuse a root outside the communicator; whether this rank is it."""
        if not 0 <= root < self.size:
            raise MPIException(
                8, f"root={root} is not a rank of this communicator, which has ranks 0 to {self.size - 1}"
            )
        return self.rank == root

    @quick
    def Barrier(self) -> None:
        """Wait until every rank is here."""
        perform(self, Call("barrier", "Barrier"))

    @quick
    def Bcast(self, buf: Any, root: int = 0) -> None:
        """Send the root's buffer to everybody."""
        perform(self, self._bcast("Bcast", buf, root))

    def _bcast(self, name: str, buf: Any, root: int) -> Call:
        is_root = self._check_root(root)
        message = parse_simple(buf, not is_root)
        call = Call("bcast", name, root, {"root": root, "bytes": message.bytes}, message.bytes)
        call.buffers = (block(message),)
        call.is_split = True
        return call

    # --- gather, scatter --------------------------------------------------------------------------

    @quick_own_block
    def Gather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Collect a block of every rank at the root."""
        perform(self, self._gather("Gather", sendbuf, recvbuf, root))

    def _gather(self, name: str, sendbuf: Any, recvbuf: Any, root: int) -> Call:
        is_root = self._check_root(root)
        received = parse_simple(recvbuf, True, self.size) if is_root else None
        if is_root and received is not None and is_in_place(sendbuf):
            sent = blocks_kept(received, self.rank)
        else:
            sent = parse_simple(sendbuf, False)
        self._agree_block(sent, received)
        call = Call("gather", name, root, {"root": root, "bytes": sent.bytes}, sent.bytes)
        call.buffers = (block(sent), _NONE if received is None else block(received))
        return call

    def Gatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Collect a block of every rank at the root, of any sizes."""
        perform(self, self._gatherv("Gatherv", sendbuf, recvbuf, root))

    def _gatherv(self, name: str, sendbuf: Any, recvbuf: Any, root: int) -> Call:
        is_root = self._check_root(root)
        received = parse_vector(recvbuf, True, self.size) if is_root else None
        if received is not None and is_in_place(sendbuf):
            sent = own_block(received, self.rank)
        else:
            sent = parse_simple(sendbuf, False)
        if received is not None and sent.datatype.extent == received.datatype.extent:  # more room is no fault
            received.counts[self.rank] = min(int(received.counts[self.rank]), sent.count)
        call = Call("gatherv", name, root, {"root": root}, sent.bytes)
        call.buffers = (single(sent), _NONE if received is None else table(received))
        return call

    @quick
    def Scatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Send a block of the root's buffer to every rank."""
        perform(self, self._scatter("Scatter", sendbuf, recvbuf, root))

    def _scatter(self, name: str, sendbuf: Any, recvbuf: Any, root: int) -> Call:
        is_root = self._check_root(root)
        sent = parse_simple(sendbuf, False, self.size) if is_root else None
        if sent is not None and is_in_place(recvbuf):
            received = Simple(np.empty(sent.bytes, np.uint8), 0, sent.count, sent.datatype)
        else:
            received = parse_simple(recvbuf, True)
        self._agree_block(sent, received)
        call = Call("scatter", name, root, {"root": root, "bytes": received.bytes}, received.bytes)
        call.buffers = (_NONE if sent is None else block(sent), block(received))
        return call

    def Scatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Send a block of the root's buffer to every rank, of any sizes."""
        perform(self, self._scatterv("Scatterv", sendbuf, recvbuf, root))

    def _scatterv(self, name: str, sendbuf: Any, recvbuf: Any, root: int) -> Call:
        is_root = self._check_root(root)
        sent = parse_vector(sendbuf, False, self.size) if is_root else None
        if sent is not None and is_in_place(recvbuf):
            received = own_block(sent, self.rank)
        else:
            received = parse_simple(recvbuf, True)
            if sent is not None and sent.datatype.extent == received.datatype.extent:  # more room is no fault
                received.count = min(received.count, int(sent.counts[self.rank]))
        call = Call("scatterv", name, root, {"root": root}, received.bytes)
        call.buffers = (_NONE if sent is None else table(sent), single(received))
        return call

    # --- all to all -------------------------------------------------------------------------------

    @quick_own_block
    def Allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """Collect a block of every rank at every rank."""
        perform(self, self._allgather("Allgather", sendbuf, recvbuf))

    def _allgather(self, name: str, sendbuf: Any, recvbuf: Any) -> Call:
        received = parse_simple(recvbuf, True, self.size)
        if is_in_place(sendbuf):
            sent = blocks_kept(received, self.rank)
        else:
            sent = parse_simple(sendbuf, False)
        self._agree_block(sent, received)
        call = Call("allgather", name, 0, {"bytes": sent.bytes}, sent.bytes)
        call.buffers = (block(sent), block(received))
        return call

    def Allgatherv(self, sendbuf: Any, recvbuf: Any) -> None:
        """Collect a block of every rank at every rank, of any sizes."""
        perform(self, self._allgatherv("Allgatherv", sendbuf, recvbuf))

    def _allgatherv(self, name: str, sendbuf: Any, recvbuf: Any) -> Call:
        received = parse_vector(recvbuf, True, self.size)
        sent = own_block(received, self.rank) if is_in_place(sendbuf) else parse_simple(sendbuf, False)
        sizes = received.counts * received.datatype.extent
        if sizes[self.rank] != sent.bytes:
            raise ValueError(
                f"{name}: rank {self.rank} sends {sent.bytes} bytes and expects {sizes[self.rank]} of itself"
            )
        call = Call("allgatherv", name, 0, {"bytes of each rank": sizes.tobytes()}, int(sizes.mean()))
        call.buffers = (single(sent), table(received))
        return call

    @quick
    def Alltoall(self, sendbuf: Any, recvbuf: Any) -> None:
        """Send a block to every rank and receive one from every rank."""
        perform(self, self._alltoall("Alltoall", sendbuf, recvbuf))

    def _alltoall(self, name: str, sendbuf: Any, recvbuf: Any) -> Call:
        received = parse_simple(recvbuf, True, self.size)
        if is_in_place(sendbuf):
            sent = blocks_kept(received, 0, self.size)
        else:
            sent = parse_simple(sendbuf, False, self.size)
        self._agree_block(sent, received)
        call = Call("alltoall", name, 0, {"bytes": sent.bytes}, sent.bytes)
        call.buffers = (block(sent), block(received))
        return call

    def Alltoallv(self, sendbuf: Any, recvbuf: Any) -> None:
        """Send a block to every rank and receive one from every rank, of any sizes."""
        perform(self, self._alltoallv("Alltoallv", sendbuf, recvbuf))

    def _alltoallv(self, name: str, sendbuf: Any, recvbuf: Any) -> Call:
        received = parse_vector(recvbuf, True, self.size)
        if is_in_place(sendbuf):
            sent = Vector(received.memory.copy(), received.counts, received.displs, received.datatype)
        else:
            sent = parse_vector(sendbuf, False, self.size)
        mean = int(sent.counts.sum()) * sent.datatype.extent // max(self.size, 1)
        call = Call("alltoallv", name, 0, {}, mean)
        call.buffers = (table(sent), table(received))
        return call

    def Alltoallw(self, sendbuf: Any, recvbuf: Any) -> None:
        """Send a block to every rank and receive one from every rank, each of a size and datatype of its own.

        Messages are ``[buffer, counts, displacements, datatypes]``; displacements are in bytes.
        """
        perform(self, self._alltoallw("Alltoallw", sendbuf, recvbuf))

    def _alltoallw(self, name: str, sendbuf: Any, recvbuf: Any) -> Call:
        received = parse_vector_w(recvbuf, True, self.size)
        if is_in_place(sendbuf):
            sent = Vector(received.memory.copy(), received.counts, received.displs, received.datatype)
        else:
            sent = parse_vector_w(sendbuf, False, self.size)
        call = Call("alltoallv", name, 0, {}, int(sent.counts.sum()) // max(self.size, 1))
        call.buffers = (table(sent), table(received))
        return call

    def _agree_block(self, sent: Simple | None, received: Simple | None) -> None:
        if sent is not None and received is not None and sent.bytes != received.bytes:
            raise ValueError(
                f"rank {self.rank} sends blocks of {sent.bytes} bytes and receives {received.bytes}"
            )
