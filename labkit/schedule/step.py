"""Steps: a schedule's unit of generation, as columns of arrays over ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import islice, repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ALL",
    "ANY_LABEL",
    "NO_BUFFER",
    "NO_STEP",
    "Blocks",
    "Column",
    "Ints",
    "Kind",
    "Op",
    "Section",
    "Step",
    "block",
    "block_indices",
    "blocks",
    "whole",
]

#: buffer number of an operation that carries no data (a barrier's messages)
NO_BUFFER = -1

#: a wait for every request the rank still has open
ANY_LABEL = -1


class Kind(IntEnum):
    """What one entry of a rank's program does. The kernels' `schedule/schedule.hpp` has the same numbers."""

    SEND = 0  #: post a send and wait for it (MPI_Send)
    ISEND = 1  #: post a send
    RECV = 2  #: post a receive and wait for it (MPI_Recv)
    IRECV = 3  #: post a receive
    WAIT = 4  #: wait for the open requests with a label, or for all
    COPY = 5  #: target := source
    COMBINE = 6  #: target := source op target, or target op source

    def __init__(self, _: int) -> None:
        # kept, not properties: what runs schedules entry by entry asks for them all the time
        self.is_send = self.name in ("SEND", "ISEND")  #: whether it posts a send
        self.is_receive = self.name in ("RECV", "IRECV")  #: whether it posts a receive
        self.is_blocking = self.name in ("SEND", "RECV")  #: whether it waits for the request it posts


class Blocks(NamedTuple):
    """A section of one rank: buffer number and the four numbers of its rule."""

    buffer: int
    first: int
    length: int
    run: int
    stride: int


class Op(NamedTuple):
    """One entry of one rank's program.

    `section` is what a post sends or receives, and what a copy or combine writes; `source` is what a
    copy or combine reads.
    """

    kind: Kind
    peer: int
    label: int
    section: Blocks
    source: Blocks
    is_source_first: bool


# Sections: which blocks of which buffer an operation touches.
#
# A buffer is a sequence of ``n`` blocks whose sizes are bound at run time. A section names the blocks
#
#     ``(first + i*stride + j) mod n``   with ``0 <= j < run`` and ``i*stride + j < length``,
#
# in that order. One form covers what collective algorithms need: one block, a contiguous range, a range
# that wraps around, every second pair of blocks (Bruck), and all blocks backwards (stride ``n - 1``).
# Every field is a number, or an array with one entry per rank of the group that is being described.

Ints = int | NDArray[np.int64]

#: ``length`` of a section that spans its whole buffer, however many blocks that has.
ALL = -1


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks of a named buffer; see the module's text for the rule.

    Parameters
    ----------
    buffer : str
        Name of the buffer.
    first, length, run, stride : int or array of shape (n_ranks,)
        The rule's numbers; ``run = 0`` means contiguous (one run of ``length`` blocks).
    """

    buffer: str
    first: Ints = 0
    length: Ints = 1
    run: Ints = 0
    stride: Ints = 1


def block(buffer: str, index: Ints = 0) -> Section:
    """Return the section of one block (index taken modulo the number of blocks)."""
    return Section(buffer, first=index)


def blocks(buffer: str, first: Ints, length: Ints, run: Ints = 0, stride: Ints = 1) -> Section:
    """Return a section of several blocks: contiguous, or runs of `run` every `stride` blocks."""
    return Section(buffer, first, length, run, stride)


def whole(buffer: str) -> Section:
    """Return the section of all blocks of a buffer, in order."""
    return Section(buffer, 0, ALL)


def block_indices(first: int, length: int, run: int, stride: int, n_blocks: int) -> NDArray[np.int64]:
    """Return the block numbers of one section, in order.

    Examples
    --------
    >>> block_indices(3, 4, 0, 1, 5)
    array([3, 4, 0, 1])
    >>> block_indices(2, 6, 2, 4, 8)
    array([2, 3, 6, 7])
    """
    if length == ALL:
        length = n_blocks
    if n_blocks == 0 or length <= 0:
        return np.empty(0, np.int64)
    if run <= 0:
        return np.asarray((first + np.arange(length)) % n_blocks, np.int64)
    offsets = np.arange(0, length, stride)[:, None] + np.arange(run)[None, :]
    return np.asarray((first + offsets[offsets < length]) % n_blocks, np.int64)


@dataclass(frozen=True, slots=True)
class Column:
    """The same kind of operation on many ranks; each field is one number or one number per entry.

    Attributes
    ----------
    kind : Kind
    ranks : array of int64, shape (n_entries,)
        The rank of each entry. A rank may occur several times: its entries then run in array order.
    peer : int or array
        The other rank of a send or receive (-1 otherwise).
    section, source : tuple
        Buffer number, first, length, run and stride; `source` only for copies and combines.
    label : int
        Names the requests a later wait means.
    is_source_first : int or array
        For combines: 1 for ``target := source op target``, 0 for ``target := target op source``.
    """

    kind: Kind
    ranks: NDArray[np.int64]
    peer: Ints
    section: tuple[int, Ints, Ints, Ints, Ints]
    source: tuple[int, Ints, Ints, Ints, Ints]
    label: int = 0
    is_source_first: Ints = 0

    def entry(self, i: int) -> Op:
        """Return operation `i` as plain numbers."""
        return next(islice(self.entries(), i, None))[1]

    def entries(self) -> Iterator[tuple[int, Op]]:
        """Yield (rank, operation) in array order, as plain numbers."""
        section, source = (map(Blocks, *map(_each, fields)) for fields in (self.section, self.source))
        each = (
            repeat(self.kind),
            _each(self.peer),
            repeat(self.label),
            section,
            source,
            map(bool, _each(self.is_source_first)),
        )
        return zip(self.ranks.tolist(), map(Op, *each))  # noqa: B905 - numbers are for every entry


@dataclass(frozen=True, slots=True)
class Step:
    """Columns that a generator hands over together. Steps join with ``+``.

    A rank goes through its entries column by column, at its own pace: neither columns nor steps
    synchronize ranks, only messages and waits do.
    """

    columns: tuple[Column, ...]

    def __add__(self, other: Step) -> Step:
        return Step(self.columns + other.columns)

    def entries(self) -> Iterator[tuple[int, Op]]:
        """Yield (rank, operation) in program order of every rank."""
        for column in self.columns:
            yield from column.entries()


NO_STEP = Step(())


def _each(field: Ints) -> Iterable[int]:
    return repeat(field) if isinstance(field, int) else np.asarray(field, np.int64).tolist()
