"""Communicators: the compiled point-to-point half, completed with the other calls of MPI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from labkit import _kernels
from labkit.comm import surface
from labkit.comm.buffering import Buffering
from labkit.comm.buffers import _unpack, array_of, parse_simple
from labkit.comm.collective.native import refuse_in_recordings, shared_calls
from labkit.comm.environment import abort
from labkit.comm.handles.base import IN_PLACE, KNOWN, MODULE_NAME, Handle, constant_of
from labkit.comm.handles.constants import (
    ANY_SOURCE,
    ANY_TAG,
    CONSTANTS,
    PROC_NULL,
    UNDEFINED,
    attribute_values,
)
from labkit.comm.handles.errhandlers import Errhandler, ErrorHandling
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.exceptions import codes_in_use
from labkit.comm.handles.groups import Group
from labkit.comm.handles.info import Info, Keyed
from labkit.comm.handles.operators import OPERATORS
from labkit.comm.handles.status import Prequest, Request
from labkit.comm.spawning import meet, parent
from labkit.comm.surface import METHODS, Method, add_methods
from labkit.program import context

__all__ = ["Comm"]

_ERR_COUNT, _ERR_TAG, _ERR_COMM, _ERR_RANK, _ERR_REQUEST, _ERR_ARG, _ERR_OTHER = 2, 4, 5, 6, 7, 13, 16
_IDENT, _CONGRUENT, _SIMILAR, _UNEQUAL = 0, 1, 2, 3
_BAND = OPERATORS["BAND"]


def _init(row: Method) -> str:
    return f"self._message_init(self.I{row.base.lower()}, {row.kind == 'receive'}, {{args}})"


# Partitioned messages: their sender says part by part that it is filled.
_TAG = 0x10000000


def _at(tag: int) -> int:
    return int(tag) & 0x0FFFFFFF | _TAG


def _partitions(number: int) -> int:
    count = int(number)
    if count < 1:
        raise MPIException(_ERR_COUNT, f"partitions={count}: a partitioned message has 1 part or more")
    return count


class _PartitionedSend(Prequest):
    """A message that leaves when all its parts are ready."""

    __slots__ = ("_partitions", "_ready", "_send")

    def _begin_with(self, partitions: int, send: Callable[[], object]) -> None:
        self._partitions, self._send = partitions, send
        self._ready: set[int] | None = None

        def begin() -> Any:
            calls = shared_calls("Start")
            refuse_in_recordings(calls, "Psend_init")
            self._ready = set()
            return calls.hub.start_general("a partitioned send")

        self._begin = begin

    def Pready(self, partition: int) -> None:
        """Mark a part as filled."""
        number, ready = int(partition), self._ready
        if ready is None:
            raise MPIException(_ERR_REQUEST, "this partitioned send has not been started")
        if not 0 <= number < self._partitions or number in ready:
            raise MPIException(
                _ERR_ARG, f"partition={number} of {self._partitions} does not exist or is ready already"
            )
        ready.add(number)
        if len(ready) == self._partitions:
            self._ready = None
            self._complete()
            self._finish(None, False)
            self._take(self._send())


class _PartitionedReceive(Prequest):
    """A message that comes in parts."""

    __slots__ = ("_partitions",)

    def Parrived(self, partition: int) -> bool:
        """Whether a part has arrived."""
        if not 0 <= int(partition) < self._partitions:
            raise MPIException(_ERR_ARG, f"partition={partition} of {self._partitions} does not exist")
        return bool(self.Get_status())


# Requests made of two messages, such as Isendrecv.


class Comm(Keyed, ErrorHandling, Buffering, Handle, _kernels.CommBase):
    """A group of ranks that communicate; the running rank is found when a method is called.

    Attributes
    ----------
    rank, size : int
    """

    __module__ = MODULE_NAME
    __hash__ = None  # type: ignore[assignment]
    _known = surface.COMM

    def __repr__(self) -> str:
        constant = constant_of(self)
        return (
            f"labkit.MPI.{constant}"
            if constant
            else f"<labkit.MPI.{type(self).__name__} of {self.size} ranks>"
        )

    def __reduce__(self) -> str | tuple[object, ...]:
        constant = constant_of(self)
        if constant is None:
            raise ValueError("cannot pickle a communicator that the program made itself")
        original = KNOWN[constant]
        return constant if self is original else (type(self), (original,))

    def _identity(self) -> object:
        running = context.simulated()
        return bool(self), self._context, None if running is None else running.calls.hub.rank

    def Is_inter(self) -> bool:
        """Whether it joins two groups."""
        self._check()
        return self._remote_ranks() is not None

    def Is_intra(self) -> bool:
        """Whether it is one group."""
        return not self.Is_inter()

    def Get_remote_group(self) -> Group:
        """Refuse: there is one group only."""
        raise MPIException(_ERR_COMM, "this communicator has one group; an intercommunicator has two")

    def Get_remote_size(self) -> int:
        """Refuse: there is one group only."""
        raise MPIException(_ERR_COMM, "this communicator has one group; an intercommunicator has two")

    remote_group = property(Get_remote_group, doc="The other group, of an intercommunicator.")
    remote_size = property(Get_remote_size, doc="Ranks in the other group, of an intercommunicator.")

    is_inter = property(Is_inter, doc="Whether it joins two groups.")
    is_intra = property(Is_intra, doc="Whether it is one group.")

    @classmethod
    def Get_parent(cls) -> Any:
        """Return the communicator to the ranks that have spawned this one; COMM_NULL where none have."""
        return parent()

    def Abort(self, errorcode: int = 0) -> NoReturn:
        """End the whole run."""
        abort(errorcode)

    # The partitioned sends and receives of a communicator.

    def Psend_init(
        self, buf: object, partitions: int, dest: int, tag: int = 0, info: object = None
    ) -> Prequest:
        """Make a request that sends a buffer of equal parts whenever it is started and all are ready."""
        count = _partitions(partitions)
        whole = self._whole(buf, count, dest, tag, False)
        request = _PartitionedSend()
        request._make_persistent()
        request._begin_with(count, lambda: self._parts().Isend(whole, dest, _at(tag)))
        return request

    def Precv_init(
        self, buf: object, partitions: int, source: int, tag: int = 0, info: object = None
    ) -> Prequest:
        """Make a request that receives a buffer of equal parts whenever it is started."""
        count = _partitions(partitions)
        whole = self._whole(buf, count, source, tag, True)
        request = _PartitionedReceive._of(lambda: self._parts().Irecv(whole, source, _at(tag)))
        request._partitions = count  # type: ignore[attr-defined]
        return request

    def _parts(self) -> Comm:
        """Return the communicator of these messages, which no other receive matches."""
        private: Comm = KNOWN["Comm"](self)
        private._use_private_context()
        return private

    def _whole(self, buf: object, partitions: int, peer: int, tag: int, is_receive: bool) -> Any:
        """Return the message of all parts: what is wrong with it is said now."""
        self._check_message(buf, peer, tag, is_receive)
        if int(peer) == PROC_NULL:
            return None
        part = parse_simple(buf, is_receive, partitions)
        buffer, _, displ, _ = _unpack(buf, (list, tuple))
        return [buffer, (part.count * partitions, displ or 0), part.datatype]

    # Calls that begin a send and a receive as one request; its status is the receive's.

    def Isendrecv(
        self,
        sendbuf: object,
        dest: int,
        sendtag: int = 0,
        recvbuf: object = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
    ) -> Request:
        """Begin to send a buffer and to receive into another one."""
        return self._both("Isendrecv", (recvbuf, source, recvtag), (sendbuf, dest, sendtag))

    def Isendrecv_replace(
        self, buf: object, dest: int, sendtag: int = 0, source: int = ANY_SOURCE, recvtag: int = ANY_TAG
    ) -> Request:
        """Begin to send a buffer and to receive into the same one: what leaves is a copy."""
        copy = None
        if int(dest) != PROC_NULL:  # a float is cut off, as by mpi4py
            copy = array_of(parse_simple(buf, False)).copy()
        return self._both("Isendrecv_replace", (buf, source, recvtag), (copy, dest, sendtag))

    def _both(self, name: str, receive: tuple[object, ...], send: tuple[object, ...]) -> Request:
        calls = shared_calls(name)
        refuse_in_recordings(calls, name)
        request: Request = calls.hub.start_messages(self, name, [receive], [send], True)
        return request

    # Agreement of the ranks that live, and communicators of them: all ranks live.

    def Get_failed(self) -> Group:
        """Return the group of ranks that have failed: empty."""
        self._check()
        return Group._of(())

    def Ack_failed(self, num_to_ack: int | None = None) -> int:
        """Acknowledge failures, and return their number, which is 0."""
        self._check()
        return 0

    def Agree(self, flag: int) -> int:
        """Combine the bits of all ranks' flags by "and"; of both groups, of an intercommunicator."""
        mine = int(flag)
        if self._remote_ranks() is None:
            return int(self.allreduce(mine, _BAND))
        return int(self.allreduce(mine, _BAND)) & int(self._local.allreduce(mine, _BAND))

    def Iagree(self, flag: Any) -> Request:
        """Begin to do as `Agree` with the one C int of a buffer, in no order with other collectives.

        Raises
        ------
        TypeError, ValueError
            It is no buffer, or not of one C int.
        """
        length = memoryview(flag).nbytes
        if length != 4:
            raise ValueError(f"flag: expecting the 4 bytes of one C int, got {length}")
        request: Request = self._agreeing().Iallreduce(IN_PLACE, [flag, 1, "i"], _BAND)
        return request

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
        made: tuple[object, object] = self.Idup()
        return made

    def Is_revoked(self) -> bool:
        """Whether somebody has called Revoke: no, it is refused."""
        self._check()
        return False

    # The persistent sends and receives of a communicator.

    def _message_init(
        self, begin: Callable[..., Any], is_receive: bool, buf: object, peer: int, tag: int
    ) -> Prequest:
        self._check_message(buf, peer, tag, is_receive)
        return Prequest._of(lambda: begin(buf, peer, tag))

    def _check_message(self, buf: object, peer: int, tag: int, is_receive: bool) -> None:
        """Refuse now what would be refused at every start."""
        self._check()
        rank, number = int(peer), int(tag)  # a float is cut off, as by mpi4py
        if rank != PROC_NULL:
            parse_simple(buf, is_receive)
        is_any = is_receive and rank == ANY_SOURCE
        if not (is_any or rank == PROC_NULL or 0 <= rank < self.size):
            what = "source" if is_receive else "dest"
            raise MPIException(
                _ERR_RANK,
                f"{what}={rank} is not a rank of this communicator, which has ranks 0 to {self.size - 1}",
            )
        if number < 0 and not (is_receive and number == ANY_TAG):
            raise MPIException(_ERR_TAG, f"tag={number} is not allowed: tags are 0 or more")

    # Group, name and attributes of a communicator, as each rank sees them.

    _attribute_kind = "Comm"

    def _own(self) -> dict[object, Any]:
        """Return what this rank has noted on the communicator."""
        self._check()
        running = context.simulated()
        if running is None:
            return {}
        calls = running.calls
        own: dict[object, object] = calls.attributes.setdefault((self._context, calls.hub.rank), {})
        return own

    def _check(self) -> None:
        """Refuse a null handle."""
        if not self:
            raise MPIException(_ERR_COMM, "this is COMM_NULL, or a communicator that has been freed")

    def Get_errhandler(self) -> Errhandler:
        """Return the handler; at first ERRORS_RETURN, unless `mpi4py.rc.errors` says otherwise."""
        self._check()
        return super().Get_errhandler()

    def Set_errhandler(self, errhandler: Errhandler) -> None:
        """Set what this rank does about errors: raise them, end the job, or call a function."""
        self._check()
        super().Set_errhandler(errhandler)

    def Get_name(self) -> str:
        """Name of the communicator: MPI's own have one, others until given have an empty one."""
        constant = constant_of(self)
        default = f"MPI_{constant}" if constant else ""
        return str(self._own().get("name", default)) if self else default

    def Set_name(self, name: str) -> None:
        """Give it a name; every rank names for itself."""
        self._own()["name"] = str(name)

    name = property(Get_name, Set_name, doc="Name of the communicator.")

    def Get_info(self) -> Info:
        """Return a copy of the hints that this rank has set."""
        return Info.Create(dict(self._own().get("info", {})))

    def Set_info(self, info: Info) -> None:
        """Keep hints, in addition to those set before; nothing looks at them."""
        hints = info._dict()
        self._own().setdefault("info", {}).update(hints)

    info = property(Get_info, Set_info, doc="Hints that this rank has set.")

    def Get_topology(self) -> int:
        """Kind of its topology: CART, GRAPH, DIST_GRAPH, or UNDEFINED for none."""
        self._check()
        running = context.simulated()
        topology = None if running is None else running.calls.topologies.get(self._context)
        return UNDEFINED if topology is None else int(topology.kind)

    topology = property(Get_topology, doc="Kind of its topology: CART, GRAPH, DIST_GRAPH, or UNDEFINED.")
    is_topo = property(lambda self: self.Get_topology() != UNDEFINED, doc="Whether it has a topology.")

    def Get_attr(self, keyval: int) -> Any:
        """Value under a key, predefined (TAG_UB, IO...) or the program's own, or None.

        As in Open MPI, COMM_WORLD and its duplicates have the predefined ones; LASTUSEDCODE is not copied.

        Raises
        ------
        MPI.Exception
            ERR_OTHER for a key that there is not, as Open MPI has it; ERR_KEYVAL for KEYVAL_INVALID.
        """
        self._check()
        running = context.simulated()
        values = attribute_values(1 if running is None else running.size, codes_in_use().last)
        is_world = constant_of(self) == "COMM_WORLD"
        is_copy = self._own().get("is of the world") and keyval != CONSTANTS["LASTUSEDCODE"]
        return values[keyval] if keyval in values and (is_world or is_copy) else super().Get_attr(keyval)

    def _kept(self) -> dict[int, object]:
        """Return the attributes that the program has set."""
        kept: dict[int, object] = self._own().setdefault("attributes", {})
        return kept

    def Get_group(self) -> Group:
        """Return the group of its ranks."""
        return Group._of(tuple(self._world_ranks()))

    group = property(Get_group, doc="The group of its ranks.")

    def Compare(self, comm: Comm) -> int:
        """Compare with another: IDENT, CONGRUENT (same ranks), SIMILAR (other order) or UNEQUAL."""
        self._check()
        comm._check()
        if self == comm:
            return _IDENT
        first, second = self._world_ranks(), comm._world_ranks()
        if first == second:
            return _CONGRUENT
        return _SIMILAR if sorted(first) == sorted(second) else _UNEQUAL

    @classmethod
    def Join(cls, fd: int) -> Any:
        """Meet the one rank at the other end of a connected socket; the communicator with it."""
        import json
        import os
        import socket

        def talk(mine: object) -> object:
            with socket.socket(fileno=os.dup(fd)) as line:
                line.sendall(json.dumps(mine).encode() + b"\n")
                parts: list[bytes] = []
                while not parts or parts[-1] != b"\n":  # byte by byte: what follows is the program's
                    parts.append(line.recv(1))
                    if not parts[-1]:
                        raise MPIException(_ERR_OTHER, "Join: the other end of the socket has been closed")
            return json.loads(b"".join(parts))

        return meet(KNOWN["COMM_SELF"], "Join", 0, talk)


add_methods(
    Comm,
    [row for row in METHODS if row.form == "persistent" and row.kind in ("send", "receive")],
    _init,
    {"ANY_SOURCE": ANY_SOURCE, "ANY_TAG": ANY_TAG, "__name__": __name__},
)
