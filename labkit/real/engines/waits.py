"""Waiting for MPI in a way that an interrupt can end, on an engine that has to live on afterwards.

A rank that is blocked inside the C library hears nothing. So every blocking call is made as its nonblocking
twin, and the waiting is done here: test at once a few times, then give way to other processes between the
tests, then sleep. The signal handler of the engine only sets `WAITING.stop` while code of this package runs,
and the loop raises: a request is never lost between two lines, and what is still pending keeps its buffers.
"""

from __future__ import annotations

import ctypes
import math
import os
import time
from collections.abc import Callable
from typing import Any

from mpi4py import MPI as MPI4PY

from labkit.comm.surface import REQUESTS, Method, add_methods, over
from labkit.real.engines.noted import NOTE_S, WaitPage

__all__ = [
    "WAITING", "Aborted", "Interrupted", "Message", "PersistentRequest", "Request", "disown", "finish",
    "keep", "until",
]  # fmt: skip

#: untyped: names of the module are replaced during a run, and classes mixed into its own
MPI: Any = MPI4PY

#: tests in a row: a message between two cores is there after one or two of them
SPINS = 16
#: how long a waiting rank only gives way, as MPI itself does when it yields; then it sleeps as well
YIELD_S = 0.05
#: the longest sleep between two tests, and its share of the time waited so far
SLEEP_S, SLEEP_SHARE = 1e-3, 0.01
#: pending requests that are tolerated before the finished ones among them are sought out
MANY = 256


class Interrupted(KeyboardInterrupt):
    """Raised inside a program whose run is being ended; not an `Exception`, so that few programs catch it."""


class Aborted(BaseException):
    """The program called ``comm.Abort``: the run ends, the engines live on."""


class _Waiting:
    """What the waiting of this process shares with its signal handler."""

    def __init__(self) -> None:
        self.stop = False
        #: the program's call of Abort: whatever it has caught, it waits for nothing more
        self.aborted: Aborted | None = None
        #: where it is noted who waits for what, if the engine has such a page
        self.page: WaitPage | None = None
        #: requests that nobody waits for any more, with their buffers: MPI may still write into them
        self.pending: list[Any] = []
        #: communicators that the program has freed; they go when no message can be under way in them
        self.freed: list[Any] = []

    def tidy(self) -> None:
        """Forget the pending requests that have finished meanwhile."""
        self.pending = [request for request in self.pending if not _is_over(request)]


WAITING = _Waiting()

_yield = getattr(os, "sched_yield", lambda: None)
#: mpi4py's own class: the name `MPI.Request` means another one during a run
_Native: Any = MPI.Request
_Message: Any = MPI.Message
_Test = _Native.Test


def until(ready: Callable[[], Any], what: Any = None) -> Any:
    """Call `ready` until it returns something true, and return that."""
    if WAITING.aborted is not None:
        raise WAITING.aborted
    for _ in range(SPINS):
        if found := ready():
            return found
    begin = time.monotonic()
    found = _tested(ready, begin, math.inf if WAITING.page is None else NOTE_S)
    if not found and WAITING.page is not None:
        with WAITING.page.waiting(what) as note_again:
            found = _tested(ready, begin, math.inf, note_again)
    return found


def _tested(
    ready: Callable[[], Any], begin: float, patience_s: float, after_each: Callable[[], None] = lambda: None
) -> Any:
    """Test until it is over, or until so many seconds after the beginning."""
    while not (found := ready()):
        after_each()
        if WAITING.stop:
            WAITING.stop = False
            raise Interrupted("the run is being ended")
        waited = time.monotonic() - begin
        if waited > patience_s:
            return None
        if waited > YIELD_S:
            time.sleep(min(SLEEP_S, SLEEP_SHARE * waited))
        else:
            _yield()
    return found


def finish(request: Any, status: Any = None) -> None:
    """Wait for a request of mpi4py; when that is interrupted, what is pending keeps its buffers."""
    for _ in range(3):  # most messages: without the cost of a closure
        if _Test(request, status):
            return
    try:
        until(lambda: _Test(request, status), request)
    except BaseException:
        keep(request)
        raise


def keep(request: Any) -> None:
    """Keep a request that nobody will wait for any more."""
    if len(WAITING.pending) >= MANY:
        WAITING.tidy()
    if request != MPI.REQUEST_NULL:
        WAITING.pending.append(_Native(request))


def disown(request: Any) -> None:
    """Turn a request into ``REQUEST_NULL``, because a copy of it lives on: nobody looks for its end twice."""
    size = MPI._sizeof(MPI.REQUEST_NULL)
    ctypes.memmove(MPI._addressof(request), MPI._addressof(MPI.REQUEST_NULL), size)


def _is_over(request: Any) -> bool:
    try:
        return bool(request == MPI.REQUEST_NULL or _Test(request))
    except MPI.Exception:
        return True


class Request(MPI.Request):  # type: ignore[misc]
    """A request whose waits can be interrupted, and which is not lost when the program drops it."""

    def __del__(self) -> None:
        if self != MPI.REQUEST_NULL:
            WAITING.pending.append(_Native(self))

    def Wait(self, status: Any = None) -> bool:  # noqa: N802
        """Wait until it is complete."""
        for _ in range(SPINS):
            if _Test(self, status):
                return True
        return bool(until(lambda: _Test(self, status), self))


def _until_over(wait: Method) -> str | None:
    """Return how a wait is made of mpi4py's test."""
    if wait.form != "blocking":
        return None
    test = wait.name.replace("Wait", "Test").replace("wait", "test")
    arguments = "self, {args}" if wait.kind == "one" else "{args}"
    what = "self" if wait.kind == "one" else "requests"
    return f"until(lambda: over(method, Native.{test}({arguments})), {what})[0]"


add_methods(
    Request,
    REQUESTS,
    _until_over,
    {"__name__": __name__, "Native": _Native, "over": over, "until": until},
    wrap=lambda wait, function: function if wait.kind == "one" else classmethod(function),
)


class PersistentRequest(Request, MPI.Prequest):  # type: ignore[misc]
    """A persistent request whose waits can be interrupted."""


class Message(MPI.Message):  # type: ignore[misc]
    """A matched message whose reception can be interrupted."""

    def Recv(self, buf: Any, status: Any = None) -> None:  # noqa: N802
        """Receive it into a buffer."""
        finish(_Message.Irecv(self, buf), status)

    def recv(self, status: Any = None) -> Any:
        """Receive the object."""
        return Request(_Message.irecv(self)).wait(status)

    def Irecv(self, buf: Any) -> Request:  # noqa: N802
        """Begin to receive it into a buffer."""
        return Request(_Message.Irecv(self, buf))

    def irecv(self) -> Request:
        """Begin to receive the object."""
        return Request(_Message.irecv(self))
