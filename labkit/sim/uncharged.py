"""Uncharged computation of ranks: a sampling profiler of the simulation's own thread.

Where computation is only charged (`labkit.sim.measured`), a rank's own code takes no simulated time, however
long it takes here. Another thread looks every 10 ms whose code runs, more often at first; a run that has
charged nothing and spent a notable share of its CPU time in the program's code says so, or a sweep of such
runs. No signal handler: it would need room on the stack of a rank that may have used it up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from types import TracebackType

from labkit import _kernels
from labkit.result.uncharged import Uncharged
from labkit.sim.isolation import host_clock
from labkit.sim.isolation.code import is_installed

__all__ = ["OwnCode"]

#: between two looks: short at first, as a run may be over soon
_FIRST_S, _INTERVAL_S = 0.001, 0.01
#: how deep it looks for the program's code below that of libraries
_FRAMES = 64


class OwnCode:
    """Context that finds out how long this thread's CPU works on the program's own code.

    Attributes
    ----------
    found : Uncharged
    """

    def __init__(self) -> None:
        self.found = Uncharged()
        self._began_s = host_clock.thread_time()
        self._is_over = threading.Event()
        self._watched = threading.get_ident()
        self._watch = threading.Thread(target=self._look, name="labkit-own-code", daemon=True)

    def __enter__(self) -> OwnCode:
        if hasattr(time, "pthread_getcpuclockid"):  # not on macOS
            self._watch.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        if self._watch.ident is not None:
            self._watch.join()
        self.found.total_s = host_clock.thread_time() - self._began_s

    def _look(self) -> None:
        """Add the CPU time since the last look to whose code runs now."""
        clock = time.pthread_getcpuclockid(self._watched)
        last_s, wait_s = self._began_s, _FIRST_S
        while not self._is_over.wait(wait_s):
            now_s, wait_s = host_clock.clock_gettime(clock), min(2 * wait_s, _INTERVAL_S)
            if _is_own(_kernels.code_of_thread(self._watched, _FRAMES)):
                self.found.seconds += now_s - last_s
                self.found.looks += 1
            last_s = now_s


def _is_own(running: Sequence[tuple[str | None, str]]) -> bool:
    """Whether the innermost code that is neither a library's nor built in is the program's, not labkit's."""
    for module, file in running:
        if str(module).partition(".")[0] == "labkit":
            return False
        if not is_installed(module, file):
            return True
    return False
