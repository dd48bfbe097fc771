"""The intercommunicator: its groups, how it is made, and what is made of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce as folded
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from labkit.comm.buffers import (
    Simple,
    Vector,
    array_of,
    check_counts,
    parse_simple,
    parse_vector,
    parse_vector_w,
)
from labkit.comm.collective.makers import counts_of
from labkit.comm.collective.native import arrive, leave, refuse_in_recordings, shared_calls
from labkit.comm.communicator import Comm
from labkit.comm.handles.base import KNOWN, MODULE_NAME
from labkit.comm.handles.constants import CONSTANTS, PROC_NULL, ROOT, UNDEFINED
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.groups import Group
from labkit.comm.handles.info import copied, deleted
from labkit.comm.handles.operators import OPERATORS
from labkit.comm.handles.status import Prequest, Request
from labkit.comm.handles.typebody import type_words
from labkit.comm.intracomm import COMM_NULL, Intracomm
from labkit.comm.surface import METHODS, Method, add_methods

__all__ = ["Intercomm"]


# Collectives between two groups: every message goes straight from its origin to where it is wanted.


_ERR_ROOT, _ERR_OP = 8, 10
_FIRST_TAG = 0x40000000
_Bytes = NDArray[np.uint8]


@dataclass
class _Exchange:
    """What a rank sends to and receives from ranks of the other group, and what it does at the end."""

    receives: list[tuple[_Bytes, int]] = field(default_factory=list)
    sends: list[tuple[_Bytes, int]] = field(default_factory=list)
    ends: list[Callable[[], object]] = field(default_factory=list)

    def into(self, message: Simple | Vector | None) -> _Exchange:
        """Note where it arrives, if of a datatype with gaps."""
        if message is not None and message.home is not None:
            self.ends.append(message.home.restore)
        return self

    def end(self, status: object = None) -> None:
        """Do what is left when everything has arrived."""
        for end in self.ends:
            end()


def _cut(message: Simple | Vector, blocks: int) -> list[_Bytes]:
    if isinstance(message, Simple):
        memory, length = array_of(message, blocks), message.bytes
        return [memory[i * length : (i + 1) * length] for i in range(blocks)]
    unit = message.element_bytes
    places = zip(message.displs.tolist(), message.counts.tolist(), strict=True)
    return [message.memory[place * unit : (place + count) * unit] for place, count in places]


def _pair(parts: Sequence[_Bytes]) -> list[tuple[_Bytes, int]]:
    return list(zip(parts, range(len(parts)), strict=True))


BETWEEN_GROUPS = (
    "Barrier", "Bcast", "Gather", "Gatherv", "Scatter", "Scatterv", "Allgather", "Allgatherv", "Alltoall",
    "Alltoallv", "Alltoallw", "Reduce", "Allreduce", "Reduce_scatter", "Reduce_scatter_block",
)  # fmt: skip


def _expression(row: Method) -> str:
    arguments = [name for name in row.arguments.split(", ") if name and name != "info"]
    build = f"self._{row.base.lower()}({', '.join(arguments)})"
    if row.form == "persistent":
        return f"self._persistent({row.name!r}, lambda: {build})"
    return f"self.{'_exchange' if row.form == 'blocking' else '_begin'}({row.name!r}, {build})"


# Collectives on Python objects between two groups.


_SUM = OPERATORS["SUM"]


_ERR_COMM, _ERR_GROUP = 5, 9
_IDENT, _CONGRUENT, _SIMILAR, _UNEQUAL = 0, 1, 2, 3
_TAG = 0x40000000


class Intercomm(Comm):
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
    def _between(
        cls, group: Intracomm, local_leader: int, peer_comm: object, remote_leader: int, tag: int
    ) -> Self:
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
    def _joined(cls, context: int, local: list[int], remote: list[int]) -> Self:
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
    def _local(self) -> Intracomm:
        """The communicator of this rank's own group, for what its ranks agree on among themselves."""
        found: Intracomm = shared_calls("Intercomm").private[
            "local group of", self._context, self._world_ranks()[0]
        ]
        return found

    def _private(self, name: str, root: int, op: str = "") -> tuple[Comm, int]:
        number = arrive(self._local, name, {})
        shared_calls(name).arrive_between(self, name, number)
        return self._own_messages(name), number & 1 | _TAG

    def _own_messages(self, name: str) -> Comm:
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

    def Compare(self, comm: Comm) -> int:
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

    def _told(self, name: str, mine: object) -> Any:
        """Exchange a value between the first ranks of both groups; return the other group's."""
        private, tag = self._private(name, 0)
        theirs = private.sendrecv(mine, 0, tag, None, 0, tag) if self.rank == 0 else None
        self._leave(name)
        return self._local.bcast(theirs)

    def _is_first(self) -> bool:
        """Whether this group is the one whose proposals are taken."""
        return bool(self._world_ranks()[0] < self._others()[0])

    def _agreed_contexts(self, name: str, keys: list[object]) -> dict[object, int]:
        """Return new numbers of messages, one for each key, the same in both groups."""
        hub = shared_calls(name).hub
        proposed = {key: int(hub.new_context()) for key in keys} if self.rank == 0 else None
        theirs = self._told(name, proposed)
        mine = self._local.bcast(proposed)
        chosen: dict[object, int] = mine if self._is_first() else theirs
        return chosen

    # --- new communicators ------------------------------------------------------------------------------

    def Merge(self, high: bool = False) -> Intracomm:
        """Return a communicator of both groups as one: the group that says `high` comes second."""
        context = self._agreed_contexts("Merge", [0])[0]
        theirs = self._told("Merge", bool(high))
        comes_first = self._is_first() if bool(high) == theirs else not high
        groups = (self._world_ranks(), self._others())
        first, second = groups if comes_first else groups[::-1]
        made = Intracomm()
        made._become("group", context, first + second)
        return made

    def Dup(self, info: object = None) -> Self:
        """Return an intercommunicator of the same groups, with its own messages."""
        context = self._agreed_contexts("Dup", [0])[0]
        made = type(self)._joined(context, self._world_ranks(), self._others())
        copied(self, made)
        return made

    Clone = Dup

    def Dup_with_info(self, info: object) -> Self:
        """Return a duplicate; hints are not kept."""
        return self.Dup(info)

    def Idup(self, info: object = None) -> tuple[Self, Request]:
        """Return a duplicate and a request that is complete when both groups have arrived."""
        return self.Dup(info), self.Ibarrier()

    def Idup_with_info(self, info: object) -> tuple[Self, Request]:
        """Do as `Idup`; hints are not kept."""
        return self.Idup(info)

    def Split(self, color: int = 0, key: int = 0) -> Intercomm:
        """Return the communicator of this color's ranks in both groups; COMM_NULL if one has none."""
        return self._split("Split", int(color), int(key))

    def Split_type(self, split_type: int, key: int = 0, info: object = None) -> Intercomm:
        """Return the intercommunicator of the ranks that share a host (COMM_TYPE_SHARED)."""
        hub = shared_calls("Split_type").hub
        is_shared = split_type == CONSTANTS["COMM_TYPE_SHARED"]
        return self._split("Split_type", int(hub.host(hub.rank)) if is_shared else UNDEFINED, int(key))

    def _split(self, name: str, color: int, key: int) -> Intercomm:
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

    def Create(self, group: Group) -> Intercomm:
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
        info: object = None,
        errhandler: object = None,
    ) -> Self:
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

    # The lower-case collectives of an intercommunicator: messages from origin to destination.

    def _objects(self, name: str, sent: Sequence[tuple[object, int]], sources: Sequence[int]) -> list[object]:
        """Send objects to ranks of the other group; those received, in the order of their sources."""
        private, tag = self._private(name, 0)
        requests = [private.isend(item, peer, tag) for item, peer in sent]
        received = [private.recv(None, source, tag) for source in sources]
        for request in requests:
            request.wait()
        self._leave(name)
        return received

    def _to_root(self, name: str, sendobj: object, root: int) -> list[object] | None:
        if root == ROOT:
            return self._objects(name, [], range(self.remote_size))
        self._objects(name, [] if root == PROC_NULL else [(sendobj, self._side(root))], [])
        return None

    def barrier(self) -> None:
        """Wait until every rank of the other group is here."""
        self.Barrier()

    def bcast(self, obj: object, root: int = 0) -> Any:
        """Send an object from the root to all ranks in the other group."""
        if root == ROOT:
            self._objects("bcast", [(obj, peer) for peer in range(self.remote_size)], [])
            return None
        found = self._objects("bcast", [], [] if root == PROC_NULL else [self._side(root)])
        return found[0] if found else None

    def gather(self, sendobj: object, root: int = 0) -> list[Any] | None:
        """Collect one object of every rank of the other group at the root."""
        return self._to_root("gather", sendobj, root)

    def scatter(self, sendobj: Sequence[object] | None, root: int = 0) -> Any:
        """Send the i-th of the root's objects to rank i of the other group."""
        if root == ROOT:
            self._objects("scatter", self._each(sendobj), [])
            return None
        if root == PROC_NULL:
            self._objects("scatter", [], [])
            return None
        return self._objects("scatter", [], [self._side(root)])[0]

    def _each(self, sendobj: Sequence[object] | None) -> list[tuple[object, int]]:
        items = [None] * self.remote_size if sendobj is None else list(sendobj)
        if len(items) != self.remote_size:
            raise ValueError(f"expecting {self.remote_size} items, got {len(items)}")
        return list(zip(items, range(self.remote_size), strict=True))

    def allgather(self, sendobj: object) -> list[Any]:
        """Collect one object of every rank of the other group at every rank."""
        everybody = range(self.remote_size)
        return self._objects("allgather", [(sendobj, peer) for peer in everybody], everybody)

    def alltoall(self, sendobj: Sequence[object]) -> list[Any]:
        """Send the i-th object to rank i of the other group; the objects received."""
        return self._objects("alltoall", self._each(sendobj), range(self.remote_size))

    def reduce(self, sendobj: object, op: Any = _SUM, root: int = 0) -> Any:
        """Combine the other group's objects in rank order; the result at the root."""
        found = self._to_root("reduce", sendobj, root)
        return None if found is None else folded(op, found)

    def allreduce(self, sendobj: object, op: Any = _SUM) -> Any:
        """Combine the other group's objects in rank order; the result at every rank."""
        everybody = range(self.remote_size)
        found = self._objects("allreduce", [(sendobj, peer) for peer in everybody], everybody)
        return folded(op, found)

    # The upper-case collectives of an intercommunicator.

    # --- what goes where ------------------------------------------------------------------------------

    def _barrier(self) -> _Exchange:
        nothing = [np.empty(0, np.uint8)] * self.remote_size
        return _Exchange(_pair(nothing), _pair(nothing))

    def _side(self, root: int) -> int:
        """Return -1 at the root, -2 elsewhere in its group, else the root's rank in the other group."""
        if root in (ROOT, PROC_NULL):
            return -1 if root == ROOT else -2
        if not 0 <= root < self.remote_size:
            raise MPIException(
                _ERR_ROOT,
                f"root={root}: give ROOT, PROC_NULL, or a rank of the other group's {self.remote_size}",
            )
        return int(root)

    def _bcast(self, buf: object, root: int) -> _Exchange:
        side = self._side(root)
        if side == -1:
            data = array_of(parse_simple(buf, False))
            return _Exchange(sends=_pair([data] * self.remote_size))
        if side == -2:
            return _Exchange()
        message = parse_simple(buf, True)
        return _Exchange([(array_of(message), side)]).into(message)

    def _gathered(
        self, sendbuf: object, recvbuf: object, root: int, parse: Callable[..., Simple | Vector]
    ) -> _Exchange:
        side = self._side(root)
        if side == -1:
            message = parse(recvbuf, True, self.remote_size)
            return _Exchange(_pair(_cut(message, self.remote_size))).into(message)
        return (
            _Exchange() if side == -2 else _Exchange(sends=[(array_of(parse_simple(sendbuf, False)), side)])
        )

    def _gather(self, sendbuf: object, recvbuf: object, root: int) -> _Exchange:
        return self._gathered(sendbuf, recvbuf, root, parse_simple)

    def _gatherv(self, sendbuf: object, recvbuf: object, root: int) -> _Exchange:
        return self._gathered(sendbuf, recvbuf, root, parse_vector)

    def _scattered(
        self, sendbuf: object, recvbuf: object, root: int, parse: Callable[..., Simple | Vector]
    ) -> _Exchange:
        side = self._side(root)
        if side == -1:
            return _Exchange(sends=_pair(_cut(parse(sendbuf, False, self.remote_size), self.remote_size)))
        if side == -2:
            return _Exchange()
        message = parse_simple(recvbuf, True)
        return _Exchange([(array_of(message), side)]).into(message)

    def _scatter(self, sendbuf: object, recvbuf: object, root: int) -> _Exchange:
        return self._scattered(sendbuf, recvbuf, root, parse_simple)

    def _scatterv(self, sendbuf: object, recvbuf: object, root: int) -> _Exchange:
        return self._scattered(sendbuf, recvbuf, root, parse_vector)

    def _everywhere(self, sendbuf: object, received: Simple | Vector) -> _Exchange:
        data = array_of(parse_simple(sendbuf, False))
        sends = _pair([data] * self.remote_size)
        return _Exchange(_pair(_cut(received, self.remote_size)), sends).into(received)

    def _allgather(self, sendbuf: object, recvbuf: object) -> _Exchange:
        return self._everywhere(sendbuf, parse_simple(recvbuf, True, self.remote_size))

    def _allgatherv(self, sendbuf: object, recvbuf: object) -> _Exchange:
        return self._everywhere(sendbuf, parse_vector(recvbuf, True, self.remote_size))

    def _alltoall(
        self, sendbuf: object, recvbuf: object, parse: Callable[..., Simple | Vector] = parse_simple
    ) -> _Exchange:
        size = self.remote_size
        sent, received = parse(sendbuf, False, size), parse(recvbuf, True, size)
        return _Exchange(_pair(_cut(received, size)), _pair(_cut(sent, size))).into(received)

    def _alltoallv(self, sendbuf: object, recvbuf: object) -> _Exchange:
        return self._alltoall(sendbuf, recvbuf, parse_vector)

    def _alltoallw(self, sendbuf: object, recvbuf: object) -> _Exchange:
        return self._alltoall(sendbuf, recvbuf, parse_vector_w)

    # --- reductions -----------------------------------------------------------------------------------

    def _combined(self, received: Simple, op: Any, begin: int, length: int) -> _Exchange:
        """Receive a vector of `length` bytes from everybody and keep the combined part from `begin` on."""
        reduction = op._reduction(received.datatype) if op else None
        if reduction is None:
            raise MPIException(_ERR_OP, f"{op!r} is not defined on {type_words(received.datatype)}")
        parts = [np.empty(length, np.uint8) for _ in range(self.remote_size)]
        mine = slice(begin, begin + received.bytes)

        def combine() -> None:
            total = parts[0][mine].copy()
            for part in parts[1:]:
                right = part[mine].copy()
                reduction.apply(total, right, True)
                total = right
            array_of(received)[:] = total

        exchange = _Exchange(_pair(parts), ends=[combine] if parts else [])
        return exchange.into(received)

    def _reduce(self, sendbuf: object, recvbuf: object, op: object, root: int) -> _Exchange:
        side = self._side(root)
        if side == -1:
            received = parse_simple(recvbuf, True, 0, True)
            return self._combined(received, op, 0, received.bytes)
        if side == -2:
            return _Exchange()
        return _Exchange(sends=[(array_of(parse_simple(sendbuf, False, 0, True)), side)])

    def _allreduce(self, sendbuf: object, recvbuf: object, op: object) -> _Exchange:
        received = parse_simple(recvbuf, True, 0, True)
        exchange = self._combined(received, op, 0, received.bytes)
        exchange.sends = _pair([array_of(parse_simple(sendbuf, False, 0, True))] * self.remote_size)
        return exchange

    def _reduce_scatter_block(self, sendbuf: object, recvbuf: object, op: object) -> _Exchange:
        received = parse_simple(recvbuf, True, 0, True)
        exchange = self._combined(received, op, 0, received.bytes)
        sent = parse_simple(sendbuf, False, self.remote_size, True)
        exchange.sends = _pair(_cut(sent, self.remote_size))
        return exchange

    def _reduce_scatter(self, sendbuf: object, recvbuf: object, recvcounts: Any, op: object) -> _Exchange:
        received, local = parse_simple(recvbuf, True, 0, True), self._local
        counts = counts_of(local, recvcounts, received.count, True)
        if counts[local.rank] != received.count:
            raise ValueError(f"mismatch in receive count {received.count} and counts {counts.tolist()}")
        check_counts(counts)
        unit = received.element_bytes
        begin, length = int(counts[: local.rank].sum()) * unit, int(counts.sum()) * unit
        exchange = self._combined(received, op, begin, length)
        exchange.sends = _pair([array_of(parse_simple(sendbuf, False, 0, True))] * self.remote_size)
        return exchange

    # --- messages -------------------------------------------------------------------------------------

    def _exchange(self, name: str, exchange: _Exchange) -> None:
        private, tag = self._private(name, 0)
        requests = [private.Irecv(data, peer, tag) for data, peer in exchange.receives]
        requests += [private.Isend(data, peer, tag) for data, peer in exchange.sends]
        if requests:
            type(requests[0]).Waitall(requests)
        self._leave(name)
        exchange.end(None)

    def _begin(self, name: str, exchange: _Exchange, messages: tuple[object, int] | None = None) -> Any:
        calls = shared_calls(name)
        refuse_in_recordings(calls, name)
        private, tag = messages or self._private(name, 0)
        if messages is None:
            self._leave(name)
        receives = [(data, peer, tag) for data, peer in exchange.receives]
        sends = [(data, peer, tag) for data, peer in exchange.sends]
        request = calls.hub.start_messages(private, name, receives, sends)
        request._after(exchange.end)
        return request

    def _persistent(self, name: str, build: Callable[[], _Exchange]) -> Prequest:
        build()  # what is wrong with it is said now
        private = self._own_messages(name)
        return Prequest._of(lambda: self._begin(name, build(), (private, _FIRST_TAG)))


add_methods(
    Intercomm,
    [row for row in METHODS if row.base in BETWEEN_GROUPS and row.kind == "collective"],
    _expression,
    {"SUM": OPERATORS["SUM"], "__name__": __name__},
)


KNOWN["Intercomm"] = Intercomm
