"""Neighbor collectives: each rank exchanges with its neighbors alone, by their own messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.comm.buffers import Simple, Vector, array_of, parse_simple, parse_vector, parse_vector_w
from labkit.comm.collective.native import refuse_in_recordings, restoring, shared_calls
from labkit.comm.handles.constants import CONSTANTS, PROC_NULL
from labkit.comm.handles.status import Prequest
from labkit.comm.pickling import pickle
from labkit.comm.surface import METHODS, Method, add_methods

__all__ = ["NeighborCollectives"]

_Bytes = NDArray[np.uint8]
#: blocks sent, places of those received; of datatypes with gaps where these belong at the end, and where
#: what is sent comes from
_Exchange = tuple[list[_Bytes], list[_Bytes], list[Any], list[Any]]
_Messages = list[tuple[_Bytes, int, int]]
_FIRST_TAG = 0x40000000


class NeighborCollectives:
    """The neighbor collectives of a communicator with a topology."""

    _private: Any
    _leave: Callable[[str], None]
    _own_context: Callable[..., Any]
    Get_topology: Callable[[], int]

    @property
    def inoutedges(self) -> tuple[list[int], list[int]]:
        """Ranks that this one receives from, and sends to."""
        raise NotImplementedError

    # --- what is sent and received: a block per neighbor ---------------------------------------------

    def _same(self, sendbuf: object, recvbuf: object) -> _Exchange:
        sources, targets = self.inoutedges
        sent, received = parse_simple(sendbuf, False), parse_simple(recvbuf, True, len(sources))
        blocks = _blocks(received, len(sources))
        return [array_of(sent)] * len(targets), blocks, _homes(received), _homes(sent)

    def _same_to_table(self, sendbuf: object, recvbuf: object) -> _Exchange:
        sources, targets = self.inoutedges
        sent = parse_simple(sendbuf, False)
        blocks, homes = _table(recvbuf, True, len(sources), parse_vector)
        return [array_of(sent)] * len(targets), blocks, homes, _homes(sent)

    def _each(self, sendbuf: object, recvbuf: object) -> _Exchange:
        sources, targets = self.inoutedges
        sent = parse_simple(sendbuf, False, len(targets))
        received = parse_simple(recvbuf, True, len(sources))
        blocks = _blocks(received, len(sources))
        return _blocks(sent, len(targets)), blocks, _homes(received), _homes(sent)

    def _tables(
        self, sendbuf: object, recvbuf: object, parse: Callable[..., Vector] = parse_vector
    ) -> _Exchange:
        sources, targets = self.inoutedges
        sent, given = _table(sendbuf, False, len(targets), parse)
        return sent, *_table(recvbuf, True, len(sources), parse), given

    def _tables_of_types(self, sendbuf: object, recvbuf: object) -> _Exchange:
        return self._tables(sendbuf, recvbuf, parse_vector_w)

    def neighbor_allgather(self, sendobj: object) -> list[Any]:
        """Send an object to every neighbor; what they sent (None beyond an edge)."""
        return self._objects("neighbor_allgather", [sendobj] * len(self.inoutedges[1]))

    def neighbor_alltoall(self, sendobj: Sequence[object]) -> list[Any]:
        """Send the i-th object to the i-th neighbor; what they sent (None beyond an edge)."""
        objects = list(sendobj)
        if len(objects) != len(self.inoutedges[1]):
            raise ValueError(f"expecting {len(self.inoutedges[1])} items, got {len(objects)}")
        return self._objects("neighbor_alltoall", objects)

    def _objects(self, name: str, objects: list[object]) -> list[object]:
        data = [np.frombuffer(pickle.dumps(item), np.uint8) for item in objects]
        sizes = [np.zeros(1, np.int64) for _ in self.inoutedges[0]]
        lengths = [np.array([len(item)], np.int64).view(np.uint8) for item in data]
        self._exchange(name, lengths, [size.view(np.uint8) for size in sizes])
        received = [np.empty(size[0], np.uint8) for size in sizes]
        self._exchange(name, data, received)
        return [pickle.loads(item.data) if len(item) else None for item in received]

    # --- messages -------------------------------------------------------------------------------------

    def _exchange(
        self,
        name: str,
        sent: list[_Bytes],
        received: list[_Bytes],
        homes: Sequence[Any] = (),
        given: Sequence[Any] = (),
    ) -> None:
        """Post everything, then wait."""
        private, tag = self._private(name, 0)
        for home in given:
            home.charge()
        receives, sends = self._messages(sent, received, tag)
        requests = [private.Irecv(*message) for message in receives]
        requests += [private.Isend(*message) for message in sends]
        if requests:
            type(requests[0]).Waitall(requests)
        self._leave(name)
        for home in homes:
            home.restore()
            home.charge()

    def _begin(
        self,
        name: str,
        sent: list[_Bytes],
        received: list[_Bytes],
        homes: list[Any],
        given: list[Any],
    ) -> Any:
        """Post everything as one request."""
        calls = shared_calls(name)
        refuse_in_recordings(calls, name)
        private, tag = self._private(name, 0)
        self._leave(name)
        for home in given:
            home.charge()
        request = calls.hub.start_messages(private, name, *self._messages(sent, received, tag))
        return restoring(request, homes)

    def _neighbor_init(self, name: str, build: Callable[[], _Exchange]) -> Prequest:
        build()  # what is wrong with it is said now
        private = self._own_context(name, {})
        private._use_private_context()

        def begin() -> Any:
            calls = shared_calls(name)
            refuse_in_recordings(calls, name)
            sent, received, homes, given = build()
            for home in given:
                home.charge()
            messages = self._messages(sent, received, _FIRST_TAG)
            return restoring(calls.hub.start_messages(private, name, *messages), homes)

        return Prequest._of(begin)

    def _messages(self, sent: list[_Bytes], received: list[_Bytes], tag: int) -> tuple[_Messages, _Messages]:
        """Receives and sends as (buffer, peer, tag); none beyond an edge.

        On a grid a block sent in one direction arrives in the opposite one: between two ranks that are
        neighbors twice (a ring of two) the direction's number in the tag separates the messages. On a
        graph the messages of a pair of ranks meet in the order of its edges.
        """
        sources, targets = self.inoutedges
        base = tag & 0x00FFFFFF | _FIRST_TAG
        ways = 1 if self.Get_topology() == CONSTANTS["CART"] else 0
        receives = [
            (data, source, base | ((i ^ 1) * ways) << 24)
            for i, (source, data) in enumerate(zip(sources, received, strict=True))
            if source != PROC_NULL
        ]
        sends = [
            (data, target, base | (i * ways) << 24)
            for i, (target, data) in enumerate(zip(targets, sent, strict=True))
            if target != PROC_NULL
        ]
        return receives, sends


def _blocks(message: Simple, blocks: int) -> list[_Bytes]:
    memory, length = array_of(message, blocks), message.bytes
    return [memory[i * length : (i + 1) * length] for i in range(blocks)]


def _homes(message: Simple | Vector) -> list[object]:
    return [message.home] if message.home else []


def _table(
    message: object, is_writable: bool, blocks: int, parse: Callable[..., Vector]
) -> tuple[list[_Bytes], list[Any]]:
    if blocks == 0:
        return [], []
    vector = parse(message, is_writable, blocks)
    extent = vector.element_bytes
    places = zip(vector.displs.tolist(), vector.counts.tolist(), strict=True)
    cut = [vector.memory[place * extent : (place + count) * extent] for place, count in places]
    return cut, _homes(vector)


_READERS = {
    "Neighbor_allgather": "_same",
    "Neighbor_allgatherv": "_same_to_table",
    "Neighbor_alltoall": "_each",
    "Neighbor_alltoallv": "_tables",
    "Neighbor_alltoallw": "_tables_of_types",
}


def _expression(row: Method) -> str:
    """Blocking, nonblocking or persistent (see labkit.comm.intracomm)."""
    read = f"self.{_READERS[row.base]}(sendbuf, recvbuf)"
    if row.form == "persistent":
        return f"self._neighbor_init({row.name!r}, lambda: {read})"
    return f"self.{'_exchange' if row.form == 'blocking' else '_begin'}({row.name!r}, *{read})"


add_methods(
    NeighborCollectives,
    [row for row in METHODS if row.base in _READERS],
    _expression,
    {"__name__": __name__},
)
