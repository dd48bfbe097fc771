"""asyncio in simulated ranks: a running loop for each, whose waiting passes simulated time."""

from __future__ import annotations

import asyncio
import asyncio.selector_events
import select
import socket
from collections.abc import Callable, Iterator
from typing import Any

from labkit import _kernels
from labkit.program.context import current
from labkit.sim.isolation import process_state
from labkit.sim.isolation.patches import Patch, Patches
from labkit.sim.isolation.waits import waits_of_rank

__all__ = ["RankLoops", "RankSockets"]


def _patches() -> Iterator[Patch]:
    events = asyncio.events
    read, write = events._get_running_loop, events._set_running_loop

    def running() -> object:
        own = process_state.swaps()
        return read() if own is None or "event loop" in own else None  # a notebook's is no rank's

    def set_running(loop: Any) -> None:
        own = process_state.swaps()
        if own is not None:
            own.add("event loop", read, write)
        write(loop)

    yield events, "_get_running_loop", running
    yield events, "_set_running_loop", set_running
    kind = asyncio.selector_events.BaseSelectorEventLoop
    whole = kind.__init__

    def begin(self: Any, *args: Any, **kwargs: Any) -> None:
        whole(self, *args, **kwargs)
        if _kernels.current_rank() >= 0:
            self._selector.select = _simulated(self._selector)
            self.time = lambda: (current() or _Outside).wtime()

    yield kind, "__init__", begin


class _Outside:
    """Stands for the machine where a loop outlives its rank."""

    @staticmethod
    def wtime() -> float:
        return 0.0


#: context in which ranks have their own event loops
RankLoops = Patches(_patches)


def _simulated(selector: Any) -> Callable[..., object]:
    """Let a loop wait as a rank does: messages, threads and simulated time go on."""
    select, first = selector.select, len(selector.get_map())

    def wait(timeout: float | None = None) -> object:
        waits = waits_of_rank()
        if waits is None or (timeout is not None and timeout <= 0):
            return select(timeout)
        ready: list[object] = []

        def look() -> bool:
            ready.extend(select(0) if not ready else ())
            return bool(ready)

        waits.wait(look, timeout, is_open=len(selector.get_map()) > first)
        return ready

    return wait


# Sockets of simulated ranks: a rank that waits for one lets the other ranks run meanwhile.
#
# All ranks live in one process: a call that blocked it would wait for a peer that cannot come.


#: simulated time between two looks
_LOOK_S = 1e-6


def _socket_patches() -> Iterator[Patch]:
    for name in ("accept", "recv", "recv_into", "recvfrom"):
        yield socket.socket, name, _patient(getattr(socket.socket, name))


def _patient(whole: Callable[..., object]) -> Callable[..., object]:
    def method(self: Any, *args: object, **kwargs: object) -> object:
        machine: Any = current()
        if machine is not None and self.gettimeout() is None:
            while not select.select([self], [], [], 0)[0]:
                machine.sleep(_LOOK_S)
                machine.calls.hub.catch_up(whole.__name__)  # the others come this far
        return whole(self, *args, **kwargs)

    return method


#: context in which ranks' sockets are patient
RankSockets = Patches(_socket_patches)
