"""Sockets of simulated ranks: a rank that waits for one lets the other ranks run meanwhile.

All ranks live in one process: a call that blocked it would wait for a peer that cannot come.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterator
from typing import Any

from labkit.context import current
from labkit.sim.isolation.patches import Patch, Patches

__all__ = ["RankSockets"]

#: simulated time between two looks
_LOOK_S = 1e-6


def _patches() -> Iterator[Patch]:
    for name in ("accept", "recv", "recv_into", "recvfrom"):
        yield socket.socket, name, _patient(getattr(socket.socket, name))


def _patient(whole: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        machine: Any = current()
        if machine is not None and self.gettimeout() is None:
            while not select.select([self], [], [], 0)[0]:
                machine.sleep(_LOOK_S)
                machine.calls.hub.catch_up(whole.__name__)  # the others come this far
        return whole(self, *args, **kwargs)

    return method


#: context in which ranks' sockets are patient
RankSockets = Patches(_patches)
