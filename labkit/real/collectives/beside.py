"""Nonblocking collectives by labkit's algorithms: carried on by threads, as MPI's generalized requests."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

__all__ = ["Beside"]

#: tags of calls under way at the same time, of one private communicator; the first one is of blocking calls
_FIRST, _TAGS = 12, 20_000


class Beside:
    """The nonblocking calls of one private communicator.

    A thread for each goes through the waits of its schedule, as MPI's rule of progress wants: a rank that
    computes, or waits for something else, holds nobody up. The program has a request of MPI's own.

    Parameters
    ----------
    mpi : module
        ``mpi4py.MPI``.
    """

    def __init__(self, mpi: Any) -> None:
        self._mpi = mpi
        self._calls = 0
        self._threads: list[threading.Thread] = []

    def tag(self) -> int:
        """Return the tag of the next call; all ranks start the same ones in the same order."""
        self._calls += 1
        return _FIRST + self._calls % _TAGS

    def go_on(self, finish: Callable[[], None]) -> Any:
        """Return a request that is complete once `finish`, called in a thread, has returned."""
        failed: list[BaseException] = []

        def query(status: Any) -> None:
            if failed:
                raise failed[0]

        request = self._mpi.Grequest.Start(query)

        def work() -> None:
            try:
                finish()
            except BaseException as error:  # the rank that waits gets it
                failed.append(error)
            finally:
                request.Complete()

        self._threads = [thread for thread in self._threads if thread.is_alive()]
        self._threads.append(threading.Thread(target=work, name="labkit collective", daemon=True))
        self._threads[-1].start()
        return request

    def finish(self) -> None:
        """Wait until all calls are through: the communicator goes away."""
        for thread in self._threads:
            thread.join()
