"""A bench: what is run on all ranks again and again, started together, until its time is known."""

from __future__ import annotations

import gc
import platform
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from labkit.program import context
from labkit.text.html import quantity
from labkit.timing.clocks import Window
from labkit.timing.repeats import Conduct, Interval, Repeats, Series, interval, repeats_of

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["Bench", "Timing", "measure"]


class Bench:
    """Starts runs together and takes their times; all ranks call the same methods.

    Parameters
    ----------
    comm : communicator
        For nothing else.
    asked : Repeats
    warmup : int
        Runs that come first and do not count.
    cores : int, optional
        Of this host. Where its ranks have to share them none can wait awake for a window, and a barrier has
        to do, for all ranks.
    clock : callable
        Seconds; of every rank its own.
    """

    def __init__(
        self,
        comm: Intracomm,
        asked: Repeats,
        warmup: int = 0,
        cores: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._comm, self._clock, self._began_s = comm, clock, clock()
        self.series = Series(asked, warmup)
        self._window = Window(comm, clock)
        hosts = Counter(comm.allgather(platform.node()) if cores is not None else ())
        is_crowded = cores is not None and hosts[platform.node()] > cores
        self._crowded = bool(self._window.most(np.array([float(is_crowded)]))[0])
        self._last: tuple[float, float] | None = None

    @property
    def is_done(self) -> bool:
        """Whether enough is known."""
        return bool(self.series.stopped)

    @property
    def number(self) -> int:
        """The number of the next run that is kept, warm-up included."""
        return self.series.number

    def start(self) -> None:
        """Wait until all ranks start."""
        if self._crowded:
            self._comm.Barrier()
        else:
            self._window.start()

    def take(self, begin_s: float, end_s: float) -> bool:
        """Take in when this rank began and ended, and return whether the run is kept."""
        elapsed = end_s - self._began_s
        if self._crowded:
            time_s, elapsed = (float(v) for v in self._window.most(np.array([end_s - begin_s, elapsed])))
            self._last = None
            return self.series.take(time_s, 0.0, elapsed)
        begin, end, time_s, late_s = self._window.end(begin_s, end_s)
        elapsed = float(self._window.most(np.array([elapsed]))[0])
        self._last = begin, end
        return self.series.take(time_s, late_s, elapsed)

    def led(self, times: dict[str, Any]) -> dict[str, object]:
        """Return the times of the last run, with its phases, by the clock of rank 0."""
        if self._last is None:
            return times
        clock = self._window.clock
        phases = [
            (name, clock.led(first), clock.led(last), depth) for name, first, last, depth in times["phases"]
        ]
        begin, end = self._last
        return {**times, "begin": begin, "end": end, "phases": phases, "led": True}

    def conduct(self) -> Conduct:
        """Describe how it went; called by all ranks together."""
        found, clock = self.series.conduct(), self._window.clock
        own = np.array([float(clock.is_own), clock.bound_s, abs(clock.offset_s), abs(clock.drift)])
        most, count = self._window.most(own), np.empty(1)
        from labkit import MPI

        self._comm.Allreduce(own[:1].copy(), count, op=MPI.SUM)
        found.own_clocks = int(count[0])
        found.clock_bound_s, found.clock_offset_s, found.clock_drift = (float(v) for v in most[1:])
        if self._crowded:
            found.start, found.why_barrier = "barrier", "ranks share cores"
        return found


@dataclass(frozen=True)
class Timing:
    """What was measured of a piece of a program.

    `times_s`: Of every valid repetition, from the moment when all ranks started to the last rank's end.
    `conduct`: How it was measured.
    `is_simulated`: Whether the time is that of a simulated machine, where one repetition is enough.
    """

    times_s: tuple[float, ...]
    conduct: Conduct
    is_simulated: bool = False

    @property
    def interval(self) -> Interval:
        """The interval of the median (or of the mean, if that was asked for)."""
        asked = self.conduct.asked
        return interval(self.times_s, asked.get("statistic", "median"), asked.get("level", 0.95))

    def __str__(self) -> str:
        """Print in a sentence."""
        found = self.interval
        value = quantity(found.value, "s", 3)
        if self.is_simulated and len(self.times_s) == 1:
            return f"{value} (simulated: deterministic, one repetition)"
        spread = (
            f"between {quantity(found.low, 's', 3)} and {quantity(found.high, 's', 3)} ({found.level:.0%})"
            if np.isfinite(found.low + found.high)
            else "too few repetitions for an interval"
        )
        return f"{found.statistic} {value}, {spread}; {self.conduct.text()}"

    __repr__ = __str__


def measure(
    comm: Intracomm,
    call: Callable[[], object],
    *,
    repeats: int | Repeats | None = None,
    warmup: int = 1,
    clock: Callable[[], float] | None = None,
) -> Timing:
    """Time a piece of a program, such as one collective call, the way it is done for publication.

    All ranks start in a window of rank 0's clock; starts that are late are thrown away and counted; it is
    repeated until the 95 % interval of the median is within 5 %. Python's garbage collector rests meanwhile.

    Parameters
    ----------
    comm : communicator
        Its ranks all call this together.
    call : callable
        What is timed, without arguments; prepare buffers before.
    repeats : int or Repeats, optional
        A number, or when to stop; default: `Repeats()` on a real machine, and 1 on a simulated one, where
        every repetition takes the same time.
    warmup : int
        Calls before the first that counts; none where there is one repetition only.
    clock : callable, optional
        Seconds; default: the machine's.

    Returns
    -------
    Timing
        The same on every rank.

    Examples
    --------
    >>> import numpy as np
    >>> import labkit as lk
    >>> def program(comm):
    ...     data = np.zeros(100)
    ...     return lk.measure(comm, lambda: comm.Bcast(data))
    >>> lk.run(program, 16, "star").results[0]
    100 µs (simulated: deterministic, one repetition)
    """
    machine = context.simulated()
    is_simulated = machine is not None
    if clock is None:
        clock = machine.wtime if machine is not None else time.monotonic
    if repeats is None:
        repeats, warmup = (1, 0) if is_simulated else (Repeats(), warmup)
    cores = getattr(context.current(), "cores", None)
    own = comm.Dup()
    times: list[float] = []
    was_enabled = gc.isenabled()
    try:
        bench = Bench(own, repeats_of(repeats), warmup, cores, clock)
        gc.collect()
        gc.disable()
        while not bench.is_done:
            bench.start()
            begin = clock()
            call()
            end = clock()
            bench.take(begin, end)
        times += bench.series.times_s
        conduct = bench.conduct()
    finally:
        if was_enabled:
            gc.enable()
        own.Free()
    return Timing(tuple(times), conduct, is_simulated)
