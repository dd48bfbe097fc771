"""Programs of ranks as one table: a generator of steps that reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit.schedule import Column, Group, Kind, Step

__all__ = ["Entry", "Listed", "Place"]


class Place(NamedTuple):
    """Consecutive blocks: number of the buffer, first block, how many."""

    buffer: int
    first: int
    length: int


#: one operation of a rank: kind, peer, label; target and source: buffer, first block and length
Entry = tuple[int, int, int, int, int, int, int, int, int]


@dataclass(frozen=True)
class Listed:
    """The operations of every rank, in order.

    Attributes
    ----------
    table : array of int64, shape (operations, 9)
        Kind, peer, label, target and source, rank by rank.
    begins : array of int64, shape (ranks + 1,)
        Where each rank's operations begin.
    """

    table: NDArray[np.int64]
    begins: NDArray[np.int64]

    @staticmethod
    def of(programs: Sequence[Sequence[Entry]]) -> Listed:
        """Put programs into a table."""
        lengths = [len(program) for program in programs]
        table = np.concatenate([np.array(program, np.int64).reshape(-1, 9) for program in programs])
        return Listed(table, np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64))

    def __call__(self, group: Group) -> Iterator[Step]:
        """Yield the operations of the group's ranks: the first ones of all, the second ones, ..."""
        ranks = group.ranks
        lengths = self.begins[ranks + 1] - self.begins[ranks]
        for turn in range(int(lengths.max(initial=0))):
            here = ranks[lengths > turn]
            rows = self.table[self.begins[here] + turn]
            keys = rows[:, [0, 2, 3, 6]]
            order = np.lexsort(keys.T[::-1])
            here, rows, keys = here[order], rows[order], keys[order]
            changes = (np.flatnonzero(np.any(keys[1:] != keys[:-1], axis=1)) + 1).tolist()
            bounds = zip([0, *changes], [*changes, len(order)], strict=True)
            yield Step(tuple(_column(here[begin:end], rows[begin:end].T.copy()) for begin, end in bounds))


def _column(ranks: NDArray[np.int64], columns: NDArray[np.int64]) -> Column:
    """Return entries that have kind, label and buffers in common."""
    kind, _, label, target, _, _, source, _, _ = columns[:, 0].tolist()
    return Column(
        Kind(kind), ranks, columns[1], (target, columns[4], columns[5], 0, 1),
        (source, columns[7], columns[8], 0, 1), label, 0,
    )  # fmt: skip
