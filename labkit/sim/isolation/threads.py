"""Threads of a rank: they may compute, and what they call of MPI ends the run with a sentence.

A simulated rank's calls come from its main thread. In any other thread they would fail there, with a
traceback that nobody reads, and the run would go on without what the thread was to do. The rank's number and
the number of ranks they may ask for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, Protocol

from labkit.comm.handles import exceptions
from labkit.sim.isolation.patches import Patch, Patches

__all__ = ["Owner", "RankThreads", "owner_of_thread", "register_owner"]

_OWNER = "_labkit_owner"


class Owner(Protocol):
    """A rank as its threads know it."""

    hub: Any
    rank: int

    def abort(self, code: int) -> NoReturn:
        """End the rank's run."""

    def report(self, name: str) -> None:
        """Is told that one of them has called MPI."""


_find: Callable[[], Owner | None] = lambda: None  # noqa: E731


def register_owner(find: Callable[[], Owner | None]) -> None:
    """Register what returns the rank that runs on this thread, None outside ranks."""
    global _find
    _find = find


def _patches() -> Iterator[Patch]:
    whole = threading.Thread.start

    def start(self: Any) -> None:
        owner = _find() or owner_of_thread()
        if owner is not None:
            self.__dict__[_OWNER] = owner
        whole(self)

    yield threading.Thread, "start", start
    yield exceptions, "told_outside", _tell
    yield exceptions, "owner_of_thread", _hub_and_rank


def _tell(name: str) -> None:
    owner = owner_of_thread()
    if owner is not None:
        owner.report(name)


def _hub_and_rank() -> tuple[Any, int] | None:
    owner = owner_of_thread()
    return None if owner is None else (owner.hub, owner.rank)


def owner_of_thread() -> Owner | None:
    """Return the rank that has started this thread; None if none has."""
    return getattr(threading.current_thread(), _OWNER, None)


#: context in which ranks' threads are known
RankThreads = Patches(_patches)
