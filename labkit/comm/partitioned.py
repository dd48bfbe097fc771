"""Partitioned messages: their sender says part by part that it is filled.

The message leaves when its last part is ready; at the receiver all parts arrive together. MPI allows a
library to send parts earlier; what a program receives does not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from labkit.comm.buffers import _unpack, parse_simple
from labkit.comm.collective.native import refuse_in_recordings, shared_calls
from labkit.comm.collective.prequest import Prequest
from labkit.comm.handles.constants import PROC_NULL
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.known import KNOWN

__all__ = ["PartitionedMessages"]

_ERR_COUNT, _ERR_REQUEST, _ERR_ARG = 2, 7, 13
_TAG = 0x10000000


class PartitionedMessages:
    """The partitioned sends and receives of a communicator."""

    _check_message: Callable[..., None]

    def Psend_init(self, buf: Any, partitions: int, dest: int, tag: int = 0, info: Any = None) -> Prequest:
        """Make a request that sends a buffer of equal parts whenever it is started and all are ready."""
        count = _partitions(partitions)
        whole = self._whole(buf, count, dest, tag, False)
        request = _PartitionedSend()
        request._make_persistent()
        request._begin_with(count, lambda: self._parts().Isend(whole, dest, _at(tag)))
        return request

    def Precv_init(self, buf: Any, partitions: int, source: int, tag: int = 0, info: Any = None) -> Prequest:
        """Make a request that receives a buffer of so many equal parts whenever it is started."""
        count = _partitions(partitions)
        whole = self._whole(buf, count, source, tag, True)
        request = _PartitionedReceive._of(lambda: self._parts().Irecv(whole, source, _at(tag)))
        request._partitions = count  # type: ignore[attr-defined]
        return request

    def _parts(self) -> Any:
        """Return the communicator of these messages, which no other receive matches."""
        private = KNOWN["Comm"](self)
        private._use_private_context()
        return private

    def _whole(self, buf: Any, partitions: int, peer: int, tag: int, is_receive: bool) -> Any:
        """Return the message of all parts: what is wrong with it is said now."""
        self._check_message(buf, peer, tag, is_receive)
        if int(peer) == PROC_NULL:
            return None
        part = parse_simple(buf, is_receive, partitions)
        buffer, _, displ, _ = _unpack(buf, (list, tuple))
        return [buffer, (part.count * partitions, displ or 0), part.datatype]


def _at(tag: int) -> int:
    return int(tag) & 0x0FFFFFFF | _TAG


def _partitions(number: int) -> int:
    count = int(number)
    if count < 1:
        raise MPIException(_ERR_COUNT, f"partitions={count}: a partitioned message has 1 part or more")
    return count


class _PartitionedSend(Prequest):
    """A message that leaves when all its parts are ready."""

    __slots__ = ("_partitions", "_ready", "_send")

    def _begin_with(self, partitions: int, send: Callable[[], Any]) -> None:
        self._partitions, self._send = partitions, send
        self._ready: set[int] | None = None

        def begin() -> Any:
            calls = shared_calls("Start")
            refuse_in_recordings(calls, "Psend_init")
            self._ready = set()
            return calls.hub.start_general("a partitioned send")

        self._begin = begin

    def Pready(self, partition: int) -> None:
        """Say that a part is filled."""
        number, ready = int(partition), self._ready
        if ready is None:
            raise MPIException(_ERR_REQUEST, "this partitioned send has not been started")
        if not 0 <= number < self._partitions or number in ready:
            raise MPIException(
                _ERR_ARG, f"partition={number} of {self._partitions} does not exist or is ready already"
            )
        ready.add(number)
        if len(ready) == self._partitions:
            self._ready = None
            self._complete()
            self._finish(None, False)
            self._take(self._send())

    def Pready_range(self, partition_low: int, partition_high: int) -> None:
        """Say that parts are filled, from the first to the last, it included."""
        for partition in range(int(partition_low), int(partition_high) + 1):
            self.Pready(partition)

    def Pready_list(self, partitions: Sequence[int]) -> None:
        """Say that these parts are filled."""
        for partition in partitions:
            self.Pready(partition)

    def Parrived(self, partition: int) -> bool:
        """Refuse: parts arrive at the receiver."""
        raise MPIException(_ERR_REQUEST, "Parrived belongs to the request of a partitioned receive")


class _PartitionedReceive(Prequest):
    """A message that comes in parts."""

    __slots__ = ("_partitions",)

    def Pready(self, partition: int) -> None:
        """Refuse: parts are filled at the sender."""
        raise MPIException(_ERR_REQUEST, "Pready belongs to the request of a partitioned send")

    def Parrived(self, partition: int) -> bool:
        """Whether a part has arrived."""
        if not 0 <= int(partition) < self._partitions:
            raise MPIException(_ERR_ARG, f"partition={partition} of {self._partitions} does not exist")
        return bool(self.Get_status())
