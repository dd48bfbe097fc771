"""Clocks of the ranks of a real run: compared by ping-pong, and corrected to that of rank 0.

A rank asks rank 0 for the time and notes when it asked and when it had the answer. The answer was given
between the two, so the difference of the clocks is known up to half the round trip (Cristian); the shortest
of several round trips bounds it best. Compared before the program and after it, the difference is taken to
change evenly in between (drift). Ranks whose clock could be rank 0's own, both times, are left unchanged.

References
----------
.. [1] F. Cristian: Probabilistic clock synchronization. Distributed Computing 3, 1989. doi:10.1007/BF01784024
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit.program import context
from labkit.text.html import quantity

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ClockMeter", "ClockSample", "Clocks", "LedClock", "Window", "best_of", "wait_until"]


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
    """Return the offset from exchanges of (asked, answer, got): the shortest round trip counts.

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

    def __init__(self, comm: Intracomm, clock: Callable[[], float] = time.monotonic) -> None:
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

    def corrected(self, rank: int, times_s: object) -> NDArray[np.float64]:
        """Lead times of a rank's clock over to that of rank 0."""
        times = np.asarray(times_s, np.float64)
        samples = self.samples[rank]
        if not samples or not self.is_own(rank):
            return times
        first = samples[0]
        return times + (first.offset_s + self.drift(rank) * (times - first.at_s))

    def drift(self, rank: int) -> float:
        """Return how many seconds a rank's clock loses in each of its own seconds."""
        first, last = self.samples[rank][0], self.samples[rank][-1]
        span = last.at_s - first.at_s
        return (last.offset_s - first.offset_s) / span if span > 0 else 0.0

    @property
    def bound_s(self) -> float:
        """How far off a corrected time may be where clocks were compared."""
        return max((one.bound_s for samples in self.samples for one in samples), default=0.0)

    def text(self) -> str:
        """Return it as a sentence."""
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


# Windows: all ranks start together, at a moment of rank 0's clock that lies a little ahead.
#
# A barrier does not make ranks start together: they leave it one after another, in an order that is the
# barrier's own, and what is measured behind it contains that. Here rank 0 names a moment, every rank leads it
# over to its own clock (offset and drift are measured by ping-pong, again and again) and waits for it. Who
# arrives too late says so, and the run does not count.
#
# References
# ----------
# .. [1] T. Hoefler, T. Schneider, A. Lumsdaine: Accurately measuring overhead, communication time and
#    progression of blocking and nonblocking collective operations at massive scale. International Journal of
#    Parallel, Emergent and Distributed Systems 25(4), 2010.
# .. [2] S. Hunold, A. Carpen-Amarie: Reproducible MPI benchmarking is still not as easy as you think. IEEE
#    TPDS 27(12), 2016. doi:10.1109/TPDS.2016.2539167


#: clocks are compared again when the last comparison is older
_EVERY_S = 0.25
#: no clock of a computer goes wrong by more: a slope that is known worse than that is not used
_MOST_DRIFT = 1e-4
#: how far ahead a window begins: at the least, at the most, and by how many times the time it takes to agree
_LEAST_LEAD_S, _MOST_LEAD_S, _LEAD_TIMES = 100e-6, 50e-3, 4
#: sleeping may take longer than asked by about so much
_SLEEP_S = 1e-3
#: the last step of a simulated wait is no longer
_NEAR_S = 1e-6


def wait_until(moment: float, clock: Callable[[], float]) -> None:
    """Wait until a clock shows a moment: asleep on a simulated machine, awake at the end on a real one."""
    machine = context.simulated()
    if machine is not None:
        while (left := moment - clock()) > 0:  # in steps: planted noise may make each of them longer
            machine.sleep(0.9 * left if left > _NEAR_S else left)
        return
    left = moment - clock()
    if left > 2 * _SLEEP_S:
        time.sleep(left - _SLEEP_S)
    while clock() < moment:
        pass


