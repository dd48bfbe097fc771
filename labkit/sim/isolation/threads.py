"""Threads of a rank: whose they are, and locks that let them and messages go on."""

from __future__ import annotations

import threading
from _thread import allocate_lock
from collections.abc import Iterator
from typing import Any

from labkit.comm.handles import exceptions
from labkit.sim.isolation.patches import Patch, Patches
from labkit.sim.isolation.waits import RankLock, owner_of_thread, waits_of_rank

__all__ = ["RankThreads"]


def _threading() -> Iterator[Patch]:
    whole, whole_join, rlock = threading.Thread.start, threading.Thread.join, threading.RLock
    is_alive = threading.Thread.is_alive

    def start(self: Any) -> None:
        owner = waits_of_rank() or owner_of_thread()
        if owner is None:
            whole(self)
        else:
            owner.begin(self, whole)

    def join(self: Any, timeout: float | None = None) -> None:
        waits = waits_of_rank()
        if waits is not None and self.ident is not None and self is not threading.current_thread():
            if not waits.wait(lambda: not is_alive(self), None if timeout is None else max(timeout, 0.0)):
                return
            timeout = None
        whole_join(self, timeout)

    def alive(self: Any) -> bool:
        waits = waits_of_rank()
        if waits is not None:
            waits.look(self)
        return bool(is_alive(self))

    def lock() -> Any:
        return RankLock() if _is_rank() else allocate_lock()

    def recursive() -> object:
        return threading._PyRLock() if _is_rank() else rlock()  # type: ignore[attr-defined]

    yield threading.Thread, "start", start
    yield threading.Thread, "join", join
    yield threading.Thread, "is_alive", alive
    for name in ("Lock", "_allocate_lock"):
        yield threading, name, lock
    yield threading, "RLock", recursive
    yield exceptions, "owner_of_thread", _hub_and_rank


def _is_rank() -> bool:
    return waits_of_rank() is not None or owner_of_thread() is not None


def _hub_and_rank() -> tuple[object, int] | None:
    owner = owner_of_thread()
    return None if owner is None else (owner.hub, owner.rank)


#: context in which ranks' threads are known, and their locks wait for messages, too
RankThreads = Patches(_threading)
