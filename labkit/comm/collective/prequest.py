"""The persistent request, which `labkit.comm.communicator` makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from labkit.comm.handles.base import MODULE_NAME
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.status import Request

__all__ = ["Prequest"]


class Prequest(Request):
    """A persistent request: it describes a message or a collective, and `Start` begins it, again and again.

    Between a completion and the next start it is inactive: waits and tests return at once, with an empty
    status. Only `Free` makes it null.
    """

    __slots__ = ("_begin",)
    __module__ = MODULE_NAME
    _begin: Callable[[], Request]

    def __init__(self, request: Request | None = None) -> None:
        if request and not isinstance(request, Prequest):
            raise TypeError(f"request: expected a Prequest, got {type(request).__name__}")
        if request:
            self._begin = request._begin

    @classmethod
    def _of(cls, begin: Callable[[], Request]) -> Prequest:
        """Make an inactive request whose starts are calls of `begin`."""
        self = cls()
        self._make_persistent()
        self._begin = begin
        return self

    def Start(self) -> None:
        """Begin the communication.

        Raises
        ------
        MPI.Exception
            ERR_REQUEST if it is under way already, or null.
        """
        if not self or self._is_over() is not None:
            raise MPIException(7, "a request is started once, then waited for" if self else "null request")
        self._take(self._begin())

    @classmethod
    def Startall(cls, requests: Sequence[Prequest]) -> None:
        """Begin all of them, in the list's order."""
        for request in requests:
            request.Start()
