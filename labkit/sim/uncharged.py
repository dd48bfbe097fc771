"""What ranks compute without being charged: a sampling profiler of the simulation's own thread.

Where computation is only charged (`labkit.sim.measured`), a rank's own code takes no simulated time, however
long it takes here. Another thread looks every 10 ms whose code runs, and a run that has charged nothing and
spent a notable share of its CPU time in the program's code says so. No signal handler: it would need room on
the stack of a rank that may have used it up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from types import TracebackType

from labkit import _kernels
from labkit.sim.isolation.code import is_installed

__all__ = ["REMARK", "OwnCode"]

REMARK = (
    "computation was free: the program's own code took much of the host's time and no simulated time; "
    'compute="measured" (--compute measured) charges what it takes here, labkit.compute(seconds) what you say'
)
_INTERVAL_S = 0.01
#: what is notable: so many seconds, such a share of the run's CPU time, and so many looks that found it: one
#: look stands for all since the last one, and in a short run two or three may have come at odd moments
_LEAST_S, _LEAST_SHARE, _LEAST_LOOKS = 0.03, 0.2, 5
#: how deep it looks for the program's code below that of libraries
_FRAMES = 64


class OwnCode:
    """Context that finds out how long this thread's CPU works on the program's own code.

    Attributes
    ----------
    seconds : float
        CPU time of the program's code, what it calls of libraries included.
    total_s : float
        CPU time of everything.
    """

    def __init__(self) -> None:
        self.seconds = self.total_s = 0.0
        self._looks = 0
        self._began_s = time.thread_time()
        self._is_over = threading.Event()
        self._watched = threading.get_ident()
        self._watch = threading.Thread(target=self._look, name="labkit-own-code", daemon=True)

    @property
    def is_notable(self) -> bool:
        """Whether a user should be told."""
        return self._looks >= _LEAST_LOOKS and self.seconds >= max(_LEAST_S, _LEAST_SHARE * self.total_s)

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
        self.total_s = time.thread_time() - self._began_s

    def _look(self) -> None:
        """Add the CPU time since the last look to whose code runs now."""
        clock = time.pthread_getcpuclockid(self._watched)
        last_s = self._began_s
        while not self._is_over.wait(_INTERVAL_S):
            now_s = time.clock_gettime(clock)
            if _is_own(_kernels.code_of_thread(self._watched, _FRAMES)):
                self.seconds += now_s - last_s
                self._looks += 1
            last_s = now_s


def _is_own(running: Sequence[tuple[str | None, str]]) -> bool:
    """Whether the innermost code that is neither a library's nor built in is the program's, not labkit's."""
    for module, file in running:
        if str(module).partition(".")[0] == "labkit":
            return False
        if not is_installed(module, file):
            return True
    return False
