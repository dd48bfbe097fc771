"""Ranks that wait for each other in shared memory: ``while flag[0] == 0: pass``.

No call of MPI is made there, so nothing would ever let the rank run that sets the flag. Once a run has memory
that ranks share, a rank whose code runs for long without a call is interrupted, and the others go on.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

from labkit.sim.isolation import host_clock
from labkit.sim.where import place_of

__all__ = ["LOOK_S", "Interruptions"]

#: seconds of CPU between two looks
LOOK_S = 0.05
#: simulated seconds that the first interruption takes; the next ones of a rank take twice as long each
_STEP_S = 1e-6
NOTE = (
    "a rank ran for long without a call of MPI while ranks share memory; if it waited for another one's "
    "store there, how long that took in simulated time depends on this host. Wait in Win.Fence, a barrier or "
    "a receive instead"
)


class Interruptions:
    """Lets the other ranks go on where one waits in shared memory.

    Parameters
    ----------
    simulation : labkit.sim.simulation.Simulation
    """

    def __init__(self, simulation: Any) -> None:
        self._simulation = simulation
        self._seen: Any = None
        self._waits, self._step_s = -1, _STEP_S
        self._before: Any = None

    def begin(self) -> None:
        """Look from now on, where this is the main thread and there are others to wait for."""
        if self._simulation.ranks < 2:
            return
        self._simulation.context.shares_memory = True
        if self._before is None and threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGVTALRM, self._look)
            host_clock.setitimer(signal.ITIMER_VIRTUAL, LOOK_S, LOOK_S)

    def end(self) -> None:
        """Stop looking."""
        if self._before is not None:
            host_clock.setitimer(signal.ITIMER_VIRTUAL, 0.0)
            signal.signal(signal.SIGVTALRM, self._before)
            self._before = None

    def _look(self, number: int, frame: FrameType | None) -> None:
        hub = self._simulation.hub
        place = place_of(frame)
        is_own = place is not None and place.method == ""  # not inside a call
        now = (hub.rank, hub.switches) if hub.rank >= 0 and is_own and not hub.is_ending else None
        if now is None or now != self._seen:
            self._seen = now
            return
        self._seen = None
        self.give_way()

    def give_way(self) -> None:
        """Let the other ranks go on until their next store may have been made, where memory is shared."""
        hub, context = self._simulation.hub, self._simulation.context
        if not context.shares_memory:
            return
        context.note(NOTE)
        now_s = hub.clock(hub.rank)
        self._step_s = 2 * self._step_s if hub.rank == self._waits else _STEP_S
        self._waits = hub.rank
        # a rank that sleeps, or computes, is ahead: its store is made then
        ahead = (hub.clock(rank) for rank in range(self._simulation.ranks))
        hub.sleep(min((other - now_s for other in ahead if other > now_s), default=self._step_s))
        hub.catch_up("load from shared memory")
