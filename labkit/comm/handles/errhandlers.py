"""Error handlers: MPI's own by name, and the program's.

mpi4py sets ERRORS_RETURN and raises the error that a call returns. Where a rank sets another handler, the
methods of MPI's classes are wrapped, once a process: an error goes to the handler of the communicator, window
or file that the call is about, or of COMM_WORLD. ERRORS_ARE_FATAL and ERRORS_ABORT end the job.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

from labkit import _kernels
from labkit.comm import environment
from labkit.comm.environment import abort, own_settings
from labkit.comm.handles.base import KNOWN, MODULE_NAME, Handle
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.place import name_as
from labkit.program import context

__all__ = ["ERRHANDLERS", "WATCHED", "Errhandler", "ErrorHandling", "give_back", "take_one"]


# Limits on a rank's objects with its own functions, as mpi4py has them.


#: of one kind
_MOST = 32


def _counts() -> dict[str, int]:
    """Return how many the running rank has, by kind."""
    running = context.simulated()
    if running is None:
        return {}
    own: dict[object, Any] = running.calls.attributes.setdefault((-1, running.calls.hub.rank), {})
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
    def _of(cls, what: object) -> Errhandler:
        self = object.__new__(cls)
        self._what = what
        return self

    def _identity(self) -> object:
        return self._what if isinstance(self._what, str | None) else id(self._what)

    def __bool__(self) -> bool:
        return self._what is not None

    def __eq__(self, other: object) -> bool:
        return self._what is other._what if isinstance(other, Errhandler) else NotImplemented

    def __reduce__(self) -> str | tuple[object, ...]:
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
        """Give the handle back; MPI's own handlers stay unchanged."""
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


def made_handler(kind: str, function: Callable[[object, int], None]) -> Errhandler:
    """Make a handler of a function of an object of MPI and an error code."""
    if not callable(function):
        raise TypeError(f"Create_errhandler needs a function({kind.lower()}, errorcode), got {function!r}")
    take_one(f"{kind}.Create_errhandler", "error handlers")
    return Errhandler._of(_Own(kind, function))


class ErrorHandling:
    """The error handler of a communicator, as each rank sees it."""

    _own: Callable[[], dict[object, Any]]

    @classmethod
    def Create_errhandler(cls, errhandler_fn: Callable[[object, int], None]) -> Errhandler:
        """Make a handler of a function of a communicator and an error code."""
        return made_handler(getattr(cls, "_attribute_kind", cls.__name__), errhandler_fn)

    def Get_errhandler(self) -> Errhandler:
        """Return the handler; at first ERRORS_RETURN, unless `mpi4py.rc.errors` says otherwise."""
        return Errhandler._of(_handler_of(self))

    def Set_errhandler(self, errhandler: Errhandler) -> None:
        """Set what this rank does about errors: raise them, end the job, or call a function."""
        if not isinstance(errhandler, Errhandler) or not errhandler:
            raise MPIException(_ERR_ARG, f"{errhandler!r} is no error handler")
        self._own()["errhandler"] = errhandler._what
        if errhandler._what != "ERRORS_RETURN":
            _watch_errors()

    def Call_errhandler(self, errorcode: int) -> None:
        """Let the handler look at an error."""
        what = _handler_of(self)
        if isinstance(what, _Own):
            what.function(self, int(errorcode))
        elif what in ("ERRORS_ARE_FATAL", "ERRORS_ABORT"):
            abort(errorcode)


def _handler_of(one: ErrorHandling) -> object:
    own = own_settings() or {}
    return one._own().get("errhandler", own.get("errors", "ERRORS_RETURN"))


#: the classes whose methods are wrapped once a rank has set a handler
WATCHED: list[type] = []


def _watch_errors() -> None:
    """From now on give the errors of MPI's methods to the handlers that ranks have set.

    Again for each handler: what records a run puts back what it found.
    """
    own = set(WATCHED)
    for cls in sorted(WATCHED, key=lambda cls: len(cls.__mro__)):  # what others inherit from comes first
        homes = {name: base for base in reversed(cls.__mro__) for name in vars(base) if name[0] != "_"}
        for name, home in homes.items():
            found = vars(home)[name]
            if name.endswith("_errhandler") or (home is not cls and home in own):
                continue
            if isinstance(found, classmethod | staticmethod):
                if not hasattr(found.__func__, _MARK):
                    setattr(cls, name, type(found)(_watched(found.__func__)))
            elif isinstance(found, FunctionType | _COMPILED):
                if not hasattr(found, _MARK):
                    setattr(cls, name, _watched(found))
            elif isinstance(found, property) and not hasattr(found.fget, _MARK):
                setattr(cls, name, property(_watched(found.fget), found.fset, found.fdel, found.__doc__))


environment.watch_errors = _watch_errors
_COMPILED = type(str.join) | _kernels.QuickMethod
#: an attribute of methods that are watched
_MARK = "_gives_errors_to_handlers"


def _watched(method: Any) -> Any:
    """Return a method whose errors go to a handler: those of the outermost call, as calls use one another."""

    @functools.wraps(method)
    def call(*args: object, **kwargs: object) -> object:
        own = own_settings()
        if own is None or own.get("is_in_call"):
            return method(*args, **kwargs)
        own["is_in_call"] = True
        about = _about((*args, *kwargs.values()))  # a request that is complete is about nothing any more
        try:
            return method(*args, **kwargs)
        except MPIException as error:
            about.Call_errhandler(error.Get_error_code())
            raise
        finally:
            own["is_in_call"] = False

    made: object = name_as(call, call.__name__, call.__qualname__)
    setattr(made, _MARK, True)
    return made


def _about(arguments: tuple[object, ...]) -> ErrorHandling:
    """Return the communicator, window or file that a call is about; a request is about its communicator."""
    if getattr(arguments[0], "__name__", "") == "File":
        opening: ErrorHandling = KNOWN["FILE_NULL"]
        return opening
    for one in arguments:
        for part in one if isinstance(one, list | tuple) else (one,):
            found = part if isinstance(part, ErrorHandling) else getattr(part, "_comm", None)
            if isinstance(found, ErrorHandling) and found:
                return found
    world: ErrorHandling = KNOWN["COMM_WORLD"]
    return world
