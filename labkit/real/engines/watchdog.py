"""A thread that ends a run on its engine when nobody else does: too much output, or a client that is gone."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import BinaryIO

__all__ = ["Watchdog"]

#: how long the process that started a run has to end it at the time limit, before the engine does it itself
GRACE_S = 15.0
#: how often the thread looks
LOOK_S = 0.1


class Watchdog:
    """Interrupts the calling thread when its output or its time exceeds the limits.

    Parameters
    ----------
    output : file
        Gets what the run prints.
    output_limit_bytes : int
        How much that may be.
    limit_s : float or None
        How long the run may take, in seconds.
    """

    def __init__(self, output: BinaryIO, output_limit_bytes: int, limit_s: float | None) -> None:
        self.reason = ""
        self._output, self._most = output, output_limit_bytes
        self._deadline = None if limit_s is None else time.monotonic() + limit_s + GRACE_S
        self._over = threading.Event()
        self._thread = threading.get_ident()
        self._watcher = threading.Thread(target=self._watch, daemon=True, name="labkit-watchdog")

    def __enter__(self) -> Watchdog:
        self._watcher.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._over.set()
        self._watcher.join()

    def _watch(self) -> None:
        pause_s = LOOK_S
        while not self._over.wait(pause_s):
            if os.fstat(self._output.fileno()).st_size > self._most:
                self.reason = "output"
            elif self._deadline is not None and time.monotonic() > self._deadline:
                self.reason = "time"
            if self.reason:
                signal.pthread_kill(self._thread, signal.SIGINT)
                pause_s = 0.5  # again: a program may have caught the first one
