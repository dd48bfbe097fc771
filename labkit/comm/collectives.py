"""Collectives on buffers: each call becomes one run of a schedule by the engine.

Every rank enters when it gets there; the first one chooses the algorithm, the others must agree with it in
what MPI wants to be the same everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.comm.buffers import Simple, Vector, parse_simple, parse_vector
from labkit.comm.exceptions import Exception as MPIException
from labkit.comm.native import ANYTHING, Bound, Call, perform
from labkit.comm.operators import OPERATORS, Op
from labkit.comm.special import is_in_place

__all__ = ["BufferCollectives"]

_SUM = OPERATORS["SUM"]
#: what a rank that is not the root hands in for a buffer that only the root has
_NONE = ANYTHING


def _block(message: Simple, count: int | None = None) -> Bound:
    """One block, or equal blocks of `message.count` elements each."""
    extent = message.datatype.extent
    return Bound(message.memory[message.offset :], extent, message.count if count is None else count)


def _table(message: Vector) -> Bound:
    return Bound(message.memory, message.datatype.extent, 0, message.counts, message.displs)


def _one(message: Simple) -> Bound:
    """One block of a vector collective."""
    return Bound(message.memory[message.offset :], message.datatype.extent, 0, [message.count], [0])


def _copy(memory: NDArray[np.uint8], begin: int, length: int) -> NDArray[np.uint8]:
    return memory[begin : begin + length].copy()


class BufferCollectives:
    """The upper-case collectives of a communicator."""

    rank: int
    size: int

    def _check_root(self, root: int) -> bool:
        """Refuse a root outside the communicator; whether this rank is it."""
        if not 0 <= root < self.size:
            raise MPIException(
                8, f"root={root} is not a rank of this communicator, which has ranks 0 to {self.size - 1}"
            )
        return self.rank == root

    def Barrier(self) -> None:
        """Wait until every rank is here."""
        perform(self, Call("barrier", "Barrier"))

    def Bcast(self, buf: Any, root: int = 0) -> None:
        """Send the root's buffer to everybody."""
        is_root = self._check_root(root)
        message = parse_simple(buf, not is_root)
        call = Call("bcast", "Bcast", root, {"root": root, "bytes": message.bytes}, message.bytes)
        call.buffers = (_block(message),)
        call.is_split = True
        perform(self, call)

    # --- gather, scatter --------------------------------------------------------------------------

    def Gather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Collect a block of every rank at the root."""
        is_root = self._check_root(root)
        received = parse_simple(recvbuf, True, self.size) if is_root else None
        if is_root and received is not None and is_in_place(sendbuf):
            kept = _copy(received.memory, received.offset + self.rank * received.bytes, received.bytes)
            sent = Simple(kept, 0, received.count, received.datatype)
        else:
            sent = parse_simple(sendbuf, False)
        self._agree_block(sent, received)
        call = Call("gather", "Gather", root, {"root": root, "bytes": sent.bytes}, sent.bytes)
        call.buffers = (_block(sent), _NONE if received is None else _block(received))
        perform(self, call)

    def Gatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Collect a block of every rank at the root, of any sizes."""
        is_root = self._check_root(root)
        received = parse_vector(recvbuf, True, self.size) if is_root else None
        if received is not None and is_in_place(sendbuf):
            sent = _own_block(received, self.rank)
        else:
            sent = parse_simple(sendbuf, False)
        call = Call("gatherv", "Gatherv", root, {"root": root}, sent.bytes)
        call.buffers = (_one(sent), _NONE if received is None else _table(received))
        perform(self, call)

    def Scatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Send a block of the root's buffer to every rank."""
        is_root = self._check_root(root)
        sent = parse_simple(sendbuf, False, self.size) if is_root else None
        if sent is not None and is_in_place(recvbuf):
            received = Simple(np.empty(sent.bytes, np.uint8), 0, sent.count, sent.datatype)
        else:
            received = parse_simple(recvbuf, True)
        self._agree_block(sent, received)
        call = Call("scatter", "Scatter", root, {"root": root, "bytes": received.bytes}, received.bytes)
        call.buffers = (_NONE if sent is None else _block(sent), _block(received))
        perform(self, call)

    def Scatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Send a block of the root's buffer to every rank, of any sizes."""
        is_root = self._check_root(root)
        sent = parse_vector(sendbuf, False, self.size) if is_root else None
        if sent is not None and is_in_place(recvbuf):
            received = _own_block(sent, self.rank)
        else:
            received = parse_simple(recvbuf, True)
        call = Call("scatterv", "Scatterv", root, {"root": root}, received.bytes)
        call.buffers = (_NONE if sent is None else _table(sent), _one(received))
        perform(self, call)

    # --- all to all -------------------------------------------------------------------------------

    def Allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """Collect a block of every rank at every rank."""
        received = parse_simple(recvbuf, True, self.size)
        if is_in_place(sendbuf):
            kept = _copy(received.memory, received.offset + self.rank * received.bytes, received.bytes)
            sent = Simple(kept, 0, received.count, received.datatype)
        else:
            sent = parse_simple(sendbuf, False)
        self._agree_block(sent, received)
        call = Call("allgather", "Allgather", 0, {"bytes": sent.bytes}, sent.bytes)
        call.buffers = (_block(sent), _block(received))
        perform(self, call)

    def Allgatherv(self, sendbuf: Any, recvbuf: Any) -> None:
        """Collect a block of every rank at every rank, of any sizes."""
        received = parse_vector(recvbuf, True, self.size)
        sent = _own_block(received, self.rank) if is_in_place(sendbuf) else parse_simple(sendbuf, False)
        sizes = received.counts * received.datatype.extent
        if sizes[self.rank] != sent.bytes:
            raise ValueError(
                f"Allgatherv: rank {self.rank} sends {sent.bytes} bytes and expects {sizes[self.rank]} "
                "of itself"
            )
        call = Call("allgatherv", "Allgatherv", 0, {"bytes of each rank": sizes.tobytes()}, int(sizes.mean()))
        call.buffers = (_one(sent), _table(received))
        perform(self, call)

    def Alltoall(self, sendbuf: Any, recvbuf: Any) -> None:
        """Send a block to every rank and receive one from every rank."""
        received = parse_simple(recvbuf, True, self.size)
        if is_in_place(sendbuf):
            kept = _copy(received.memory, received.offset, received.bytes * self.size)
            sent = Simple(kept, 0, received.count, received.datatype)
        else:
            sent = parse_simple(sendbuf, False, self.size)
        self._agree_block(sent, received)
        call = Call("alltoall", "Alltoall", 0, {"bytes": sent.bytes}, sent.bytes)
        call.buffers = (_block(sent), _block(received))
        perform(self, call)

    def Alltoallv(self, sendbuf: Any, recvbuf: Any) -> None:
        """Send a block to every rank and receive one from every rank, of any sizes."""
        received = parse_vector(recvbuf, True, self.size)
        if is_in_place(sendbuf):
            sent = Vector(received.memory.copy(), received.counts, received.displs, received.datatype)
        else:
            sent = parse_vector(sendbuf, False, self.size)
        mean = int(sent.counts.sum()) * sent.datatype.extent // max(self.size, 1)
        call = Call("alltoallv", "Alltoallv", 0, {}, mean)
        call.buffers = (_table(sent), _table(received))
        perform(self, call)

    # --- reductions -------------------------------------------------------------------------------

    def Reduce(self, sendbuf: Any, recvbuf: Any, op: Op = _SUM, root: int = 0) -> None:
        """Combine the buffers of all ranks at the root, in rank order."""
        is_root = self._check_root(root)
        received = parse_simple(recvbuf, True) if is_root else None
        self._reduce("reduce", "Reduce", sendbuf, received, op, root)

    def Allreduce(self, sendbuf: Any, recvbuf: Any, op: Op = _SUM) -> None:
        """Combine the buffers of all ranks at every rank, in rank order."""
        self._reduce("allreduce", "Allreduce", sendbuf, parse_simple(recvbuf, True), op)

    def Scan(self, sendbuf: Any, recvbuf: Any, op: Op = _SUM) -> None:
        """Combine the buffers of ranks 0 to this one."""
        self._reduce("scan", "Scan", sendbuf, parse_simple(recvbuf, True), op)

    def Exscan(self, sendbuf: Any, recvbuf: Any, op: Op = _SUM) -> None:
        """Combine the buffers of the ranks before this one; rank 0's buffer stays as it is."""
        self._reduce("exscan", "Exscan", sendbuf, parse_simple(recvbuf, True), op)

    def _reduce(
        self, problem: str, name: str, sendbuf: Any, received: Simple | None, op: Op, root: int | None = None
    ) -> None:
        if received is not None and is_in_place(sendbuf):
            kept = _copy(received.memory, received.offset, received.bytes)
            sent = Simple(kept, 0, received.count, received.datatype)
        else:
            sent = parse_simple(sendbuf, False)
        if received is not None:
            if sent.datatype.code != received.datatype.code:
                raise ValueError("mismatch in send and receive MPI datatypes")
            if sent.count != received.count:
                raise ValueError(f"mismatch in send count {sent.count} and receive count {received.count}")
        if not isinstance(op, Op):
            raise TypeError(f"op: expected an MPI.Op, got {type(op).__name__}")
        reduction = op._reduction(sent.datatype) if op else None
        if reduction is None:
            raise MPIException(10, f"{op!r} is not defined on {sent.datatype!r}")
        facts = {
            "bytes": sent.bytes,
            "datatype": sent.datatype.name,
            "op": op._constant or "the program's own",
        }
        if root is not None:
            facts["root"] = root
        call = Call(problem, name, root or 0, facts, sent.bytes, reduction, op.Is_commutative())
        call.is_split = True
        call.buffers = (_block(sent), _NONE if received is None else _block(received))
        perform(self, call)

    def _agree_block(self, sent: Simple | None, received: Simple | None) -> None:
        if sent is not None and received is not None and sent.bytes != received.bytes:
            raise ValueError(
                f"rank {self.rank} sends blocks of {sent.bytes} bytes and receives {received.bytes}"
            )


def _own_block(message: Vector, rank: int) -> Simple:
    """Return a rank's own block of a vector message, as a copy (IN_PLACE)."""
    extent = message.datatype.extent
    count = int(message.counts[rank])
    kept = _copy(message.memory, int(message.displs[rank]) * extent, count * extent)
    return Simple(kept, 0, count, message.datatype)
