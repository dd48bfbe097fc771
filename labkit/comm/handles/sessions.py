"""Sessions: groups of ranks by the names of process sets, without COMM_WORLD."""

from __future__ import annotations

from typing import Any

from labkit import _kernels, context
from labkit.comm import names
from labkit.comm.buffering import Buffering
from labkit.comm.handles.base import MODULE_NAME, Handle
from labkit.comm.handles.errhandlers import Errhandler, ErrorHandling
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.groups import Group
from labkit.comm.handles.info import Info

__all__ = ["SESSION_NULL", "Session"]

_ERR_ARG, _ERR_SESSION = 13, 78
_WORLD, _SELF = _SETS = ("mpi://WORLD", "mpi://SELF")


class Session(Buffering, ErrorHandling, Handle):
    """A session of MPI; falsy when it is SESSION_NULL."""

    __slots__ = ("_state",)
    __module__ = MODULE_NAME
    __hash__ = None
    _known = names.SESSION
    _state: dict[Any, Any] | None

    def __new__(cls, session: Session | None = None) -> Session:
        """Return a handle of SESSION_NULL, or of the session given."""
        if session is not None and not isinstance(session, Session):
            raise TypeError(f"session: expected a Session, got {type(session).__name__}")
        return cls._of(None if session is None else session._state)

    @classmethod
    def _of(cls, state: dict[Any, Any] | None) -> Session:
        self = object.__new__(cls)
        self._state = state
        return self

    @classmethod
    def Init(cls, info: Info | None = None, errhandler: Errhandler | None = None) -> Session:
        """Begin a session."""
        self = cls._of({"info": dict(info.items()) if info else {}})
        if errhandler:
            self.Set_errhandler(errhandler)
        return self

    def __bool__(self) -> bool:
        return self._state is not None

    def __eq__(self, other: object) -> bool:
        return self._state is other._state if isinstance(other, Session) else NotImplemented

    def __reduce__(self) -> Any:
        if self._state is not None:
            raise ValueError("cannot pickle a session")
        return "SESSION_NULL" if self is SESSION_NULL else (type(self), (SESSION_NULL,))

    def _identity(self) -> Any:
        return id(self._state)

    def _own(self) -> dict[Any, Any]:
        if self._state is None:
            raise MPIException(_ERR_SESSION, "this is SESSION_NULL, or a session that has been finalised")
        return self._state

    def Finalize(self) -> None:
        """End the session; the handle becomes SESSION_NULL."""
        self._own()
        self._state = None

    def free(self) -> None:
        """End it unless it is null."""
        self._state = None

    def Get_num_psets(self, info: Any = None) -> int:
        """Return the number of process sets: those of the world and of this rank."""
        self._own()
        return len(_SETS)

    def Get_nth_pset(self, n: int, info: Any = None) -> str:
        """Return the name of a process set."""
        self._own()
        if not 0 <= int(n) < len(_SETS):
            raise MPIException(_ERR_ARG, f"there are process sets 0 to {len(_SETS) - 1}, not {n}")
        return _SETS[int(n)]

    def Get_info(self) -> Info:
        """Return a copy of the hints it was begun with."""
        return Info.Create(dict(self._own()["info"]))

    def Get_pset_info(self, pset_name: str) -> Info:
        """Return what is known of a process set: ``mpi_size``."""
        return Info.Create({"mpi_size": str(self.Create_group(pset_name).Get_size())})

    def Create_group(self, pset_name: str) -> Group:
        """Return the group of a process set."""
        self._own()
        if pset_name not in _SETS:
            raise MPIException(
                _ERR_ARG, f"there is no process set {pset_name!r}; there are {', '.join(_SETS)}"
            )
        running = context.simulated()
        everybody = range(1 if running is None else running.size)
        mine = max(_kernels.current_rank(), 0)
        return Group._of(tuple(everybody) if pset_name == _WORLD else (mine,))


SESSION_NULL = Session._of(None)
