"""Trees over a range of consecutive ranks: what a communicator would do for a group, without making one.

A group of ranks that is known by its first rank and its size needs no communicator: making one would be a
collective operation of its own on every level of a recursion. Groups that share no rank do not disturb each
other, and none waits for another. Every step here is a blocking send or receive of a few numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["RankRange"]

#: Messages of a tree name their source, so they match in order; keys on the move come from anyone.
_TREE_TAG = 32002
_MOVE_TAG = 32003


class RankRange:
    """The ranks `first` to `first` + `size` - 1 of a communicator; the running rank is one of them.

    Parameters
    ----------
    comm : communicator
    dtype : dtype
        Of the keys that travel.

    Attributes
    ----------
    first, size : int
    place : int
        The running rank's number in the range, from 0.
    """

    def __init__(self, comm: Intracomm, dtype: np.dtype[Any]) -> None:
        self.comm = comm
        self.rank: int = comm.rank
        self.first, self.size, self.place = 0, comm.size, comm.rank
        self._out, self._in = np.empty(2, dtype), np.empty(2, dtype)
        self._one: tuple[NDArray[Any], NDArray[Any]] = self._out[:1], self._in[:1]
        self._sums_out, self._sums_in = np.empty(3, np.int64), np.empty(3, np.int64)

    def narrow(self, begin: int, size: int) -> None:
        """Become the part of the range that begins at place `begin`; the running rank must be in it."""
        self.first, self.size = self.first + begin, size
        self.place = self.rank - self.first

    def send(self, keys: list[Any], place: int) -> None:
        """Send one or two keys to a place of the range, counted around its end."""
        self._out[: len(keys)] = keys
        message = self._one[0] if len(keys) == 1 else self._out
        self.comm.Send(message, dest=self.first + place % self.size, tag=_TREE_TAG)

    def receive(self, place: int, n: int = 1) -> list[Any]:
        """Receive n keys, one or two, from a place of the range, counted around its end."""
        message = self._one[1] if n == 1 else self._in
        self.comm.Recv(message, source=self.first + place % self.size, tag=_TREE_TAG)
        keys: list[Any] = message.tolist()
        return keys

    def broadcast(self, key: Any, root: int) -> Any:
        """Return the key that the rank at place `root` has: a binomial tree, log2(size) rounds."""
        number = (self.place - root) % self.size
        distance = 1
        while distance < self.size and not number & distance:
            distance *= 2
        if number:
            (key,) = self.receive(root + number - distance)
        while distance > 1:
            distance //= 2
            if number + distance < self.size:
                self.send([key], root + number + distance)
        return key

    def sum_before_and_total(self, value: int) -> tuple[int, int]:
        """Return the sum of the values at the places before this one, and that of all, in log2(size) rounds.

        In the round of distance d, everyone hears what the rank d places before it knows: the sum of the d
        values that end there, counted around the end of the range; of those of them that do not reach around
        it; and of the (size mod d) values that end there. The last is, in the end, that of all values.
        """
        size, place, first, comm = self.size, self.place, self.first, self.comm
        out, incoming = self._sums_out, self._sums_in
        window, up_to, remainder = value, value, 0
        distance = 1
        while distance < size:
            out[0], out[1], out[2] = window, up_to, remainder
            comm.Sendrecv(
                out,
                dest=first + (place + distance) % size,
                sendtag=_TREE_TAG,
                recvbuf=incoming,
                source=first + (place - distance) % size,
                recvtag=_TREE_TAG,
            )
            their_window, their_up_to, their_remainder = incoming.tolist()
            if size & distance:
                remainder = window + their_remainder
            if place >= distance:
                up_to += their_up_to
            window += their_window
            distance *= 2
        return up_to - value, window if distance == size else remainder

    def move(self, key: Any, place: int) -> Any:
        """Send the key to a place, and return the one that comes here; every place must be one rank's."""
        if place == self.place:
            return key
        out, incoming = self._one
        out[0] = key
        self.comm.Sendrecv(
            out, dest=self.first + place, sendtag=_MOVE_TAG, recvbuf=incoming, recvtag=_MOVE_TAG
        )
        return incoming.item(0)
