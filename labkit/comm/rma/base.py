"""The base of every call on a window: the window, the running rank's part of it, the engine."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from labkit.comm.buffers import Simple
from labkit.comm.collective.native import Call, call_under_way, perform
from labkit.comm.handles.constants import PROC_NULL
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.place import here
from labkit.comm.rma.state import Origin, Origins, Part, WindowState
from labkit.comm.typed import is_phantom

__all__ = ["Now", "WindowBase", "wrong_sync"]

_ERR_RANK, _ERR_RMA_SYNC, _ERR_WIN = 6, 47, 53
_NULL = _ERR_WIN, "WIN_NULL, or a window that has been freed"
#: a rank that has come so often at one instant is polling, and then pays
_POLLS, _POLL_S = 64, 1e-7


class Now(NamedTuple):
    """A call of the running rank's."""

    name: str
    calls: Any
    hub: Any
    state: WindowState
    me: int  #: in the window
    part: Part  #: of this rank
    context: int  #: of the window's messages

    def world(self, rank: int) -> int:
        """World rank of a rank of the window."""
        return self.state.world[rank]


def wrong_sync(text: str) -> MPIException:
    """Make the error of a call outside its epoch."""
    return MPIException(_ERR_RMA_SYNC, text)


class WindowBase:
    """How calls on a window begin, and how transfers are waited for."""

    __slots__ = ("_comm", "_state")
    _state: WindowState | None
    _comm: Any  #: the window's ranks, with messages of the window's own

    def _now(self, name: str) -> Now:
        """Return the call under way; see `call_under_way`."""
        calls, state, me = call_under_way(self, "Win", name, _NULL)
        return Now(name, calls, calls.hub, state, me, state.parts[me], int(self._comm._context))

    def _check_rank(self, now: Now, rank: int) -> None:
        if not 0 <= rank < len(now.state.world):
            raise MPIException(
                _ERR_RANK,
                f"{now.name}: rank {rank} is not of this window, which has ranks 0 to "
                f"{len(now.state.world) - 1}, nor PROC_NULL ({PROC_NULL})",
            )

    def _barrier(self, now: Now) -> None:
        perform(self._comm, Call("barrier", f"Win.{now.name}"))

    @staticmethod
    def _poll(now: Now) -> None:
        """Let the engine catch up; a rank that comes again and again at one instant pays for it."""
        time, times = now.part.polls
        at = now.hub.now()
        times = times + 1 if at == time else 1
        now.part.polls = (at, times)
        if times >= _POLLS:
            now.hub.sleep(_POLL_S)
        now.hub.catch_up(now.name)

    @staticmethod
    def _give_way(now: Now) -> None:
        """Let the ranks that are here at this instant do what they are about to do: go on a bit later."""
        gate = now.hub.gate()
        now.hub.open_gate(gate, math.nextafter(now.hub.now(), math.inf))
        now.hub.wait_for([gate], now.name)
        now.hub.release_handles([gate])

    @staticmethod
    def _watched(now: Now, buffer: Simple, rank: int) -> Origin | None:
        """Watch a buffer at the origin, in checked runs.

        Not that of a request, whose end is not seen here, nor a part of the window, whose races are told.
        """
        if not now.calls.looks_at_stores or now.name[0] == "R" or is_phantom(buffer) or not buffer.bytes:
            return None
        if np.may_share_memory(buffer.memory, now.part.memory):
            return None
        if now.part.origins is None:
            now.part.origins = Origins()
        return now.part.origins.keep(buffer, now.name, rank, here())

    @staticmethod
    def _finish(now: Now, owner: int, peer: int | None, begun_by: int | None = None) -> None:
        """Wait for the transfers of a rank's list: with one other rank or all, or what one rank has begun.

        As in SMPI, calls of others that begin a transfer there return when the list is free again.
        """
        WindowBase._await(now, owner, peer, begun_by)
        if owner == now.me and now.part.origins is not None:
            now.state.note_changed(
                now.calls.note_fault, now.part.origins.end(peer), now.name, now.world(owner)
            )

    @staticmethod
    def _await(now: Now, owner: int, peer: int | None, begun_by: int | None) -> None:
        hub, part = now.hub, now.state.parts[owner]
        hub.catch_up(now.name)
        if not part.pending and not part.mutex.is_held:
            return
        part.mutex.acquire(hub, now.name)
        mine: list[Any] = []
        others: list[Any] = []
        for entry in part.pending:
            is_mine = peer in (None, entry.peer) and begun_by in (None, entry.origin)
            (mine if is_mine else others).append(entry)
        part.pending = others
        if mine:
            hub.wait_for([entry.handle for entry in mine], now.name)
            hub.catch_up(now.name)
        part.mutex.release(hub)
        hub.release_handles([entry.handle for entry in mine if not entry.is_owned])

    def _flush_transfers(self, now: Now, rank: int) -> None:
        """Wait for them; their accesses stay open to the end of the epoch."""
        self._finish(now, now.me, rank, now.me)
        if rank != now.me and rank in now.part.touched:
            self._give_way(now)
            self._finish(now, rank, now.me, now.me)

    def _flush(self, now: Now, rank: int) -> None:
        """Wait for what this rank has begun with another, on both sides."""
        self._flush_transfers(now, rank)
        now.part.touched.pop(rank, None)
        now.state.parts[rank].accesses.close(now.world(now.me))
