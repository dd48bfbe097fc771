"""Clocks of the ranks of a real run: compared by ping-pong, and corrected to that of rank 0.

A rank asks rank 0 for the time and notes when it asked and when it had the answer. The answer was given
between the two, so the difference of the clocks is known up to half the round trip (Cristian); the shortest
of several round trips bounds it best. Compared before the program and after it, the difference is taken to
change evenly in between (drift). Ranks whose clock could be rank 0's own, both times, are left as they are.

References
----------
.. [1] F. Cristian: Probabilistic clock synchronization. Distributed Computing 3, 1989. doi:10.1007/BF01784024
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit.html import quantity

__all__ = ["ClockMeter", "ClockSample", "Clocks", "best_of"]

_ROUNDS, _TAG = 12, 1


class ClockSample(NamedTuple):
    """What a rank knows of the clock of rank 0.

    Attributes
    ----------
    at_s : float
        When, on its own clock.
    offset_s : float
        How much has to be added to its own clock.
    bound_s : float
        How far off that may be: half a round trip.
    """

    at_s: float
    offset_s: float
    bound_s: float


def best_of(exchanges: Sequence[tuple[float, float, float]]) -> ClockSample:
    """Return what exchanges of (asked, answer, got) tell: that of the shortest round trip counts.

    Examples
    --------
    >>> best_of([(1.0, 11.5, 2.0), (3.0, 13.1, 3.2)])
    ClockSample(at_s=3.1, offset_s=10.0, bound_s=0.10000000000000009)
    """
    asked, answer, got = min(exchanges, key=lambda one: one[2] - one[0])
    middle = (asked + got) / 2
    return ClockSample(middle, answer - middle, (got - asked) / 2)


class ClockMeter:
    """Compares the clocks of all ranks of a communicator.

    Parameters
    ----------
    comm : communicator
        Of mpi4py, for nothing else.
    clock : callable, optional
        Default: the monotonic clock, which the recorder reads.
    """

    def __init__(self, comm: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._comm, self._clock = comm, clock

    def compare(self) -> ClockSample:
        """Compare this rank's clock with that of rank 0; called by all ranks together."""
        comm, clock, answer = self._comm, self._clock, np.empty(1)
        if comm.rank == 0:
            for rank in range(1, comm.size):
                for _ in range(_ROUNDS):
                    comm.Recv(answer, rank, _TAG)
                    answer[0] = clock()
                    comm.Send(answer, rank, _TAG)
            return ClockSample(clock(), 0.0, 0.0)
        exchanges = []
        for _ in range(_ROUNDS):
            asked = clock()
            comm.Send(answer, 0, _TAG)
            comm.Recv(answer, 0, _TAG)
            exchanges.append((asked, float(answer[0]), clock()))
        return best_of(exchanges)


@dataclass
class Clocks:
    """How the clocks of all ranks go by that of rank 0.

    Attributes
    ----------
    samples : list of list of ClockSample
        By rank: one, or one before the program and one after it.
    violations : int
        Messages that are received before they were sent, after the correction.
    """

    samples: list[list[ClockSample]]
    violations: int = 0

    def is_own(self, rank: int) -> bool:
        """Whether a rank's clock needs a correction: it cannot be that of rank 0."""
        return any(abs(one.offset_s) > one.bound_s for one in self.samples[rank])

    def corrected(self, rank: int, times_s: Any) -> NDArray[np.float64]:
        """Lead times of a rank's clock over to that of rank 0."""
        times = np.asarray(times_s, np.float64)
        samples = self.samples[rank]
        if not samples or not self.is_own(rank):
            return times
        first = samples[0]
        return times + (first.offset_s + self.drift(rank) * (times - first.at_s))

    def drift(self, rank: int) -> float:
        """Return how many seconds a rank's clock loses in each second of its own."""
        first, last = self.samples[rank][0], self.samples[rank][-1]
        span = last.at_s - first.at_s
        return (last.offset_s - first.offset_s) / span if span > 0 else 0.0

    @property
    def bound_s(self) -> float:
        """How far off a corrected time may be where clocks were compared."""
        return max((one.bound_s for samples in self.samples for one in samples), default=0.0)

    def text(self) -> str:
        """Say it in a sentence."""
        if not any(self.samples):
            return "its times are those of the file"
        own = [rank for rank in range(len(self.samples)) if self.is_own(rank)]
        known = quantity(self.bound_s, "s", 3)
        if not own:
            most = max((abs(one.offset_s) for samples in self.samples for one in samples), default=0.0)
            said = (
                f"the ranks read one clock (differences of up to {quantity(most, 's', 3)} were measured, "
                f"within {known})"
            )
        else:
            drift = max(abs(self.drift(rank)) for rank in own)
            said = (
                f"the clocks of {len(own)} of {len(self.samples)} ranks corrected to that of rank 0, with "
                f"drifts of up to {drift * 1e6:.2g} ppm, to within {known}"
            )
        if self.violations:
            said += f"; {self.violations} messages end before they begin"
        return said
