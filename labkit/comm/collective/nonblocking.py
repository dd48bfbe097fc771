"""Nonblocking collectives: the call returns at once, and the collective goes on beside what the rank does.

What is assumed about progress. Each rank's part is carried on by an agent of the engine's, as a network
adapter or a thread on a core of its own would: its messages are posted and matched while the rank computes,
share the network with all others, and cost the rank's processor nothing (asynchronous progress). The call
itself posts what can be posted at once and pays for that; everything after the first wait is the agent's, the
overheads of its messages included. A real MPI without asynchronous progress goes on only inside calls: there
a rank that computes for long has to `Test` now and then, and overlaps less than here.

A nonblocking collective runs the schedule that its blocking twin would run (``coll=`` chooses for both). So
``Iallreduce(...).Wait()`` takes as long as ``Allreduce(...)``, and never less.

All ranks start the same collectives in the same order on a communicator, blocking and nonblocking ones
together; they may be over in any order. Buffers must stay as they are until the request is complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labkit.comm.collective.native import Call, CallMakers, start
from labkit.comm.handles.operators import OPERATORS, Op

__all__ = ["NonblockingCollectives"]

_SUM = OPERATORS["SUM"]


class NonblockingCollectives(CallMakers):
    """The nonblocking collectives of a communicator; each returns a request to wait for."""

    def Ibarrier(self) -> Any:
        """Say that this rank is here; the request is complete when every rank is."""
        return start(self, Call("barrier", "Ibarrier"))

    def Ibcast(self, buf: Any, root: int = 0) -> Any:
        """Begin to send the root's buffer to everybody."""
        return start(self, self._bcast("Ibcast", buf, root))

    def Igather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Any:
        """Begin to collect a block of every rank at the root."""
        return start(self, self._gather("Igather", sendbuf, recvbuf, root))

    def Igatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Any:
        """Begin to collect a block of every rank at the root, of any sizes."""
        return start(self, self._gatherv("Igatherv", sendbuf, recvbuf, root))

    def Iscatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Any:
        """Begin to send a block of the root's buffer to every rank."""
        return start(self, self._scatter("Iscatter", sendbuf, recvbuf, root))

    def Iscatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Any:
        """Begin to send a block of the root's buffer to every rank, of any sizes."""
        return start(self, self._scatterv("Iscatterv", sendbuf, recvbuf, root))

    def Iallgather(self, sendbuf: Any, recvbuf: Any) -> Any:
        """Begin to collect a block of every rank at every rank."""
        return start(self, self._allgather("Iallgather", sendbuf, recvbuf))

    def Iallgatherv(self, sendbuf: Any, recvbuf: Any) -> Any:
        """Begin to collect a block of every rank at every rank, of any sizes."""
        return start(self, self._allgatherv("Iallgatherv", sendbuf, recvbuf))

    def Ialltoall(self, sendbuf: Any, recvbuf: Any) -> Any:
        """Begin to send a block to every rank and to receive one from every rank."""
        return start(self, self._alltoall("Ialltoall", sendbuf, recvbuf))

    def Ialltoallv(self, sendbuf: Any, recvbuf: Any) -> Any:
        """Begin to send a block to every rank and to receive one from every rank, of any sizes."""
        return start(self, self._alltoallv("Ialltoallv", sendbuf, recvbuf))

    def Ialltoallw(self, sendbuf: Any, recvbuf: Any) -> Any:
        """Begin to send and receive blocks, each of a size and datatype of its own (see `Alltoallw`)."""
        return start(self, self._alltoallw("Ialltoallw", sendbuf, recvbuf))

    def Ireduce(self, sendbuf: Any, recvbuf: Any, op: Op = _SUM, root: int = 0) -> Any:
        """Begin to combine the buffers of all ranks at the root, in rank order."""
        return start(self, self._reduce("Ireduce", sendbuf, recvbuf, op, root))

    def Iallreduce(self, sendbuf: Any, recvbuf: Any, op: Op = _SUM) -> Any:
        """Begin to combine the buffers of all ranks at every rank, in rank order."""
        return start(self, self._prefix("allreduce", "Iallreduce", sendbuf, recvbuf, op))

    def Iscan(self, sendbuf: Any, recvbuf: Any, op: Op = _SUM) -> Any:
        """Begin to combine the buffers of ranks 0 to this one."""
        return start(self, self._prefix("scan", "Iscan", sendbuf, recvbuf, op))

    def Iexscan(self, sendbuf: Any, recvbuf: Any, op: Op = _SUM) -> Any:
        """Begin to combine the buffers of the ranks before this one; rank 0's buffer stays as it is."""
        return start(self, self._prefix("exscan", "Iexscan", sendbuf, recvbuf, op))

    def Ireduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: Op = _SUM) -> Any:
        """Begin to combine the buffers of all ranks; rank i gets the i-th of `size` equal blocks."""
        return start(self, self._reduce_scatter_block("Ireduce_scatter_block", sendbuf, recvbuf, op))

    def Ireduce_scatter(
        self, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None = None, op: Op = _SUM
    ) -> Any:
        """Begin to combine the buffers of all ranks; rank i gets the i-th block.

        Without `recvcounts` the ranks first tell each other what their `recvbuf` holds, as in mpi4py: that
        part blocks.
        """
        return start(self, self._reduce_scatter("Ireduce_scatter", sendbuf, recvbuf, recvcounts, op))
