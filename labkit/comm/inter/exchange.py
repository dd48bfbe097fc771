"""Collectives between two groups: every message goes straight from its origin to where it is wanted.

So do the nonblocking collectives between groups of real libraries (libNBC's linear schedules, which Open MPI
uses); the data are the same whatever the algorithm. A reduction sends every contribution to each rank that
has the result, which combines them in rank order; `Reduce_scatter` sends whole vectors, because no rank knows
the other group's counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.comm.buffers import Simple, Vector, array_of, parse_simple, parse_vector, parse_vector_w
from labkit.comm.collective.makers import counts_of
from labkit.comm.collective.native import refuse_in_recordings, shared_calls
from labkit.comm.collective.prequest import Prequest
from labkit.comm.handles.constants import PROC_NULL, ROOT
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.operators import OPERATORS
from labkit.comm.handles.typebody import type_words
from labkit.comm.surface import METHODS, Method, add_methods

__all__ = ["BETWEEN_GROUPS", "GroupExchanges"]

_ERR_ROOT, _ERR_OP = 8, 10
_FIRST_TAG = 0x40000000
_Bytes = NDArray[np.uint8]


@dataclass
class _Exchange:
    """What a rank sends to and receives from ranks of the other group, and what it does at the end."""

    receives: list[tuple[_Bytes, int]] = field(default_factory=list)
    sends: list[tuple[_Bytes, int]] = field(default_factory=list)
    ends: list[Callable[[], Any]] = field(default_factory=list)

    def into(self, message: Simple | Vector | None) -> _Exchange:
        """Note where it arrives, if of a datatype with gaps."""
        if message is not None and message.home is not None:
            self.ends.append(message.home.restore)
        return self

    def end(self, status: Any = None) -> None:
        """Do what is left when everything has arrived."""
        for end in self.ends:
            end()


def _cut(message: Simple | Vector, blocks: int) -> list[_Bytes]:
    if isinstance(message, Simple):
        memory, length = array_of(message, blocks), message.bytes
        return [memory[i * length : (i + 1) * length] for i in range(blocks)]
    unit = message.element_bytes
    places = zip(message.displs.tolist(), message.counts.tolist(), strict=True)
    return [message.memory[place * unit : (place + count) * unit] for place, count in places]


def _pair(parts: Sequence[_Bytes]) -> list[tuple[_Bytes, int]]:
    return list(zip(parts, range(len(parts)), strict=True))


class GroupExchanges:
    """The upper-case collectives of an intercommunicator."""

    remote_size: int
    _private: Callable[[str, int], tuple[Any, int]]
    _leave: Callable[[str], None]
    _own_messages: Callable[[str], Any]
    _local: Any

    # --- what goes where ------------------------------------------------------------------------------

    def _barrier(self) -> _Exchange:
        nothing = [np.empty(0, np.uint8)] * self.remote_size
        return _Exchange(_pair(nothing), _pair(nothing))

    def _side(self, root: int) -> int:
        """Return -1 at the root, -2 beside it, else the root's rank in the other group."""
        if root in (ROOT, PROC_NULL):
            return -1 if root == ROOT else -2
        if not 0 <= root < self.remote_size:
            raise MPIException(
                _ERR_ROOT,
                f"root={root}: give ROOT, PROC_NULL, or a rank of the other group's {self.remote_size}",
            )
        return int(root)

    def _bcast(self, buf: Any, root: int) -> _Exchange:
        side = self._side(root)
        if side == -1:
            data = array_of(parse_simple(buf, False))
            return _Exchange(sends=_pair([data] * self.remote_size))
        if side == -2:
            return _Exchange()
        message = parse_simple(buf, True)
        return _Exchange([(array_of(message), side)]).into(message)

    def _gathered(
        self, sendbuf: Any, recvbuf: Any, root: int, parse: Callable[..., Simple | Vector]
    ) -> _Exchange:
        side = self._side(root)
        if side == -1:
            message = parse(recvbuf, True, self.remote_size)
            return _Exchange(_pair(_cut(message, self.remote_size))).into(message)
        return (
            _Exchange() if side == -2 else _Exchange(sends=[(array_of(parse_simple(sendbuf, False)), side)])
        )

    def _gather(self, sendbuf: Any, recvbuf: Any, root: int) -> _Exchange:
        return self._gathered(sendbuf, recvbuf, root, parse_simple)

    def _gatherv(self, sendbuf: Any, recvbuf: Any, root: int) -> _Exchange:
        return self._gathered(sendbuf, recvbuf, root, parse_vector)

    def _scattered(
        self, sendbuf: Any, recvbuf: Any, root: int, parse: Callable[..., Simple | Vector]
    ) -> _Exchange:
        side = self._side(root)
        if side == -1:
            return _Exchange(sends=_pair(_cut(parse(sendbuf, False, self.remote_size), self.remote_size)))
        if side == -2:
            return _Exchange()
        message = parse_simple(recvbuf, True)
        return _Exchange([(array_of(message), side)]).into(message)

    def _scatter(self, sendbuf: Any, recvbuf: Any, root: int) -> _Exchange:
        return self._scattered(sendbuf, recvbuf, root, parse_simple)

    def _scatterv(self, sendbuf: Any, recvbuf: Any, root: int) -> _Exchange:
        return self._scattered(sendbuf, recvbuf, root, parse_vector)

    def _everywhere(self, sendbuf: Any, received: Simple | Vector) -> _Exchange:
        data = array_of(parse_simple(sendbuf, False))
        sends = _pair([data] * self.remote_size)
        return _Exchange(_pair(_cut(received, self.remote_size)), sends).into(received)

    def _allgather(self, sendbuf: Any, recvbuf: Any) -> _Exchange:
        return self._everywhere(sendbuf, parse_simple(recvbuf, True, self.remote_size))

    def _allgatherv(self, sendbuf: Any, recvbuf: Any) -> _Exchange:
        return self._everywhere(sendbuf, parse_vector(recvbuf, True, self.remote_size))

    def _alltoall(
        self, sendbuf: Any, recvbuf: Any, parse: Callable[..., Simple | Vector] = parse_simple
    ) -> _Exchange:
        size = self.remote_size
        sent, received = parse(sendbuf, False, size), parse(recvbuf, True, size)
        return _Exchange(_pair(_cut(received, size)), _pair(_cut(sent, size))).into(received)

    def _alltoallv(self, sendbuf: Any, recvbuf: Any) -> _Exchange:
        return self._alltoall(sendbuf, recvbuf, parse_vector)

    def _alltoallw(self, sendbuf: Any, recvbuf: Any) -> _Exchange:
        return self._alltoall(sendbuf, recvbuf, parse_vector_w)

    # --- reductions -----------------------------------------------------------------------------------

    def _combined(self, received: Simple, op: Any, begin: int, length: int) -> _Exchange:
        """Receive a vector of `length` bytes from everybody and keep the combined part from `begin` on."""
        reduction = op._reduction(received.datatype) if op else None
        if reduction is None:
            raise MPIException(_ERR_OP, f"{op!r} is not defined on {type_words(received.datatype)}")
        parts = [np.empty(length, np.uint8) for _ in range(self.remote_size)]
        mine = slice(begin, begin + received.bytes)

        def combine() -> None:
            total = parts[0][mine].copy()
            for part in parts[1:]:
                right = part[mine].copy()
                reduction.apply(total, right, True)
                total = right
            array_of(received)[:] = total

        exchange = _Exchange(_pair(parts), ends=[combine] if parts else [])
        return exchange.into(received)

    def _reduce(self, sendbuf: Any, recvbuf: Any, op: Any, root: int) -> _Exchange:
        side = self._side(root)
        if side == -1:
            received = parse_simple(recvbuf, True, 0, True)
            return self._combined(received, op, 0, received.bytes)
        if side == -2:
            return _Exchange()
        return _Exchange(sends=[(array_of(parse_simple(sendbuf, False, 0, True)), side)])

    def _allreduce(self, sendbuf: Any, recvbuf: Any, op: Any) -> _Exchange:
        received = parse_simple(recvbuf, True, 0, True)
        exchange = self._combined(received, op, 0, received.bytes)
        exchange.sends = _pair([array_of(parse_simple(sendbuf, False, 0, True))] * self.remote_size)
        return exchange

    def _reduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: Any) -> _Exchange:
        received = parse_simple(recvbuf, True, 0, True)
        exchange = self._combined(received, op, 0, received.bytes)
        sent = parse_simple(sendbuf, False, self.remote_size, True)
        exchange.sends = _pair(_cut(sent, self.remote_size))
        return exchange

    def _reduce_scatter(self, sendbuf: Any, recvbuf: Any, recvcounts: Any, op: Any) -> _Exchange:
        received, local = parse_simple(recvbuf, True, 0, True), self._local
        counts = counts_of(local, recvcounts, received.count, True)
        if counts[local.rank] != received.count:
            raise ValueError(f"mismatch in receive count {received.count} and counts {counts.tolist()}")
        unit = received.element_bytes
        begin, length = int(counts[: local.rank].sum()) * unit, int(counts.sum()) * unit
        exchange = self._combined(received, op, begin, length)
        exchange.sends = _pair([array_of(parse_simple(sendbuf, False, 0, True))] * self.remote_size)
        return exchange

    # --- messages -------------------------------------------------------------------------------------

    def _exchange(self, name: str, exchange: _Exchange) -> None:
        private, tag = self._private(name, 0)
        requests = [private.Irecv(data, peer, tag) for data, peer in exchange.receives]
        requests += [private.Isend(data, peer, tag) for data, peer in exchange.sends]
        if requests:
            type(requests[0]).Waitall(requests)
        self._leave(name)
        exchange.end(None)

    def _begin(self, name: str, exchange: _Exchange, messages: tuple[Any, int] | None = None) -> Any:
        calls = shared_calls(name)
        refuse_in_recordings(calls, name)
        private, tag = messages or self._private(name, 0)
        if messages is None:
            self._leave(name)
        receives = [(data, peer, tag) for data, peer in exchange.receives]
        sends = [(data, peer, tag) for data, peer in exchange.sends]
        request = calls.hub.start_messages(private, name, receives, sends)
        request._after(exchange.end)
        return request

    def _persistent(self, name: str, build: Callable[[], _Exchange]) -> Prequest:
        build()  # what is wrong with it is said now
        private = self._own_messages(name)
        return Prequest._of(lambda: self._begin(name, build(), (private, _FIRST_TAG)))


BETWEEN_GROUPS = (
    "Barrier", "Bcast", "Gather", "Gatherv", "Scatter", "Scatterv", "Allgather", "Allgatherv", "Alltoall",
    "Alltoallv", "Alltoallw", "Reduce", "Allreduce", "Reduce_scatter", "Reduce_scatter_block",
)  # fmt: skip


def _expression(row: Method) -> str:
    arguments = [name for name in row.arguments.split(", ") if name and name != "info"]
    build = f"self._{row.base.lower()}({', '.join(arguments)})"
    if row.form == "persistent":
        return f"self._persistent({row.name!r}, lambda: {build})"
    return f"self.{'_exchange' if row.form == 'blocking' else '_begin'}({row.name!r}, {build})"


add_methods(
    GroupExchanges,
    [row for row in METHODS if row.base in BETWEEN_GROUPS and row.kind == "collective"],
    _expression,
    {"SUM": OPERATORS["SUM"], "__name__": __name__},
)
