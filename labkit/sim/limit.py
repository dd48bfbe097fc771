"""The time limit of a simulated run: it also ends ranks that never come back.

On the main thread a timer signal interrupts whatever Python code runs; on other threads an asynchronous
exception does. Both come again while a rank swallows them; a rank that swallows them all is put aside.
The engine's own loops look at the clock themselves.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any, Protocol

from labkit.sim.isolation import host_clock

__all__ = ["TimeLimit", "TimeUp"]

_AGAIN_S = 0.1
_PATIENCE = 20
_REPORT_FRAMES = 200


class TimeUp(BaseException):
    """Unwinds the running rank when the time limit has passed."""


class Limited(Protocol):
    """What the limit needs of a simulation."""

    hub: Any

    def time_up(self, frame: FrameType | None) -> None:
        """Note that time is up, once, with the frame that was running."""


class TimeLimit:
    """Context in which a simulation may take so much host time.

    Parameters
    ----------
    simulation : Limited
    seconds : float or None
        None for no limit.
    """

    def __init__(self, simulation: Limited, seconds: float | None) -> None:
        self._simulation = simulation
        self._seconds = seconds
        self._knocks = 0
        self._is_reporting = False
        self._has_knocked = False
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self._is_signal = False
        self._before: Any = None
        self._timer_before = (0.0, 0.0)
        self._began = 0.0

    def __enter__(self) -> TimeLimit:
        if self._seconds is None:
            return self
        self._began = host_clock.monotonic()
        self._simulation.hub.set_limit(self._seconds, self._passed)
        if threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer"):
            self._is_signal = True
            self._before = signal.signal(signal.SIGALRM, self._on_alarm)
            self._timer_before = host_clock.setitimer(signal.ITIMER_REAL, self._seconds, _AGAIN_S)
        else:
            thread = threading.get_ident()
            threading.Thread(target=self._watch, args=(thread,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._seconds is None:
            return
        if self._is_signal:
            host_clock.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, self._before)
            left, interval = self._timer_before
            if left:  # somebody else's timer: give it what is left of its time
                left = max(left - (host_clock.monotonic() - self._began), 1e-3)
                host_clock.setitimer(signal.ITIMER_REAL, left, interval)
            return
        with self._lock:
            self._is_over.set()
        if self._has_knocked:
            _take_pending()

    def _passed(self) -> None:
        """Raise from the engine's loops, where no rank's code runs."""
        self._simulation.time_up(None)
        raise TimeUp

    def _on_alarm(self, number: int, frame: FrameType | None) -> None:
        if self._simulation.hub.rank < 0 or self._is_reporting:
            return  # the engine's loops see it themselves; a report on many ranks outlasts a knock
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(limit + _REPORT_FRAMES)  # a rank that has used up its stack is told of, too
        self._is_reporting = True
        try:
            self._simulation.time_up(frame)
        finally:
            self._is_reporting = False
            sys.setrecursionlimit(limit)
        self._knocks += 1
        if self._knocks > _PATIENCE:
            self._knocks = 0
            self._simulation.hub.abandon()
        raise TimeUp

    def _watch(self, thread: int) -> None:
        assert self._seconds is not None
        if self._is_over.wait(self._seconds):
            return
        while True:
            with self._lock:
                if self._is_over.is_set():
                    return
                if self._simulation.hub.rank >= 0:
                    self._simulation.time_up(sys._current_frames().get(thread))
                    self._has_knocked = True
                    _raise_in(thread, TimeUp)
            if self._is_over.wait(_AGAIN_S):
                return


def _raise_in(thread: int, kind: type[BaseException]) -> None:
    """Raise an exception in a thread as soon as it runs Python code."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))


def _take_pending() -> None:
    """Take the exception that may still be pending in this thread.

    CPython lowers the flag of a pending exception only when one is raised: taken back unraised (with NULL),
    the flag would stay up, and under a tracer CPython 3.11 then repeats one instruction for ever.
    """
    with contextlib.suppress(TimeUp):
        _raise_in(threading.get_ident(), TimeUp)
        for _ in range(1000):  # it comes with one of the next jumps
            pass
