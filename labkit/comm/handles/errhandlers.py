"""Error handlers: MPI's own by name, and the program's.

mpi4py raises whatever handler is set, unless it is ERRORS_ARE_FATAL; so do simulated calls. What a handler of
the program's own is asked for is `Call_errhandler` alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labkit.comm.handles.base import MODULE_NAME, Handle
from labkit.comm.handles.exceptions import Exception as MPIException

__all__ = ["ERRHANDLERS", "Errhandler", "ErrorHandling"]

_ERR_ARG = 13
_KNOWN = frozenset({"Free", "f2py", "free", "fromhandle", "fromint", "handle", "py2f", "toint"})


class Errhandler(Handle):
    """What is to be done about an error of MPI; falsy when it is ERRHANDLER_NULL."""

    __slots__ = ("_what",)
    __module__ = MODULE_NAME
    __hash__ = None
    _known = _KNOWN
    _what: Any  #: a constant's name, a function, or None: ERRHANDLER_NULL

    def __new__(cls, errhandler: Errhandler | None = None) -> Errhandler:
        """Return a handle of ERRHANDLER_NULL, or of the handler given."""
        if errhandler is not None and not isinstance(errhandler, Errhandler):
            raise TypeError(f"errhandler: expected an Errhandler, got {type(errhandler).__name__}")
        return cls._of(None if errhandler is None else errhandler._what)

    @classmethod
    def _of(cls, what: Any) -> Errhandler:
        self = object.__new__(cls)
        self._what = what
        return self

    def __bool__(self) -> bool:
        return self._what is not None

    def __eq__(self, other: object) -> bool:
        return self._what is other._what if isinstance(other, Errhandler) else NotImplemented

    def __reduce__(self) -> Any:
        if callable(self._what):
            raise ValueError("cannot pickle an error handler that the program made itself")
        name = self._what or "ERRHANDLER_NULL"
        return name if self is ERRHANDLERS[name] else (Errhandler, (ERRHANDLERS[name],))

    def Free(self) -> None:
        """Give the handle back; it becomes ERRHANDLER_NULL."""
        if not self:
            raise MPIException(_ERR_ARG, "this is ERRHANDLER_NULL already")
        if any(self is constant for constant in ERRHANDLERS.values()):
            raise MPIException(_ERR_ARG, f"{self._what} is predefined and cannot be freed")
        self._what = None

    def free(self) -> None:
        """Give it back unless it is null or predefined."""
        if callable(self._what):
            self.Free()


_NAMES = ("ERRORS_ARE_FATAL", "ERRORS_RETURN", "ERRORS_ABORT")
ERRHANDLERS: dict[str, Errhandler] = {"ERRHANDLER_NULL": Errhandler._of(None)} | {
    name: Errhandler._of(name) for name in _NAMES
}


class ErrorHandling:
    """The error handler of a communicator, as each rank sees it."""

    _own: Callable[[], dict[Any, Any]]

    @classmethod
    def Create_errhandler(cls, errhandler_fn: Callable[[Any, int], None]) -> Errhandler:
        """Make a handler of a function of a communicator and an error code."""
        if not callable(errhandler_fn):
            raise TypeError(f"Create_errhandler needs a function(comm, errorcode), got {errhandler_fn!r}")
        return Errhandler._of(errhandler_fn)

    def Get_errhandler(self) -> Errhandler:
        """Return the handler; at first ERRORS_RETURN, which mpi4py sets: errors are raised."""
        return Errhandler._of(self._own().get("errhandler", "ERRORS_RETURN"))

    def Set_errhandler(self, errhandler: Errhandler) -> None:
        """Set the handler. Errors are raised in any case."""
        if not isinstance(errhandler, Errhandler) or not errhandler:
            raise MPIException(_ERR_ARG, f"{errhandler!r} is no error handler")
        self._own()["errhandler"] = errhandler._what

    def Call_errhandler(self, errorcode: int) -> None:
        """Let the handler of the program's own look at an error."""
        what = self._own().get("errhandler")
        if callable(what):
            what(self, int(errorcode))
        elif what in ("ERRORS_ARE_FATAL", "ERRORS_ABORT"):
            from labkit.comm.environment import abort

            abort(errorcode)
