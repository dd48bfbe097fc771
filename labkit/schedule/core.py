"""The core of a team: as many members as the largest power of two has; the others fold into a neighbour."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labkit.schedule.powers import floor_power_of_two
from labkit.schedule.team import Team

__all__ = ["Core", "core_of"]

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Core:
    """Who is in the core: of each of the first pairs of neighbours, 2i and 2i + 1, only one.

    Attributes
    ----------
    size, extra : int
        Members of the core, and how many pairs there are.
    number : array of int64
        The number in the core.
    is_out, has_out : array of bool
        Whether a member has handed its part to its neighbour before, or taken one over.
    neighbor : array of int64
        The other one of the pair, by its number in the team.
    kept : int
        Whether the first (0) or the second (1) of a pair is in the core.
    """

    size: int
    extra: int
    number: Numbers
    is_out: NDArray[np.bool_]
    has_out: NDArray[np.bool_]
    neighbor: Numbers
    kept: int

    def team_number(self, number: Numbers) -> Numbers:
        """Return the number in the team of a number in the core."""
        return np.where(number < self.extra, 2 * number + self.kept, number + self.extra)


def core_of(team: Team, kept: int = 1) -> Core:
    """Return the core of a team of one size, with the first (0) or the second (1) of every pair in it."""
    core = floor_power_of_two(team.largest)
    extra = team.largest - core
    is_pair, is_kept = team.number < 2 * extra, team.number % 2 == kept
    return Core(
        core,
        extra,
        np.where(is_pair, team.number // 2, team.number - extra),
        is_pair & ~is_kept,
        is_pair & is_kept,
        team.number ^ 1,
        kept,
    )
