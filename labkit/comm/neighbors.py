"""Neighbour collectives: each rank exchanges with its neighbours alone, by messages of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.comm.buffers import Simple, array_of, parse_simple, parse_vector
from labkit.comm.constants import PROC_NULL
from labkit.comm.native import leave
from labkit.comm.pickling import pickle

__all__ = ["NeighborCollectives"]

_Bytes = NDArray[np.uint8]


class NeighborCollectives:
    """The neighbour collectives of a communicator with a topology."""

    _private: Any

    @property
    def inoutedges(self) -> tuple[list[int], list[int]]:
        """Ranks that this one receives from, and sends to."""
        raise NotImplementedError

    def Neighbor_allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """Send a buffer to every neighbour, and receive a block from each."""
        sources, targets = self.inoutedges
        sent, received = parse_simple(sendbuf, False), parse_simple(recvbuf, True, len(sources))
        self._exchange("Neighbor_allgather", [array_of(sent)] * len(targets), _blocks(received, len(sources)))

    def Neighbor_allgatherv(self, sendbuf: Any, recvbuf: Any) -> None:
        """Send a buffer to every neighbour, and receive a block of any size from each."""
        sources, targets = self.inoutedges
        sent = parse_simple(sendbuf, False)
        self._exchange(
            "Neighbor_allgatherv", [array_of(sent)] * len(targets), _table(recvbuf, True, len(sources))
        )

    def Neighbor_alltoall(self, sendbuf: Any, recvbuf: Any) -> None:
        """Send a block to each neighbour, and receive one from each."""
        sources, targets = self.inoutedges
        sent, received = (
            parse_simple(sendbuf, False, len(targets)),
            parse_simple(recvbuf, True, len(sources)),
        )
        self._exchange("Neighbor_alltoall", _blocks(sent, len(targets)), _blocks(received, len(sources)))

    def Neighbor_alltoallv(self, sendbuf: Any, recvbuf: Any) -> None:
        """Send a block of any size to each neighbour, and receive one from each."""
        sources, targets = self.inoutedges
        sent, received = _table(sendbuf, False, len(targets)), _table(recvbuf, True, len(sources))
        self._exchange("Neighbor_alltoallv", sent, received)

    def neighbor_allgather(self, sendobj: Any) -> list[Any]:
        """Send an object to every neighbour; what they sent (None beyond an edge)."""
        return self._objects("neighbor_allgather", [sendobj] * len(self.inoutedges[1]))

    def neighbor_alltoall(self, sendobj: Sequence[Any]) -> list[Any]:
        """Send the i-th object to the i-th neighbour; what they sent (None beyond an edge)."""
        objects = list(sendobj)
        if len(objects) != len(self.inoutedges[1]):
            raise ValueError(f"expecting {len(self.inoutedges[1])} items, got {len(objects)}")
        return self._objects("neighbor_alltoall", objects)

    def _objects(self, name: str, objects: list[Any]) -> list[Any]:
        data = [np.frombuffer(pickle.dumps(item), np.uint8) for item in objects]
        sizes = [np.zeros(1, np.int64) for _ in self.inoutedges[0]]
        lengths = [np.array([len(item)], np.int64).view(np.uint8) for item in data]
        self._exchange(name, lengths, [size.view(np.uint8) for size in sizes])
        received = [np.empty(size[0], np.uint8) for size in sizes]
        self._exchange(name, data, received)
        return [pickle.loads(item.data) if len(item) else None for item in received]

    def _exchange(self, name: str, sent: list[_Bytes], received: list[_Bytes]) -> None:
        """Post everything, then wait.

        A block sent in one direction arrives in the opposite one: between two ranks that are neighbours
        twice (a ring of two) the direction's number in the tag tells the messages apart.
        """
        sources, targets = self.inoutedges
        private, tag = self._private(name, 0)
        base = tag & 0x00FFFFFF | 0x40000000
        requests = [
            private.Irecv(data, source, base | (i ^ 1) << 24)
            for i, (source, data) in enumerate(zip(sources, received, strict=True))
            if source != PROC_NULL
        ]
        requests += [
            private.Isend(data, target, base | i << 24)
            for i, (target, data) in enumerate(zip(targets, sent, strict=True))
            if target != PROC_NULL
        ]
        if requests:
            type(requests[0]).Waitall(requests)
        leave(name)


def _blocks(message: Simple, blocks: int) -> list[_Bytes]:
    memory = array_of(message, blocks)
    return [memory[i * message.bytes : (i + 1) * message.bytes] for i in range(blocks)]


def _table(message: Any, is_writable: bool, blocks: int) -> list[_Bytes]:
    if blocks == 0:
        return []
    vector = parse_vector(message, is_writable, blocks)
    extent = vector.datatype.extent
    places = zip(vector.displs.tolist(), vector.counts.tolist(), strict=True)
    return [vector.memory[place * extent : (place + count) * extent] for place, count in places]
