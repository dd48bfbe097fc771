"""Reductions on buffers: operands in rank order unless the operator commutes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.comm.buffers import Simple, Vector, parse_simple
from labkit.comm.collective.binding import block, blocks_kept, single, table
from labkit.comm.collective.native import ANYTHING, Call, perform
from labkit.comm.collective.quick import quick
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.operators import OPERATORS, Op
from labkit.comm.handles.special import is_in_place

__all__ = ["BufferReductions"]

_SUM = OPERATORS["SUM"]


class BufferReductions:
    """The upper-case reductions of a communicator."""

    rank: int
    size: int
    _check_root: Callable[[int], bool]
    Allgather: Callable[..., None]

    @quick
    def Reduce(self, sendbuf: Any, recvbuf: Any, op: Op = _SUM, root: int = 0) -> None:
        """Combine the buffers of all ranks at the root, in rank order."""
        perform(self, self._reduce("Reduce", sendbuf, recvbuf, op, root))

    @quick
    def Allreduce(self, sendbuf: Any, recvbuf: Any, op: Op = _SUM) -> None:
        """Combine the buffers of all ranks at every rank, in rank order."""
        perform(self, self._prefix("allreduce", "Allreduce", sendbuf, recvbuf, op))

    @quick
    def Scan(self, sendbuf: Any, recvbuf: Any, op: Op = _SUM) -> None:
        """Combine the buffers of ranks 0 to this one."""
        perform(self, self._prefix("scan", "Scan", sendbuf, recvbuf, op))

    @quick
    def Exscan(self, sendbuf: Any, recvbuf: Any, op: Op = _SUM) -> None:
        """Combine the buffers of the ranks before this one; rank 0's buffer stays as it is."""
        perform(self, self._prefix("exscan", "Exscan", sendbuf, recvbuf, op))

    def _reduce(self, name: str, sendbuf: Any, recvbuf: Any, op: Op, root: int) -> Call:
        received = parse_simple(recvbuf, True) if self._check_root(root) else None
        return self._combining("reduce", name, sendbuf, received, op, root)

    def _prefix(self, problem: str, name: str, sendbuf: Any, recvbuf: Any, op: Op) -> Call:
        return self._combining(problem, name, sendbuf, parse_simple(recvbuf, True), op)

    def _combining(
        self, problem: str, name: str, sendbuf: Any, received: Simple | None, op: Op, root: int | None = None
    ) -> Call:
        if received is not None and is_in_place(sendbuf):
            sent = blocks_kept(received)
        else:
            sent = parse_simple(sendbuf, False)
        if received is not None:
            _agree(sent, received)
        call = _call(problem, name, sent, op, {"bytes": sent.bytes})
        if root is not None:
            call.root = call.facts["root"] = root
        call.is_split = True
        call.buffers = (block(sent), ANYTHING if received is None else block(received))
        return call

    # --- reduce-scatter ---------------------------------------------------------------------------

    @quick
    def Reduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: Op = _SUM) -> None:
        """Combine the buffers of all ranks, in rank order; rank i gets the i-th of `size` equal blocks.

        With IN_PLACE all blocks lie in `recvbuf`; the result is left in its first block.
        """
        perform(self, self._reduce_scatter_block("Reduce_scatter_block", sendbuf, recvbuf, op))

    def _reduce_scatter_block(self, name: str, sendbuf: Any, recvbuf: Any, op: Op) -> Call:
        if is_in_place(sendbuf):
            received = parse_simple(recvbuf, True, self.size)
            sent = blocks_kept(received, 0, self.size)
        else:
            received = parse_simple(recvbuf, True)
            sent = parse_simple(sendbuf, False, self.size)
            _agree(sent, received)
        call = _call("reduce_scatter_block", name, sent, op, {"bytes": sent.bytes})
        call.buffers = (block(sent), block(received))
        return call

    def Reduce_scatter(
        self, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None = None, op: Op = _SUM
    ) -> None:
        """Combine the buffers of all ranks, in rank order; rank i gets the i-th block.

        Parameters
        ----------
        sendbuf, recvbuf : buffer or list form
            With IN_PLACE all blocks lie in `recvbuf`; the result is left at its beginning.
        recvcounts : sequence of int, optional
            Elements of each rank's block; default: what each rank's `recvbuf` holds, which the ranks then
            tell each other. Needed with IN_PLACE.
        op : Op

        Raises
        ------
        ValueError
            If buffers and counts do not fit together.
        """
        perform(self, self._reduce_scatter("Reduce_scatter", sendbuf, recvbuf, recvcounts, op))

    def _reduce_scatter(
        self, name: str, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None, op: Op
    ) -> Call:
        received = parse_simple(recvbuf, True)
        has_own = not is_in_place(sendbuf)
        sent = parse_simple(sendbuf, False) if has_own else blocks_kept(received)
        counts = self._counts(recvcounts, received.count, has_own)
        if has_own:
            _agree_counts(sent, received, counts, self.rank)
        elif received.count != counts.sum():
            raise ValueError(f"mismatch in receive count {received.count} and sum(counts) {counts.sum()}")
        call = _call("reduce_scatter", name, sent, op, {"counts": counts.tobytes()})
        call.bytes = sent.bytes // self.size
        blocks = Vector(sent.memory[sent.offset :], counts, np.cumsum(counts) - counts, sent.datatype)
        mine = Simple(received.memory, received.offset, int(counts[self.rank]), received.datatype)
        call.buffers = (table(blocks), single(mine))
        return call

    def _counts(self, given: Sequence[int] | None, mine: int, may_ask: bool) -> NDArray[np.int64]:
        """Return every rank's number of elements: as given, or as the ranks say."""
        if given is None and may_ask:
            everybodys = np.empty(self.size, np.int64)
            self.Allgather(np.array([mine], np.int64), everybodys)
            return everybodys
        if given is None:
            raise TypeError("Reduce_scatter with IN_PLACE needs recvcounts")
        counts = np.fromiter((operator.index(count) for count in given), np.int64)
        if len(counts) != self.size:
            raise ValueError(f"expecting {self.size} items, got {len(counts)}")
        if counts.min() < 0:
            raise MPIException(2, f"recvcounts={counts.tolist()}: counts are 0 or more")
        return counts


