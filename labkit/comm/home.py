"""Messages of datatypes with gaps: a copy without them travels, and goes home where it arrives."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.comm.handles.packing import address_of, charge, check_span, gathered, scattered
from labkit.comm.handles.typebody import TypeBody
from labkit.phantom import Sized

__all__ = ["Home"]


class Home:
    """Where the elements of datatypes with gaps lie, of which a message has a copy without gaps.

    Parameters
    ----------
    memory : numpy.ndarray, dtype uint8
        The program's buffer; empty for BOTTOM, where places are addresses.
    pieces : list of (TypeBody, int, int)
        Datatypes, where their elements begin in the buffer, in bytes, and how many there are.
    is_bottom : bool
    """

    __slots__ = ("_base", "_memory", "_pieces", "copy")

    def __init__(
        self, memory: NDArray[np.uint8], pieces: list[tuple[TypeBody, int, int]], is_bottom: bool
    ) -> None:
        self._memory, self._pieces = memory, pieces  # the buffer must live as long as its address is used
        if type(memory) is Sized:
            self.copy: Any = memory[: sum(body.map.size * count for body, _, count in pieces)]
            return
        self._base = 0 if is_bottom else address_of(memory)
        for body, place, count in pieces:
            if not is_bottom:
                check_span(body, memory.nbytes, count, place)
        self.copy = np.frombuffer(bytearray(self.gathered()), np.uint8)

    def gathered(self) -> bytes:
        """Return what lies there now, without gaps."""
        parts = [gathered(body, self._base + place, count) for body, place, count in self._pieces]
        return b"".join(parts)

    def runs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the addresses of the elements' bytes, runs by where they begin: beginnings and ends."""
        begins, lengths = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        if type(self.copy) is not Sized:
            for body, place, count in self._pieces:
                at = self._base + place + np.arange(count, dtype=np.int64) * body.map.extent
                begins.append((at[:, None] + body.map.offsets[None, :]).ravel())
                lengths.append(np.tile(body.map.lengths, count))
        first, length = np.concatenate(begins), np.concatenate(lengths)
        order = np.argsort(first, kind="stable")
        return first[order], (first + length)[order]

    def charge(self) -> None:
        """Charge the running rank with the copy, where packing is charged."""
        charge((body, count) for body, _, count in self._pieces)

    def restore(self) -> None:
        """Put what the copy holds now where it belongs."""
        if type(self.copy) is Sized:
            return
        begin = 0
        for body, place, count in self._pieces:
            end = begin + body.map.size * count
            scattered(body, self._base + place, self.copy[begin:end])
            begin = end
