"""Persistent requests: a message or a collective that is described once and started as often as wanted.

A start does what the nonblocking call of the same name would do then; buffers are read and written at the
time of the starts. Persistent collectives have messages of their own for each request: they may be started in
any order, also in another one at another rank (MPI 4, section 6.13). What is assumed about progress is said
in `labkit.comm.collective.nonblocking`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from labkit.comm.buffers import parse_simple
from labkit.comm.collective.native import Call, CallMakers, arrive_shared, leave, start
from labkit.comm.collective.prequest import Prequest
from labkit.comm.handles.constants import ANY_SOURCE, ANY_TAG, PROC_NULL
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.operators import OPERATORS, Op
from labkit.comm.handles.special import is_in_place

__all__ = ["PersistentCollectives", "PersistentMessages"]

_SUM = OPERATORS["SUM"]
_ERR_TAG, _ERR_RANK = 4, 6


class PersistentMessages:
    """The persistent sends and receives of a communicator."""

    rank: int
    size: int
    Isend: Callable[..., Any]
    Ibsend: Callable[..., Any]
    Issend: Callable[..., Any]
    Irsend: Callable[..., Any]
    Irecv: Callable[..., Any]

    def Send_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        """Make a request that sends a buffer whenever it is started."""
        return self._send_init(self.Isend, buf, dest, tag)

    def Bsend_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        """Make a request that sends a buffer in buffered mode whenever it is started."""
        return self._send_init(self.Ibsend, buf, dest, tag)

    def Ssend_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        """Make a request that sends a buffer in synchronous mode whenever it is started."""
        return self._send_init(self.Issend, buf, dest, tag)

    def Rsend_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        """Make a request that sends a buffer in ready mode whenever it is started."""
        return self._send_init(self.Irsend, buf, dest, tag)

    def Recv_init(self, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Prequest:
        """Make a request that receives into a buffer whenever it is started."""
        self._check_message(buf, source, tag, True)
        return Prequest._of(lambda: self.Irecv(buf, source, tag))

    def _send_init(self, send: Callable[..., Any], buf: Any, dest: int, tag: int) -> Prequest:
        self._check_message(buf, dest, tag, False)
        return Prequest._of(lambda: send(buf, dest, tag))

    def _check_message(self, buf: Any, peer: int, tag: int, is_receive: bool) -> None:
        """Refuse at once what would be refused at every start."""
        rank, number = operator.index(peer), operator.index(tag)
        if rank != PROC_NULL:
            parse_simple(buf, is_receive)
        is_any = is_receive and rank == ANY_SOURCE
        if not (is_any or rank == PROC_NULL or 0 <= rank < self.size):
            what = "source" if is_receive else "dest"
            raise MPIException(
                _ERR_RANK,
                f"{what}={rank} is not a rank of this communicator, which has ranks 0 to {self.size - 1}",
            )
        if number < 0 and not (is_receive and number == ANY_TAG):
            raise MPIException(_ERR_TAG, f"tag={number} is not allowed: tags are 0 or more")


class PersistentCollectives(CallMakers):
    """The persistent collectives of a communicator. `info` is not looked at."""

    _counts: Callable[..., Any]

    def Barrier_init(self, info: Any = None) -> Prequest:
        """Make a request for a barrier."""
        return self._collective_init("Barrier_init", lambda name: Call("barrier", name))

    def Bcast_init(self, buf: Any, root: int = 0, info: Any = None) -> Prequest:
        """Make a request that sends the root's buffer to everybody."""
        return self._collective_init("Bcast_init", lambda name: self._bcast(name, buf, root))

    def Gather_init(self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Any = None) -> Prequest:
        """Make a request that collects a block of every rank at the root."""
        return self._collective_init("Gather_init", lambda name: self._gather(name, sendbuf, recvbuf, root))

    def Gatherv_init(self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Any = None) -> Prequest:
        """Make a request that collects a block of every rank at the root, of any sizes."""
        return self._collective_init("Gatherv_init", lambda name: self._gatherv(name, sendbuf, recvbuf, root))

    def Scatter_init(self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Any = None) -> Prequest:
        """Make a request that sends a block of the root's buffer to every rank."""
        return self._collective_init("Scatter_init", lambda name: self._scatter(name, sendbuf, recvbuf, root))

    def Scatterv_init(self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Any = None) -> Prequest:
        """Make a request that sends a block of the root's buffer to every rank, of any sizes."""
        return self._collective_init(
            "Scatterv_init", lambda name: self._scatterv(name, sendbuf, recvbuf, root)
        )

    def Allgather_init(self, sendbuf: Any, recvbuf: Any, info: Any = None) -> Prequest:
        """Make a request that collects a block of every rank at every rank."""
        return self._collective_init("Allgather_init", lambda name: self._allgather(name, sendbuf, recvbuf))

    def Allgatherv_init(self, sendbuf: Any, recvbuf: Any, info: Any = None) -> Prequest:
        """Make a request that collects a block of every rank at every rank, of any sizes."""
        return self._collective_init("Allgatherv_init", lambda name: self._allgatherv(name, sendbuf, recvbuf))

    def Alltoall_init(self, sendbuf: Any, recvbuf: Any, info: Any = None) -> Prequest:
        """Make a request that sends a block to every rank and receives one from every rank."""
        return self._collective_init("Alltoall_init", lambda name: self._alltoall(name, sendbuf, recvbuf))

    def Alltoallv_init(self, sendbuf: Any, recvbuf: Any, info: Any = None) -> Prequest:
        """Make a request that sends a block to every rank and receives one from each, of any sizes."""
        return self._collective_init("Alltoallv_init", lambda name: self._alltoallv(name, sendbuf, recvbuf))

    def Alltoallw_init(self, sendbuf: Any, recvbuf: Any, info: Any = None) -> Prequest:
        """Make a request that exchanges blocks, each of a size and datatype of its own."""
        return self._collective_init("Alltoallw_init", lambda name: self._alltoallw(name, sendbuf, recvbuf))

    def Reduce_init(
        self, sendbuf: Any, recvbuf: Any, op: Op = _SUM, root: int = 0, info: Any = None
    ) -> Prequest:
        """Make a request that combines the buffers of all ranks at the root."""
        return self._collective_init(
            "Reduce_init", lambda name: self._reduce(name, sendbuf, recvbuf, op, root)
        )

    def Allreduce_init(self, sendbuf: Any, recvbuf: Any, op: Op = _SUM, info: Any = None) -> Prequest:
        """Make a request that combines the buffers of all ranks at every rank."""
        return self._prefix_init("allreduce", "Allreduce_init", sendbuf, recvbuf, op)

    def Scan_init(self, sendbuf: Any, recvbuf: Any, op: Op = _SUM, info: Any = None) -> Prequest:
        """Make a request that combines the buffers of ranks 0 to this one."""
        return self._prefix_init("scan", "Scan_init", sendbuf, recvbuf, op)

    def Exscan_init(self, sendbuf: Any, recvbuf: Any, op: Op = _SUM, info: Any = None) -> Prequest:
        """Make a request that combines the buffers of the ranks before this one."""
        return self._prefix_init("exscan", "Exscan_init", sendbuf, recvbuf, op)

    def _prefix_init(self, problem: str, name: str, sendbuf: Any, recvbuf: Any, op: Op) -> Prequest:
        return self._collective_init(name, lambda name: self._prefix(problem, name, sendbuf, recvbuf, op))

    def Reduce_scatter_block_init(
        self, sendbuf: Any, recvbuf: Any, op: Op = _SUM, info: Any = None
    ) -> Prequest:
        """Make a request that combines the buffers of all ranks; rank i gets the i-th equal block."""
        return self._collective_init(
            "Reduce_scatter_block_init", lambda name: self._reduce_scatter_block(name, sendbuf, recvbuf, op)
        )

    def Reduce_scatter_init(
        self,
        sendbuf: Any,
        recvbuf: Any,
        recvcounts: Sequence[int] | None = None,
        op: Op = _SUM,
        info: Any = None,
    ) -> Prequest:
        """Make a request that combines the buffers of all ranks; rank i gets the i-th block."""
        counts = recvcounts
        if counts is None and not is_in_place(sendbuf):  # the ranks tell each other once, not at every start
            counts = self._counts(None, parse_simple(recvbuf, True).count, True)
        return self._collective_init(
            "Reduce_scatter_init", lambda name: self._reduce_scatter(name, sendbuf, recvbuf, counts, op)
        )

    def _collective_init(self, name: str, build: Callable[[str], Call]) -> Prequest:
        """Agree on messages of their own for the starts; what is wrong with the call is said now."""
        private = self._own_context(name, build(name).facts)
        return Prequest._of(lambda: start(private, build(name)))

    def _own_context(self, name: str, facts: dict[str, Any]) -> Any:
        """Return a handle of the communicator with a context that the ranks' calls of this one share."""
        calls, shared = arrive_shared(self, name, facts)
        if "context" not in shared.made:
            shared.made["context"] = calls.hub.new_context()
        leave(name)
        kind: Any = type(self)
        private = kind(self)
        private._use_context(shared.made["context"])
        return private