def _agree(sent: Simple, received: Simple) -> None:
    if sent.datatype.code != received.datatype.code:
        raise ValueError("mismatch in send and receive MPI datatypes")
    if sent.count != received.count:
        raise ValueError(f"mismatch in send count {sent.count} and receive count {received.count}")


def _agree_counts(sent: Simple, received: Simple, counts: NDArray[np.int64], rank: int) -> None:
    if sent.datatype.code != received.datatype.code:
        raise ValueError("mismatch in send and receive MPI datatypes")
    if sent.count != counts.sum():
        raise ValueError(f"mismatch in send count {sent.count} and sum(counts) {counts.sum()}")
    if received.count != counts[rank]:
        raise ValueError(f"mismatch in receive count {received.count} and counts[{rank}] {counts[rank]}")


def _call(problem: str, name: str, sent: Simple, op: Op, facts: dict[str, Any]) -> Call:
    """Return the call of a reduction: operator and datatype must be the same everywhere."""
    if not isinstance(op, Op):
        raise TypeError(f"op: expected an MPI.Op, got {type(op).__name__}")
    reduction = op._reduction(sent.datatype) if op else None
    if reduction is None:
        raise MPIException(10, f"{op!r} is not defined on {sent.datatype!r}")
    constant = op._constant
    facts["datatype"], facts["op"] = sent.datatype._name, constant or "the program's own"
    return Call(problem, name, 0, facts, sent.bytes, reduction, op._is_commutative, constant is not None)
