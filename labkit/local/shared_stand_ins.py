"""The exchange of distributions between ranks with stand-in data, besides their messages.

The keys that a rank of a radix sort holds after its first pass came from other ranks. What their digits are
follows from the distributions of all ranks together, which no message carries: stand-in data has no content.
A simulated machine has them all in one memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from labkit import context
from labkit.errors import DataError
from labkit.local.passes import Passes
from labkit.local.standin import Digits, StandIn

__all__ = ["DIGITS", "StandIns"]

DIGITS = (
    "stand-in data: within a range every pattern of a key's lower bits is equally frequent, whatever "
    "the upper ones are; a range that ends at no power of two ends to a sixteenth of its width"
)


@dataclass
class _Sheet:
    """What the ranks of one sort tell each other."""

    ranges: list[list[tuple[int, int, int]] | None]
    passes: Passes | None = None
    left: int = field(init=False)

    def __post_init__(self) -> None:
        self.left = len(self.ranges)


class StandIns:
    """The distributions of all ranks that take part in one sort.

    Every rank makes one before the ranks' first collective operation in which all wait for all, and calls
    `with_digits` after it. Of keys themselves nothing is told.

    Parameters
    ----------
    comm : communicator
    mine : object
        This rank's keys.

    Raises
    ------
    DataError
        The machine is none whose ranks share a memory, or this stand-in has lost its distribution.
    """

    def __init__(self, comm: Any, mine: object) -> None:
        self._sheet: _Sheet | None = None
        if not isinstance(mine, StandIn):
            return
        board = getattr(context.current(), "board", None)
        number = getattr(comm, "_context", None)
        if board is None or number is None:
            raise DataError(
                "stand-in data can be sorted by its digits on a simulated machine only: the digits of keys "
                "that came from other ranks follow from the distributions of all ranks, and no message "
                "carries those; sort keys, or use sample_sort, histogram_sort or exact_splitting_sort"
            )
        self.rank = int(comm.rank)
        sorts = board.get((number, self.rank), 0)
        board[number, self.rank] = sorts + 1
        self._board, self._key = board, ("sort", number, sorts)
        self._sheet = board.setdefault(self._key, _Sheet([None] * int(comm.size)))
        self._sheet.ranges[self.rank] = [(one.keys, one.begin, one.width) for one in mine.ranges()]

    def with_digits(self, mine: NDArray[Any]) -> NDArray[Any]:
        """Return this rank's keys so that `labkit.local.digit_counts` knows their digits."""
        sheet = self._sheet
        if sheet is None:
            return mine
        if sheet.passes is None:
            assert None not in sheet.ranges, "some rank has not told its distribution yet"
            sheet.passes = Passes([one or [] for one in sheet.ranges])
            machine: Any = context.current()
            machine.note(DIGITS)
        sheet.left -= 1
        if not sheet.left:
            del self._board[self._key]
        assert isinstance(mine, StandIn)
        made = mine.copy()
        made._digits = Digits(sheet.passes, self.rank)
        return made
