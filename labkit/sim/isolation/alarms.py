"""Alarms of simulated ranks: `signal.alarm` and its like count simulated seconds, each rank's for itself.

A handler runs where its rank's time passes or is read: in `time.sleep` and `signal.pause`, and at the next
reading of a clock after a call of MPI, which no signal interrupts on real MPI either. The host's own timer is
left to the time limit of the run.
"""

from __future__ import annotations

import functools
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

from labkit.program.context import simulated
from labkit.sim.isolation.patches import Patch

__all__ = ["Alarms", "alarm_patches"]

#: the exit code of a process that an alarm has ended
_ENDED = 128 + signal.SIGALRM


class Alarms:
    """The alarms of a run, by rank.

    Attributes
    ----------
    due : dict of int to tuple of float
        When the next one comes, and seconds from one to the next (0: there is one).
    handlers : dict of int to object
        What `signal.signal` was given; the others have the system's.
    """

    def __init__(self) -> None:
        self.due: dict[int, tuple[float, float]] = {}
        self.handlers: dict[int, Any] = {}

    def left(self, rank: int, now: float) -> tuple[float, float]:
        """Return the seconds to the next one, and from one to the next, as `signal.getitimer` does."""
        if rank not in self.due:
            return 0.0, 0.0
        at, interval = self.due[rank]
        return max(at - now, 1e-6), interval

    def set(self, rank: int, now: float, seconds: float, interval: float) -> None:
        """Set a rank's alarm, in the place of the one before; 0 seconds: there is none."""
        if seconds:
            self.due[rank] = now + seconds, interval
        else:
            self.due.pop(rank, None)

    def ring(self, rank: int, now: float) -> None:
        """Run the rank's handler if its alarm is due."""
        at, interval = self.due.get(rank, (now + 1.0, 0.0))
        if at > now:
            return
        if interval:  # those that were missed meanwhile are one
            self.due[rank] = max(at + interval, now), interval
        else:
            del self.due[rank]
        handler = self.handlers.get(rank, signal.SIG_DFL)
        if handler == signal.SIG_DFL:
            raise SystemExit(_ENDED)
        if handler != signal.SIG_IGN:
            handler(signal.SIGALRM, sys._getframe(1))


def _on_rank() -> Any:
    """Return the machine where a rank's program calls; None: a call of labkit's own, or outside any run."""
    name = sys._getframe(2).f_globals.get("__name__", "")
    return None if isinstance(name, str) and name.partition(".")[0] == "labkit" else simulated()


def _checked(seconds: float) -> float:
    if seconds < 0:
        raise signal.ItimerError(22, "Invalid argument")
    return float(seconds)


def alarm_patches() -> Iterator[Patch]:
    """Yield what ranks have in the place of the host's functions."""
    made: list[Callable[..., object]] = [_alarm, _setitimer, _getitimer, _signal, _getsignal, _pause]
    for make in [*made, _sigtimedwait]:
        name = make.__name__[1:]
        if hasattr(signal, name):
            yield signal, name, make(getattr(signal, name))


def _alarm(whole: Callable[..., int]) -> Callable[..., int]:
    @functools.wraps(whole)
    def alarm(seconds: int, /) -> int:
        machine = _on_rank()
        return whole(seconds) if machine is None else round(machine.set_alarm(_checked(int(seconds)), 0.0)[0])

    return alarm


def _setitimer(whole: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(whole)
    def setitimer(which: int, seconds: float, interval: float = 0.0, /) -> object:
        machine = _on_rank()
        if machine is None or which != signal.ITIMER_REAL:
            return whole(which, seconds, interval)
        return machine.set_alarm(_checked(seconds), _checked(interval))

    return setitimer


def _getitimer(whole: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(whole)
    def getitimer(which: int, /) -> object:
        machine = _on_rank()
        return whole(which) if machine is None or which != signal.ITIMER_REAL else machine.alarm_left()

    return getitimer


def _signal(whole: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(whole)
    def set_handler(signalnum: int, handler: object, /) -> object:
        machine = _on_rank() if signalnum == signal.SIGALRM else None
        if machine is None:
            return whole(signalnum, handler)
        if not callable(handler) and handler not in (signal.SIG_DFL, signal.SIG_IGN):
            raise TypeError("signal handler must be signal.SIG_IGN, signal.SIG_DFL, or a callable object")
        return machine.set_alarm_handler(handler)

    return set_handler


def _getsignal(whole: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(whole)
    def getsignal(signalnum: int, /) -> object:
        machine = _on_rank() if signalnum == signal.SIGALRM else None
        return whole(signalnum) if machine is None else machine.alarm_handler()

    return getsignal


def _pause(whole: Callable[[], None]) -> Callable[[], None]:
    @functools.wraps(whole)
    def pause() -> None:
        machine = _on_rank()
        left = (0.0, 0.0) if machine is None else machine.alarm_left()
        if left[0]:
            machine.sleep(left[0])
        else:
            whole()

    return pause


def _sigtimedwait(whole: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(whole)
    def sigtimedwait(sigset: object, timeout: float, /) -> object:
        machine = _on_rank()
        if machine is None or timeout < 0:
            return whole(sigset, timeout)
        machine.sleep(timeout)
        return whole(sigset, 0)

    return sigtimedwait
