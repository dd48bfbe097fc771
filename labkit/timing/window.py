"""Windows: all ranks start together, at a moment of rank 0's clock that lies a little ahead.

A barrier does not make ranks start together: they leave it one after another, in an order that is the
barrier's own, and what is measured behind it contains that. Here rank 0 names a moment, every rank leads it
over to its own clock (offset and drift are measured by ping-pong, again and again) and waits for it. Who
arrives too late says so, and the run does not count.

References
----------
.. [1] T. Hoefler, T. Schneider, A. Lumsdaine: Accurately measuring overhead, communication time and
   progression of blocking and nonblocking collective operations at massive scale. International Journal of
   Parallel, Emergent and Distributed Systems 25(4), 2010.
.. [2] S. Hunold, A. Carpen-Amarie: Reproducible MPI benchmarking is still not as easy as you think. IEEE
   TPDS 27(12), 2016. doi:10.1109/TPDS.2016.2539167
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from labkit import context
from labkit.timing.clocks import ClockMeter, ClockSample

__all__ = ["LedClock", "Window", "wait_until"]

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

    Parameters
    ----------
    comm : communicator
        For nothing else.
    clock : callable
        Seconds.
    """

    def __init__(self, comm: Any, clock: Callable[[], float]) -> None:
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

    Parameters
    ----------
    comm : communicator
        For nothing else.
    clock : callable
        Seconds; of every rank its own.
    """

    def __init__(self, comm: Any, clock: Callable[[], float]) -> None:
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

    def most(self, values: Any) -> Any:
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

        Returns
        -------
        begin_s, end_s : float
            This rank's, by the clock of rank 0.
        time_s : float
            From the first rank's begin to the last rank's end.
        late_s : float
            How late the last rank began.
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
