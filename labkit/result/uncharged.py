"""Uncharged computation: how much there was without simulated time, and when to warn about it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["REMARK", "Uncharged"]

REMARK = (
    "computation was free: the program's own code took much of the host's time and no simulated time; "
    'compute="measured" (--compute measured) charges what it takes here, labkit.compute(seconds) what you say'
)
#: thresholds: seconds, share of the CPU time, and number of looks that found it: one look
#: stands for all since the last one, and in a short run two or three may have come at odd moments
_LEAST_S, _LEAST_SHARE, _LEAST_LOOKS = 0.01, 0.2, 5


@dataclass
class Uncharged:
    """What was seen of it in one run, or in several together.

    `seconds`: CPU time of the program's code, what it calls of libraries included.
    `total_s`: CPU time of everything.
    `looks`: How many looks found the program's code running.
    """

    seconds: float = 0.0
    total_s: float = 0.0
    looks: int = 0

    def add(self, other: Uncharged) -> None:
        """Add what was seen in another run: the short runs of a sweep are notable together."""
        self.seconds += other.seconds
        self.total_s += other.total_s
        self.looks += other.looks

    @property
    def is_notable(self) -> bool:
        """Whether to warn the user."""
        return self.looks >= _LEAST_LOOKS and self.seconds >= max(_LEAST_S, _LEAST_SHARE * self.total_s)
