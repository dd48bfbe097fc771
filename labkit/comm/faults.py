"""Calls about ranks that have failed: a simulated rank that fails ends the run, so there are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labkit.comm.collective.native import refuse_in_recordings, shared_calls
from labkit.comm.handles.groups import Group
from labkit.comm.handles.operators import OPERATORS
from labkit.comm.handles.special import IN_PLACE
from labkit.comm.known import KNOWN

__all__ = ["FaultTolerance"]

_BAND = OPERATORS["BAND"]


class FaultTolerance:
    """Agreement of the ranks that live, and communicators of them: all ranks live."""

    allreduce: Callable[..., Any]
    Dup: Callable[[], Any]
    Idup: Callable[[], tuple[Any, Any]]
    _context: int
    _world_ranks: Callable[[], list[int]]
    _check: Callable[[], None]
    _remote_ranks: Callable[[], list[int] | None]

    def Get_failed(self) -> Group:
        """Return the group of ranks that have failed: empty."""
        self._check()
        return Group._of(())

    def Ack_failed(self, num_to_ack: int | None = None) -> int:
        """Say that failures are known; how many are: 0."""
        self._check()
        return 0

    def Agree(self, flag: int) -> int:
        """Combine the bits of all ranks' flags by "and"; of both groups, of an intercommunicator."""
        mine = int(flag)
        if self._remote_ranks() is None:
            return int(self.allreduce(mine, _BAND))
        return int(self.allreduce(mine, _BAND)) & int(self._local.allreduce(mine, _BAND))  # type: ignore[attr-defined]

    def Iagree(self, flag: Any) -> Any:
        """Begin to do as `Agree` with the one C int of a buffer, in no order with other collectives.

        Raises
        ------
        TypeError, ValueError
            It is no buffer, or not of one C int.
        """
        length = memoryview(flag).nbytes
        if length != 4:
            raise ValueError(f"flag: expecting the 4 bytes of one C int, got {length}")
        return self._agreeing().Iallreduce(IN_PLACE, [flag, 1, "i"], _BAND)

    def _agreeing(self) -> Any:
        """Return a communicator of all its ranks, of both groups, for agreements alone."""
        calls = shared_calls("Iagree")
        refuse_in_recordings(calls, "Iagree")
        key = ("agreements of", self._context)
        if key not in calls.private:
            ranks = {*self._world_ranks(), *(self._remote_ranks() or ())}
            comm = KNOWN["Intracomm"]()
            comm._become("group", calls.hub.new_context(), sorted(ranks))
            calls.private[key] = comm
        return calls.private[key]

    def Shrink(self) -> Any:
        """Return a communicator of the ranks that live: a duplicate."""
        return self.Dup()

    def Ishrink(self) -> tuple[Any, Any]:
        """Begin to do as `Shrink`: the communicator, ready with the request, and the request."""
        return self.Idup()

    def Is_revoked(self) -> bool:
        """Whether somebody has called Revoke: no, it is refused."""
        self._check()
        return False