class LedClock:
    """A rank's clock, led over to that of rank 0 by all comparisons so far.

    `comm`: For nothing else.
    `clock`: Seconds.
    """

    def __init__(self, comm: Intracomm, clock: Callable[[], float]) -> None:
        self._meter = ClockMeter(comm, clock)
        self.samples: list[ClockSample] = []
        self.offset_s = self.drift = self._at = 0.0

    def compare(self) -> None:
        """Compare the clocks; called by all ranks together."""
        self.samples.append(self._meter.compare())
        if not self.is_own:
            return
        at, offset, bound = (np.array(one) for one in zip(*self.samples, strict=True))
        span = float(at[-1] - at[0])
        self._at, self.offset_s, self.drift = float(at[-1]), float(offset[-1]), 0.0
        if span > 0 and float(bound[0] + bound[-1]) / span <= _MOST_DRIFT:
            weights = 1 / np.maximum(bound, 1e-12)
            self.drift, self.offset_s = (float(v) for v in np.polyfit(at - at[-1], offset, 1, w=weights))

    @property
    def is_own(self) -> bool:
        """Whether it cannot be the clock of rank 0."""
        return any(abs(one.offset_s) > one.bound_s for one in self.samples)

    @property
    def bound_s(self) -> float:
        """How far off it may be where it was compared last; 0 for rank 0's own clock."""
        return self.samples[-1].bound_s if self.samples and self.is_own else 0.0

    def led(self, own_s: float) -> float:
        """Return a time of this clock by that of rank 0."""
        return own_s + self.offset_s + self.drift * (own_s - self._at)

    def own(self, led_s: float) -> float:
        """Return a time of rank 0's clock by this one."""
        return (led_s - self.offset_s + self.drift * self._at) / (1 + self.drift)


class Window:
    """Brings all ranks of a communicator to start together, again and again.

    `comm`: For nothing else.
    `clock`: Seconds; of every rank its own.
    """

    def __init__(self, comm: Intracomm, clock: Callable[[], float]) -> None:
        self._comm, self._clock = comm, clock
        self.clock = LedClock(comm, clock)
        self.clock.compare()
        self._compared_s = clock()
        self._moment, self._arrived_late_s = np.empty(1), 0.0
        spent = np.zeros(1)
        comm.Barrier()  # rank 0 was busy with one after the other
        for _ in range(3):
            begin = clock()
            self._agree(0.0)
            spent[0] = max(spent[0], clock() - begin)
        most = self.most(spent)[0]
        self._lead_s = min(max(_LEAST_LEAD_S, _LEAD_TIMES * float(most)), _MOST_LEAD_S)

    def most(self, values: object) -> Any:
        """Return the largest of all ranks' values, for each of them."""
        from labkit import MPI

        found = np.empty_like(values)
        self._comm.Allreduce(values, found, op=MPI.MAX)
        return found

    def start(self) -> None:
        """Wait for a moment that rank 0 names, together with all others."""
        self._agree(self._lead_s)
        moment = self.clock.own(float(self._moment[0]))
        self._arrived_late_s = self._clock() - moment
        wait_until(moment, self._clock)

    def _agree(self, lead_s: float) -> None:
        self._comm.Barrier()  # nobody is still busy with the last run when the moment is named
        self._moment[0] = self._clock() + lead_s
        self._comm.Bcast(self._moment, root=0)

    def end(self, begin_s: float, end_s: float) -> tuple[float, float, float, float]:
        """Put together what the ranks' clocks showed when they began and ended.

        Returns: This rank's, by the clock of rank 0.
        Returns `time_s`: From the first rank's begin to the last rank's end.
        Returns `late_s`: How late the last rank began.
        """
        if self.most(np.array([end_s - self._compared_s]))[0] > _EVERY_S:
            self.clock.compare()
            self._compared_s = self._clock()
        begin, end = self.clock.led(begin_s), self.clock.led(end_s)
        moment = float(self._moment[0])
        mine = np.array([begin - moment, end - moment, moment - begin, self._arrived_late_s])
        late, last, first, arrived_late = self.most(mine)
        if arrived_late > 0:
            self._lead_s = min(2 * self._lead_s, _MOST_LEAD_S)
        return begin, end, float(last + first), float(late)
