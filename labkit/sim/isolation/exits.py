"""The end of a script's rank: `atexit`, and threads that are waited for, at the end of its process."""

from __future__ import annotations

import atexit
import contextlib
import sys
import traceback
from collections.abc import Callable
from typing import Any

from labkit import _kernels
from labkit.sim.isolation.waits import waits_of_rank

__all__ = ["RankExits"]

Handler = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class RankExits:
    """The exit handlers of the ranks, in place of the process's."""

    def __init__(self) -> None:
        self._handlers: dict[int, list[Handler]] = {}

    def install(self) -> None:
        """Take the place of `atexit`, for the rest of this process."""
        register, unregister = atexit.register, atexit.unregister

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

        atexit.register, atexit.unregister = own_register, own_unregister

    def run(self, rank: int) -> None:
        """End a rank as Python ends a process: threads first, then the handlers, the last one first."""
        waits = waits_of_rank()
        if waits is not None:
            waits.join()
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
