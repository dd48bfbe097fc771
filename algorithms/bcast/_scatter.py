"""The scatter that broadcasts of long messages begin with: part v of the message goes to number v."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from labkit.schedule import Step, blocks
from labkit.schedule.doubling import doublings
from labkit.schedule.group import Team

__all__ = ["scatter_parts", "scattered"]


def scatter_parts(team: Team, numbers: int) -> Iterator[Step]:
    """Yield a binomial scatter of `numbers` parts of ``data`` over as many numbers of the team."""
    number = team.number
    for distance in reversed(doublings(numbers)):
        length = np.minimum(distance, numbers - number)
        is_child = (number % (2 * distance) == distance) & (number < numbers)
        is_parent = (number % (2 * distance) == 0) & (number + distance < numbers)
        given = np.minimum(distance, numbers - number - distance)
        yield team.recv(blocks("data", number, length), number - distance, where=is_child) + team.send(
            blocks("data", number + distance, given), number + distance, where=is_parent
        )


def scattered(numbers: int, message: Callable[[NDArray[np.int64]], NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return when every number has its part and has sent on; ``message(n)`` is the time of n parts."""
    at, number = np.zeros(numbers, np.int64), np.arange(numbers)
    for distance in reversed(doublings(numbers)):
        parent = number[(number % (2 * distance) == 0) & (number + distance < numbers)]
        at[parent] += message(np.minimum(distance, numbers - parent - distance))
        at[parent + distance] = at[parent]
    return at
