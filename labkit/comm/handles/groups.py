"""Groups: ordered sets of ranks, from which communicators are made."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

from labkit import _kernels
from labkit.comm import surface
from labkit.comm.buffering import Buffering
from labkit.comm.handles.base import MODULE_NAME, Handle
from labkit.comm.handles.constants import PROC_NULL, UNDEFINED
from labkit.comm.handles.errhandlers import Errhandler, ErrorHandling
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.info import Info
from labkit.program import context

__all__ = ["GROUP_EMPTY", "GROUP_NULL", "SESSION_NULL", "Group", "Session"]


_ERR_RANK, _ERR_GROUP = 6, 9
_IDENT, _SIMILAR, _UNEQUAL = 0, 2, 3


class Group(Handle):
    """An ordered set of ranks of the run; made by `Comm.Get_group` and from other groups.

    Attributes
    ----------
    size : int
        Number of ranks.
    rank : int
        Rank of the running process in the group, UNDEFINED outside it.
    """

    __slots__ = ("__weakref__", "_ranks")
    __module__ = MODULE_NAME
    __hash__ = None
    _known = surface.GROUP
    _ranks: tuple[int, ...] | None  #: ranks in COMM_WORLD; None: GROUP_NULL

    def __new__(cls, group: Group | None = None) -> Group:
        """Return a handle of GROUP_NULL, or of the group given."""
        if group is not None and not isinstance(group, Group):
            raise TypeError(f"group: expected a Group, got {type(group).__name__}")
        return cls._of(None if group is None else group._ranks)

    @classmethod
    def _of(cls, ranks: tuple[int, ...] | None) -> Group:
        self = object.__new__(cls)
        self._ranks = ranks
        return self

    def __eq__(self, other: object) -> bool:
        return self._ranks == other._ranks if isinstance(other, Group) else NotImplemented

    def __bool__(self) -> bool:
        return self._ranks is not None

    def __repr__(self) -> str:
        return (
            "<labkit.MPI.Group null>"
            if self._ranks is None
            else f"<labkit.MPI.Group of {len(self._ranks)} ranks>"
        )

    def __reduce__(self) -> str | tuple[object, ...]:
        if self is GROUP_EMPTY or self is GROUP_NULL:
            return "GROUP_EMPTY" if self is GROUP_EMPTY else "GROUP_NULL"
        if self._ranks:
            raise ValueError("cannot pickle a group that the program made itself")
        return type(self), (GROUP_NULL if self._ranks is None else GROUP_EMPTY,)

    def _identity(self) -> object:
        return self._ranks

    def _members(self) -> tuple[int, ...]:
        if self._ranks is None:
            raise MPIException(_ERR_GROUP, "this is GROUP_NULL, or a group that has been freed")
        return self._ranks

    def Get_size(self) -> int:
        """Number of ranks."""
        return len(self._members())

    def Get_rank(self) -> int:
        """Rank of the running process in the group, UNDEFINED outside it."""
        return _place(self._members(), max(_kernels.current_rank(), 0))

    size = property(Get_size, doc="Number of ranks.")
    rank = property(Get_rank, doc="Rank of the running process in the group, UNDEFINED outside it.")

    def Translate_ranks(self, ranks: Sequence[int] | None = None, group: Group | None = None) -> list[int]:
        """Return the ranks of another group that are these ranks here; UNDEFINED where it has none.

        Parameters
        ----------
        ranks : sequence of int, optional
            Default: all.
        group : Group, optional
            Default: that of COMM_WORLD.
        """
        mine = self._members()
        chosen = range(len(mine)) if ranks is None else [operator.index(rank) for rank in ranks]
        theirs = _places(None if group is None else group._members())
        known = [PROC_NULL if rank == PROC_NULL else self._world(rank) for rank in chosen]
        return [PROC_NULL if rank == PROC_NULL else theirs(rank) for rank in known]

    def _world(self, rank: int) -> int:
        members = self._members()
        if not 0 <= rank < len(members):
            raise MPIException(_ERR_RANK, f"rank={rank} is not in this group, which has {len(members)} ranks")
        return members[rank]

    def Compare(self, group: Group) -> int:
        """Compare: IDENT, SIMILAR (the same ranks in another order) or UNEQUAL."""
        mine, theirs = self._members(), group._members()
        if mine == theirs:
            return _IDENT
        return _SIMILAR if sorted(mine) == sorted(theirs) else _UNEQUAL

    @classmethod
    def Create_from_session_pset(cls, session: Any, pset_name: str) -> Group:
        """Return the group of a session's process set."""
        made: Group = session.Create_group(pset_name)
        return cls._of(made._ranks)

    # --- new groups -------------------------------------------------------------------------------

    def Dup(self) -> Group:
        """Return a handle of the same group."""
        return type(self)._of(self._members())

    @classmethod
    def Union(cls, group1: Group, group2: Group) -> Group:
        """Return all ranks of the first, then those of the second that the first does not have."""
        first, second = group1._members(), group2._members()
        known = set(first)
        return cls._of(first + tuple(rank for rank in second if rank not in known))

    @classmethod
    def Intersection(cls, group1: Group, group2: Group) -> Group:
        """Return the ranks of the first that the second has too."""
        known = set(group2._members())
        return cls._of(tuple(rank for rank in group1._members() if rank in known))

    Intersect = Intersection

    @classmethod
    def Difference(cls, group1: Group, group2: Group) -> Group:
        """Return the ranks of the first that the second does not have."""
        known = set(group2._members())
        return cls._of(tuple(rank for rank in group1._members() if rank not in known))

    def Incl(self, ranks: Sequence[int]) -> Group:
        """Return the ranks listed, in the list's order."""
        return type(self)._of(self._listed(operator.index(rank) for rank in ranks))

    def Excl(self, ranks: Sequence[int]) -> Group:
        """Return all ranks but those listed."""
        left_out = set(self._listed((operator.index(rank) for rank in ranks), _ERR_GROUP))
        return type(self)._of(tuple(rank for rank in self._members() if rank not in left_out))

    def Range_incl(self, ranks: Sequence[tuple[int, int, int]]) -> Group:
        """Return the ranks of the ranges listed: (first, last, stride), the last included."""
        return self.Incl(_spelled_out(ranks))

    def Range_excl(self, ranks: Sequence[tuple[int, int, int]]) -> Group:
        """Return all ranks but those of the ranges listed."""
        return self.Excl(_spelled_out(ranks))

    def _listed(self, ranks: Iterable[int], if_twice: int = _ERR_RANK) -> tuple[int, ...]:
        found = tuple(self._world(rank) for rank in ranks)
        if len(set(found)) != len(found):
            raise MPIException(if_twice, "a rank is listed twice; a group has every rank once")
        return found

    def Free(self) -> None:
        """Give the group back; the handle becomes GROUP_NULL."""
        self._members()
        if self is not GROUP_EMPTY:
            self._ranks = None

    def free(self) -> None:
        """Give the group back unless it is null or predefined."""
        if self._ranks is not None:
            self.Free()


