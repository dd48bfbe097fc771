"""The intercommunicator: its groups, how it is made, and what is made of it."""

from __future__ import annotations

from typing import Any

from labkit.comm.collective.native import arrive, leave, shared_calls
from labkit.comm.communicator import COMM_NULL, Comm, Intracomm
from labkit.comm.handles.base import MODULE_NAME
from labkit.comm.handles.constants import CONSTANTS, UNDEFINED
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.groups import Group
from labkit.comm.handles.keyvals import copied, deleted
from labkit.comm.inter.exchange import GroupExchanges
from labkit.comm.inter.objects import GroupObjects
from labkit.comm.known import KNOWN

__all__ = ["Intercomm"]

_ERR_COMM, _ERR_GROUP = 5, 9
_IDENT, _CONGRUENT, _SIMILAR, _UNEQUAL = 0, 1, 2, 3
_TAG = 0x40000000


class Intercomm(GroupExchanges, GroupObjects, Comm):
    """A communicator of two groups: messages go to, and come from, the ranks of the other group.

    Attributes
    ----------
    rank, size : int
        In this rank's own group.
    remote_size : int
    remote_group : Group
    """

    __module__ = MODULE_NAME

    def __init__(self, comm: Comm | None = None) -> None:
        if self and self._remote_ranks() is None:
            raise TypeError("expecting an intercommunicator")

    @classmethod
    def _between(cls, group: Any, local_leader: int, peer_comm: Any, remote_leader: int, tag: int) -> Any:
        """Return a communicator of a communicator's group and another one: see `Create_intercomm`."""
        arrive(group, "Create_intercomm", {"local_leader": local_leader})
        leave("Create_intercomm")
        hub, theirs = shared_calls("Create_intercomm").hub, None
        mine = (group._world_ranks(), int(hub.new_context())) if group.rank == local_leader else None
        if group.rank == local_leader:
            private = Comm(peer_comm)  # type: ignore[call-arg]
            private._use_private_context()
            at = tag & 0x1FFFFFFF | 0x20000000
            theirs = private.sendrecv(mine, remote_leader, at, None, remote_leader, at)
        (local, own_context), (remote, other_context) = group.bcast((mine, theirs), local_leader)
        if set(local) & set(remote):
            raise MPIException(_ERR_COMM, "the groups of an intercommunicator must have no rank in common")
        return cls._joined(own_context if local[0] < remote[0] else other_context, local, remote)

    @classmethod
    def _joined(cls, context: int, local: list[int], remote: list[int]) -> Any:
        """Return the communicator of two groups, with these messages."""
        made = cls()
        made._become("group", context, local, remote)
        calls = shared_calls("Create_intercomm")
        key = ("local group of", context, local[0])
        if key not in calls.private:
            inner = Intracomm()
            inner._become("group", calls.hub.new_context(), local)
            calls.private[key] = inner
        return made

    @property
    def _local(self) -> Any:
        """The communicator of this rank's own group, for what its ranks agree on among themselves."""
        return shared_calls("Intercomm").private["local group of", self._context, self._world_ranks()[0]]

    def _private(self, name: str, root: int, op: str = "") -> tuple[Any, int]:
        number = arrive(self._local, name, {})
        shared_calls(name).arrive_between(self, name, number)
        return self._own_messages(name), number & 0x3FFFFFFF | _TAG

    def _own_messages(self, name: str) -> Any:
        private = Comm(self)  # type: ignore[call-arg]
        private._use_private_context()
        return private

    def _leave(self, name: str) -> None:
        leave(name)

    def Is_inter(self) -> bool:
        """Whether it joins two groups: yes."""
        self._check()
        return True

    def Is_intra(self) -> bool:
        """Whether it is one group: no."""
        self._check()
        return False

    is_inter = property(Is_inter, doc="Whether it joins two groups.")
    is_intra = property(Is_intra, doc="Whether it is one group.")

    def Get_remote_size(self) -> int:
        """Return the number of ranks in the other group."""
        return len(self._others())

    def Get_remote_group(self) -> Group:
        """Return the other group."""
        return Group._of(tuple(self._others()))

    remote_size = property(Get_remote_size, doc="Number of ranks in the other group.")
    remote_group = property(Get_remote_group, doc="The other group.")

    def _others(self) -> list[int]:
        self._world_ranks()  # refuses a null handle and one of another run
        others: list[int] = self._remote_ranks() or []
        return others

    def Compare(self, comm: Any) -> int:
        """Compare with another: IDENT, CONGRUENT, SIMILAR or UNEQUAL."""
        self._check()
        comm._check()
        if self == comm:
            return _IDENT
        theirs = comm._remote_ranks()
        if theirs is None:
            return _UNEQUAL
        pairs = ((self._world_ranks(), comm._world_ranks()), (self._others(), theirs))
        if all(first == second for first, second in pairs):
            return _CONGRUENT
        return _SIMILAR if all(sorted(first) == sorted(second) for first, second in pairs) else _UNEQUAL

    # --- what both groups agree on ----------------------------------------------------------------------

    def _told(self, name: str, mine: Any) -> Any:
        """Tell the other group what this one's first rank says; what theirs says."""
        private, tag = self._private(name, 0)
        theirs = private.sendrecv(mine, 0, tag, None, 0, tag) if self.rank == 0 else None
        self._leave(name)
        return self._local.bcast(theirs)

    def _is_first(self) -> bool:
        """Whether this group is the one whose proposals are taken."""
        return bool(self._world_ranks()[0] < self._others()[0])

    def _agreed_contexts(self, name: str, keys: list[Any]) -> dict[Any, int]:
        """Return new numbers of messages, one for each key, the same in both groups."""
        hub = shared_calls(name).hub
        proposed = {key: int(hub.new_context()) for key in keys} if self.rank == 0 else None
        theirs = self._told(name, proposed)
        mine = self._local.bcast(proposed)
        chosen: dict[Any, int] = mine if self._is_first() else theirs
        return chosen

    # --- new communicators ------------------------------------------------------------------------------

    def Merge(self, high: bool = False) -> Any:
        """Return a communicator of both groups as one: the group that says `high` comes second."""
        context = self._agreed_contexts("Merge", [0])[0]
        theirs = self._told("Merge", bool(high))
        comes_first = self._is_first() if bool(high) == theirs else not high
        groups = (self._world_ranks(), self._others())
        first, second = groups if comes_first else groups[::-1]
        made = Intracomm()
        made._become("group", context, first + second)
        return made

    def Dup(self, info: Any = None) -> Any:
        """Return an intercommunicator of the same groups, with messages of its own."""
        context = self._agreed_contexts("Dup", [0])[0]
        made = type(self)._joined(context, self._world_ranks(), self._others())
        copied(self, made)
        return made

    Clone = Dup

    def Dup_with_info(self, info: Any) -> Any:
        """Return a duplicate; hints are not kept."""
        return self.Dup(info)

    def Idup(self, info: Any = None) -> tuple[Any, Any]:
        """Return a duplicate and a request that is complete when both groups have come."""
        return self.Dup(info), self.Ibarrier()

    def Idup_with_info(self, info: Any) -> tuple[Any, Any]:
        """Do as `Idup`; hints are not kept."""
        return self.Idup(info)

    def Split(self, color: int = 0, key: int = 0) -> Any:
        """Return the communicator of this color's ranks in both groups; COMM_NULL if one has none."""
        return self._split("Split", int(color), int(key))

    def Split_type(self, split_type: int, key: int = 0, info: Any = None) -> Any:
        """Return the intercommunicator of the ranks that share a host (COMM_TYPE_SHARED)."""
        hub = shared_calls("Split_type").hub
        is_shared = split_type == CONSTANTS["COMM_TYPE_SHARED"]
        return self._split("Split_type", int(hub.host(hub.rank)) if is_shared else UNDEFINED, int(key))

    def _split(self, name: str, color: int, key: int) -> Any:
        mine = self._local.allgather((color, key))
        theirs = self._told(name, mine)
        sides = [
            [ranks[i] for _, i in sorted((k, i) for i, (c, k) in enumerate(rows) if c == color)]
            for ranks, rows in ((self._world_ranks(), mine), (self._others(), theirs))
        ]
        colors = sorted({c for c, _ in mine} & {c for c, _ in theirs} - {UNDEFINED})
        contexts = self._agreed_contexts(name, colors)
        if color == UNDEFINED or not sides[1]:
            return Intercomm(COMM_NULL)
        return type(self)._joined(contexts[color], *sides)

    def Create(self, group: Group) -> Any:
        """Return the intercommunicator of a part of each group; COMM_NULL for the other ranks."""
        members = list(group._members())
        if set(members) - set(self._world_ranks()):
            raise MPIException(_ERR_GROUP, "the group has ranks that this rank's own group lacks")
        theirs = self._told("Create", members)
        context = self._agreed_contexts("Create", [0])[0]
        if not theirs or self._world_ranks()[self.rank] not in members:
            return Intercomm(COMM_NULL)
        return type(self)._joined(context, members, theirs)

    @classmethod
    def Create_from_groups(
        cls,
        local_group: Group,
        local_leader: int,
        remote_group: Group,
        remote_leader: int,
        stringtag: str = "org.mpi4py",
        info: Any = None,
        errhandler: Any = None,
    ) -> Any:
        """Return the intercommunicator of two groups; only their ranks call it."""
        local, remote = list(local_group._members()), list(remote_group._members())
        calls = shared_calls("Create_from_groups")
        sides = tuple(sorted((tuple(local), tuple(remote))))
        own = calls.attributes.setdefault((-1, calls.hub.rank), {})
        number = own[sides, stringtag] = own.get((sides, stringtag), 0) + 1
        key = ("from groups", sides, stringtag, number)
        if key not in calls.private:
            calls.private[key] = calls.hub.new_context()
        made = cls._joined(calls.private[key], local, remote)
        made.Barrier()
        return made

    def Free(self) -> None:
        """Give it back; the handle becomes COMM_NULL."""
        if not self:
            raise MPIException(_ERR_COMM, "this is COMM_NULL already")
        self._local.Barrier()
        deleted(self)
        self._become("null", 0)

    Disconnect = Free

    def free(self) -> None:
        """Give it back, unless it is null."""
        if self:
            self.Free()


KNOWN["Intercomm"] = Intercomm
