"""Calls about ranks that have failed: a simulated rank that fails ends the run, so there are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labkit.comm.handles.groups import Group
from labkit.comm.handles.operators import OPERATORS
from labkit.comm.handles.special import IN_PLACE
from labkit.errors import UnsupportedError

__all__ = ["FaultTolerance"]

_BAND = OPERATORS["BAND"]


class FaultTolerance:
    """Agreement of the ranks that live, and communicators of them: all ranks live."""

    allreduce: Callable[..., Any]
    Dup: Callable[[], Any]
    Idup: Callable[[], tuple[Any, Any]]
    Iallreduce: Callable[..., Any]
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
        """Begin to do as `Agree` with the one C int of a buffer.

        Raises
        ------
        TypeError, ValueError
            It is no buffer, or not of one C int.
        """
        length = memoryview(flag).nbytes
        if length != 4:
            raise ValueError(f"flag: expecting the 4 bytes of one C int, got {length}")
        if self._remote_ranks() is not None:
            raise UnsupportedError(
                "Iagree over an intercommunicator is not simulated; Agree is, or merge the groups (Merge)"
            )
        return self.Iallreduce(IN_PLACE, [flag, 1, "i"], _BAND)

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
