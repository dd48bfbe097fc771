"""A rank's own stores into its part of a window, where others access the same bytes: seen in checked runs.

A store is no call that could be noted. From one fence to the next a checked run keeps a copy of each part;
what accesses write is kept there, too. Bytes that differ from it the rank has changed itself, and if an
access of the same epoch is at them, nothing orders the two (MPI 4.1, section 12.7).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from labkit.comm.place import Place

__all__ = ["Stores"]

_Run = tuple[int, int]


class Stores:
    """What a part held, as far as accesses have not changed it.

    Parameters
    ----------
    memory : numpy.ndarray of uint8
        The part.
    since : Place
        The fence.
    """

    def __init__(self, memory: NDArray[np.uint8], since: Place) -> None:
        self._memory, self._kept, self.since = memory, memory.copy(), since
        self._seen: list[_Run] = []

    def around(self, runs: Iterable[_Run], do: Callable[[], object]) -> object:
        """Look for stores into bytes that an access is about to use; let it, and keep what is there then."""
        for low, high in runs:
            self._seen += [(low, high)] if self._differs(low, high) else []
        answer = do()
        for low, high in runs:
            self._kept[low:high] = self._memory[low:high]
        return answer

    def are_at(self, low: int, high: int) -> bool:
        """Whether there were any at these bytes."""
        return self._differs(low, high) or any(begin < high and low < end for begin, end in self._seen)

    def _differs(self, low: int, high: int) -> bool:
        return not np.array_equal(self._memory[low:high], self._kept[low:high])
