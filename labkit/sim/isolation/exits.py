"""The end of a script's rank: `atexit`, and threads that are waited for, at the end of its process."""

from __future__ import annotations

import atexit
import contextlib
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

from labkit import _kernels

__all__ = ["RankExits"]

Handler = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class RankExits:
    """The exit handlers of the ranks, in place of the process's."""

    def __init__(self) -> None:
        self._handlers: dict[int, list[Handler]] = {}
        self._threads: dict[int, list[threading.Thread]] = {}

    def install(self) -> None:
        """Take the place of `atexit`, for the rest of this process; the ranks' threads are known, too."""
        register, unregister, start = atexit.register, atexit.unregister, threading.Thread.start

        def own_register(function: Any, /, *args: Any, **kwargs: Any) -> Any:
            rank = _kernels.current_rank()
            if rank < 0:
                return register(function, *args, **kwargs)
            if not callable(function):
                raise TypeError("the first argument must be callable")
            self._handlers.setdefault(rank, []).append((function, args, kwargs))
            return function

        def own_unregister(function: Any, /) -> None:
            rank = _kernels.current_rank()
            if rank < 0:
                return unregister(function)
            kept = [one for one in self._handlers.get(rank, ()) if one[0] != function]
            self._handlers[rank] = kept
            return None

        def own_start(thread: threading.Thread) -> None:
            rank = _kernels.current_rank()
            if rank >= 0:
                self._threads.setdefault(rank, []).append(thread)
            start(thread)

        atexit.register, atexit.unregister = own_register, own_unregister
        threading.Thread.start = own_start  # type: ignore[method-assign, assignment]

    def run(self, rank: int) -> None:
        """End a rank as Python ends a process: threads first, then the handlers, the last one first."""
        for thread in self._threads.pop(rank, ()):
            if not thread.daemon:
                thread.join()
        handlers = self._handlers.get(rank)
        while handlers:
            function, args, kwargs = handlers.pop()
            try:
                function(*args, **kwargs)
            except SystemExit:
                continue
            except Exception:  # as Python does: told, and no reason not to end
                print("Exception ignored in atexit callback:", function, file=sys.stderr)
                traceback.print_exc()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # closed, or whatever the rank has put there
                stream.flush()
