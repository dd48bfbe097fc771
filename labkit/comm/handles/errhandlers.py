"""Error handlers: MPI's own by name, and the program's.

mpi4py raises whatever handler is set, unless it is ERRORS_ARE_FATAL; so do simulated calls. What a handler of
the program's own is asked for is `Call_errhandler` alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labkit import context
from labkit.comm.handles.base import MODULE_NAME, Handle
from labkit.comm.handles.exceptions import Exception as MPIException

__all__ = ["ERRHANDLERS", "Errhandler", "ErrorHandling", "give_back", "take_one"]


# Limits on a rank's objects with functions of its own, as mpi4py has them.


#: of one kind
_MOST = 32


def _counts() -> dict[str, int]:
    """Return how many the running rank has, by kind."""
    running = context.simulated()
    if running is None:
        return {}
    own: dict[Any, Any] = running.calls.attributes.setdefault((-1, running.calls.hub.rank), {})
    counts: dict[str, int] = own.setdefault("functions", {})
    return counts


def take_one(kind: str, what: str) -> None:
    """Count one more of a kind."""
    counts = _counts()
    if counts.get(kind, 0) >= _MOST:
        raise RuntimeError(
            f"cannot create too many user-defined {what}: a rank has {_MOST}; Free gives one back"
        )
    counts[kind] = counts.get(kind, 0) + 1


def give_back(kind: str) -> None:
    """Count one less."""
    counts = _counts()
    if counts.get(kind, 0) > 0:
        counts[kind] -= 1


_ERR_ARG = 13
_KNOWN = frozenset({"Free", "f2py", "free", "fromhandle", "fromint", "handle", "py2f", "toint"})


class Errhandler(Handle):
    """What is to be done about an error of MPI; falsy when it is ERRHANDLER_NULL."""

    __slots__ = ("__weakref__", "_what")
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

    def _identity(self) -> Any:
        return self._what if isinstance(self._what, str | None) else id(self._what)

    def __bool__(self) -> bool:
        return self._what is not None

    def __eq__(self, other: object) -> bool:
        return self._what is other._what if isinstance(other, Errhandler) else NotImplemented

    def __reduce__(self) -> Any:
        if isinstance(self._what, _Own):
            raise ValueError("cannot pickle an error handler that the program made itself")
        name = self._what or "ERRHANDLER_NULL"
        return name if self is ERRHANDLERS[name] else (type(self), (ERRHANDLERS[name],))

    def Free(self) -> None:
        """Give the handle back; it becomes ERRHANDLER_NULL."""
        if not self:
            raise MPIException(_ERR_ARG, "this is ERRHANDLER_NULL already")
        if any(self is constant for constant in ERRHANDLERS.values()):
            raise MPIException(_ERR_ARG, f"{self._what} is predefined and cannot be freed")
        if isinstance(self._what, _Own):
            give_back(f"{self._what.kind}.Create_errhandler")
        self._what = None

    def free(self) -> None:
        """Give the handle back; MPI's own handlers stay as they are."""
        if isinstance(self._what, _Own):
            self.Free()
        elif not any(self is constant for constant in ERRHANDLERS.values()):
            self._what = None


_NAMES = ("ERRORS_ARE_FATAL", "ERRORS_RETURN", "ERRORS_ABORT")
ERRHANDLERS: dict[str, Errhandler] = {"ERRHANDLER_NULL": Errhandler._of(None)} | {
    name: Errhandler._of(name) for name in _NAMES
}


class _Own:
    """A handler of the program's own."""

    __slots__ = ("function", "kind")

    def __init__(self, kind: str, function: Callable[[Any, int], None]) -> None:
        self.kind, self.function = kind, function


def made_handler(kind: str, function: Callable[[Any, int], None]) -> Errhandler:
    """Make a handler of a function of an object of MPI and an error code."""
    if not callable(function):
        raise TypeError(f"Create_errhandler needs a function({kind.lower()}, errorcode), got {function!r}")
    take_one(f"{kind}.Create_errhandler", "error handlers")
    return Errhandler._of(_Own(kind, function))


class ErrorHandling:
    """The error handler of a communicator, as each rank sees it."""

    _own: Callable[[], dict[Any, Any]]

    @classmethod
    def Create_errhandler(cls, errhandler_fn: Callable[[Any, int], None]) -> Errhandler:
        """Make a handler of a function of a communicator and an error code."""
        return made_handler(getattr(cls, "_attribute_kind", cls.__name__), errhandler_fn)

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
        if isinstance(what, _Own):
            what.function(self, int(errorcode))
        elif what in ("ERRORS_ARE_FATAL", "ERRORS_ABORT"):
            from labkit.comm.environment import abort

            abort(errorcode)
