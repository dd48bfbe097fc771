"""Answers to what programs ask of their machine by habit: a rank is told nothing of it, and need not fail.

The system calls behind these functions are refused (`labkit.process.confinement.seccomp`), since they tell
how busy the machine and other ranks are. What is answered here follows from what the rank itself has charged.
"""

from __future__ import annotations

import builtins
import io
import os
import time
from collections.abc import Callable
from functools import wraps
from types import ModuleType, SimpleNamespace
from typing import Any

try:
    import resource as _resource
except ImportError:  # not on every system
    resource: ModuleType | None = None
else:
    resource = _resource

__all__ = ["answer"]


def answer(wtime: Callable[[], float]) -> None:
    """Let a rank ask for its use of the machine, for limits and clocks, and write to the null device."""
    if resource is not None:
        struct, endless = resource.struct_rusage, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        _put(resource, "getrusage", lambda who: struct((wtime(), 0.0, *[0] * 14)))
        _put(resource, "getrlimit", lambda kind: endless)
        _put(resource, "setrlimit", lambda kind, limits: None)
    _put(os, "times", lambda: os.times_result((wtime(), 0.0, 0.0, 0.0, wtime())))
    _put(os, "getpriority", lambda which, who: 0)
    _put(os, "nice", lambda increment: 0)
    _put(os, "umask", lambda mask: 0o022)
    _put(os, "getpgid", lambda pid: os.getpid())
    _put(os, "getsid", lambda pid: os.getpid())
    _put(os, "getlogin", lambda: "rank")
    _put(time, "clock_gettime", lambda clock: wtime())
    _put(time, "clock_gettime_ns", lambda clock: int(wtime() * 1e9))
    _put(time, "clock_getres", lambda clock: _CLOCK.resolution)
    _put(time, "get_clock_info", lambda name: _CLOCK)
    builtins.open = io.open = _with_null_device(io.open)


_CLOCK = SimpleNamespace(implementation="charged time", monotonic=True, adjustable=False, resolution=1e-6)


def _put(module: Any, name: str, function: Callable[..., Any]) -> None:
    if hasattr(module, name):
        setattr(module, name, function)


def _with_null_device(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Return `open` that also opens the null device for writing, which a rank has already."""

    @wraps(plain)
    def opened(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        path = os.fspath(file) if isinstance(file, os.PathLike) else file
        if path == os.devnull and isinstance(mode, str) and set(mode) & set("wax+"):
            kwargs["closefd"] = False  # of the standard output's, which is this device
            return plain(1, mode.replace("x", "w").replace("a", "w"), *args, **kwargs)
        return plain(file, mode, *args, **kwargs)

    return opened
