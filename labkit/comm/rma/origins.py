"""Buffers of puts and gets that go on: seen in checked runs, where the program changes one too early.

From the call to the end of its epoch, or a flush, the buffer at the origin belongs to MPI (MPI 4.1, section
12.3). A checked run keeps a checksum of it: what an arriving get writes is taken into it, anything else is
the program's own.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from labkit.comm.buffers import Simple
from labkit.comm.place import Place

__all__ = ["Origin", "Origins"]


def _sum(buffer: Simple) -> int:
    if buffer.home is not None:
        return zlib.crc32(buffer.home.gathered())
    data: Any = buffer.memory[buffer.offset : buffer.offset + buffer.bytes]
    return zlib.crc32(data)


@dataclass(slots=True)
class Origin:
    """The buffer of one call."""

    buffer: Simple
    method: str
    peer: int
    place: Place
    sum: int
    is_changed: bool = False

    def arriving(self, write: Callable[[], None]) -> None:
        """Let what arrives be written, and look before it whether the program has been there."""
        self.look()
        write()
        self.sum = _sum(self.buffer)

    def look(self) -> bool:
        """Whether the program has changed it until now."""
        self.is_changed = self.is_changed or _sum(self.buffer) != self.sum
        return self.is_changed


class Origins:
    """Those of a rank's calls on a window."""

    def __init__(self) -> None:
        self._open: list[Origin] = []

    def keep(self, buffer: Simple, method: str, peer: int, place: Place) -> Origin:
        """Watch one."""
        self._open.append(Origin(buffer, method, peer, place, _sum(buffer)))
        return self._open[-1]

    def end(self, peer: int | None) -> list[Origin]:
        """Let go of those with a rank, or all; return those that were changed."""
        over = [one for one in self._open if peer in (None, one.peer)]
        self._open = [one for one in self._open if peer not in (None, one.peer)]
        return [one for one in over if one.look()]
