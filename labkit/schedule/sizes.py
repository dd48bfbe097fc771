"""Block sizes at run time: where each block of a caller's buffer begins, in elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import ScheduleError
from labkit.schedule.schedule import Schedule

__all__ = ["Counts", "Sizes", "sizes_of"]

#: counts of a vector collective: buffer name to counts, or to (counts, displacements)
Counts = dict[str, Any]


@dataclass(frozen=True)
class Sizes:
    """The blocks of one buffer at one rank.

    Attributes
    ----------
    layout : "uniform", "split" or "table"
    count : int
        Elements of each block (uniform) or of all blocks (split).
    parts : int
        Into how many blocks each uniform one is cut once more.
    counts, displacements : array of int64 or None
        For tables.
    """

    layout: str
    count: int
    counts: NDArray[np.int64] | None = None
    displacements: NDArray[np.int64] | None = None
    parts: int = 1

    def bounds(self, block: int, n_blocks: int) -> tuple[int, int]:
        """Return begin and end of a block, in elements."""
        if self.layout == "uniform":
            whole, part = divmod(block, self.parts)
            begin, end = _part(self.count, part, self.parts)
            return whole * self.count + begin, whole * self.count + end
        if self.layout == "split":
            return _part(self.count, block, n_blocks)
        assert self.counts is not None
        assert self.displacements is not None
        begin = int(self.displacements[block])
        return begin, begin + int(self.counts[block])

    def extent(self, n_blocks: int) -> int:
        """Return the elements a buffer of `n_blocks` such blocks needs."""
        if self.layout == "split":
            return self.count
        return max((self.bounds(block, n_blocks)[1] for block in range(n_blocks)), default=0)


def _part(count: int, part: int, parts: int) -> tuple[int, int]:
    length, longer = divmod(count, parts)
    return part * length + min(part, longer), (part + 1) * length + min(part + 1, longer)


def sizes_of(
    schedule: Schedule, buffer: str, n_blocks: int, n_elements: int, counts: Counts | None = None
) -> Sizes:
    """Return the block sizes of a caller's buffer of `n_elements` elements."""
    label = f"{schedule.problem.name}/{schedule.name}: buffer {buffer!r}"
    if schedule.problem.layout == "split":
        return Sizes("split", n_elements)
    if schedule.problem.layout == "uniform":
        whole = n_blocks // schedule.parts
        if whole and n_elements % whole:
            raise ScheduleError(
                f"{label} has {n_elements} elements, which is no multiple of its {whole} blocks"
            )
        return Sizes("uniform", n_elements // whole if whole else 0, parts=schedule.parts)
    table, displacements = _table(counts, buffer, n_blocks, n_elements)
    if len(table) != n_blocks or len(displacements) != n_blocks:
        raise ScheduleError(f"{label} has {n_blocks} blocks, got {len(table)} counts")
    if n_blocks and (
        table.min() < 0 or displacements.min() < 0 or (displacements + table).max() > n_elements
    ):
        raise ScheduleError(f"{label} has {n_elements} elements; its counts reach outside")
    return Sizes("table", 0, table, displacements)


def _table(
    counts: Counts | None, buffer: str, n_blocks: int, n_elements: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    given = (counts or {}).get(buffer)
    if given is None:
        given = [n_elements] if n_blocks == 1 else []
    if isinstance(given, tuple):
        return np.asarray(given[0], np.int64), np.asarray(given[1], np.int64)
    table = np.asarray(given if isinstance(given, Sequence | np.ndarray) else [given], np.int64)
    return table, np.cumsum(table) - table