def _place(members: tuple[int, ...], world: int) -> int:
    return members.index(world) if world in members else UNDEFINED


def _places(members: tuple[int, ...] | None) -> Any:
    """Return the function from a rank in COMM_WORLD to the rank in a group."""
    if members is None:
        return lambda world: world
    places = {world: rank for rank, world in enumerate(members)}
    return lambda world: places.get(world, UNDEFINED)


def _spelled_out(ranges: Sequence[tuple[int, int, int]]) -> list[int]:
    ranks: list[int] = []
    for given in ranges:
        if len(given) != 3:
            raise ValueError(f"a range is (first, last, stride), got {given!r}")
        first, last, stride = given
        if stride == 0 or (last - first) * stride < 0:
            raise MPIException(
                _ERR_RANK, f"the range {first}, {last}, {stride} (first, last, stride) goes nowhere"
            )
        ranks += range(first, last + (1 if stride > 0 else -1), stride)
    return ranks


GROUP_NULL = Group._of(None)
GROUP_EMPTY = Group._of(())


# Sessions: groups of ranks by the names of process sets, without COMM_WORLD.


_ERR_ARG, _ERR_SESSION = 13, 78
_WORLD, _SELF = _SETS = ("mpi://WORLD", "mpi://SELF")


class Session(Buffering, ErrorHandling, Handle):
    """A session of MPI; falsy when it is SESSION_NULL."""

    __slots__ = ("_state",)
    __module__ = MODULE_NAME
    __hash__ = None
    _known = surface.SESSION
    _state: dict[object, object] | None

    def __new__(cls, session: Session | None = None) -> Session:
        """Return a handle of SESSION_NULL, or of the session given."""
        if session is not None and not isinstance(session, Session):
            raise TypeError(f"session: expected a Session, got {type(session).__name__}")
        return cls._of(None if session is None else session._state)

    @classmethod
    def _of(cls, state: dict[object, Any] | None) -> Session:
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

    def __reduce__(self) -> str | tuple[object, ...]:
        if self._state is not None:
            raise ValueError("cannot pickle a session")
        return "SESSION_NULL" if self is SESSION_NULL else (type(self), (SESSION_NULL,))

    def _identity(self) -> object:
        return id(self._state)

    def _own(self) -> dict[object, Any]:
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

    def Get_num_psets(self, info: object = None) -> int:
        """Return the number of process sets: those of the world and of this rank."""
        self._own()
        return len(_SETS)

    def Get_nth_pset(self, n: int, info: object = None) -> str:
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
