"""A communicator whose every call is carried out by the grader: mpi4py's methods, both spellings."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from labkit.comm import surface
from labkit.comm.buffers import _basic, _unpack, array_of, parse_simple
from labkit.comm.collective.neighbors import NeighborCollectives
from labkit.comm.collective.objects import name_of_operator
from labkit.comm.grid import Grid
from labkit.comm.grid import grid_of as make_grid
from labkit.comm.handles.base import is_in_place
from labkit.comm.handles.constants import ANY_SOURCE, ANY_TAG, CONSTANTS, PROC_NULL, UNDEFINED
from labkit.comm.handles.errhandlers import Errhandler
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.operators import OPERATORS, Op, no_operator
from labkit.comm.handles.status import Status
from labkit.comm.intracomm import COMM_NULL
from labkit.comm.pickling import pickle
from labkit.comm.surface import METHODS, NAMED, Method, add_methods
from labkit.comm.topologies import Cartcomm, Topocomm
from labkit.errors import UnsupportedError
from labkit.grading.sandbox.remote_request import RemotePrequest, RemoteRequest, deliver, fill_status
from labkit.grading.sandbox.wire import MOST_PAYLOAD_BYTES, REDUCED, ROWS

if TYPE_CHECKING:
    from labkit.grading.sandbox.caller import Caller

__all__ = ["REFUSED", "RemoteCart", "RemoteComm", "RemoteRequest"]


#: of irecv, as in mpi4py
_OBJECT_ROOM = 32 << 10
_MOST_TAG = 1 << 20
#: of the arguments that a submission may leave out
_DEFAULTS = {"ANY_SOURCE": ANY_SOURCE, "ANY_TAG": ANY_TAG, "SUM": OPERATORS["SUM"], "__name__": __name__}
REFUSED = (
    "comm.{} is not there in graded runs: point-to-point calls, requests, collectives, Split, Dup and "
    "Create_cart are"
)


class RemoteComm:
    """A communicator of a submission.

    `number`: By which the grader identifies it.
    `shape`: Of a Cartesian communicator.
    """

    #: what communicators on a grid are: `labkit.grading.sandbox.remote_grid` says it
    grid_class: type[RemoteComm]
    #: errors are raised in any case
    _errhandler = Errhandler._of("ERRORS_RETURN")
    name = ""
    is_inter, is_intra = False, True
    Barrier: Callable[[], None]
    _is_freed = False

    def __init__(self, caller: Caller, number: int, rank: int, size: int, shape: Grid | None = None) -> None:
        self._caller, self._number, self.rank, self.size, self._shape = caller, number, rank, size, shape

    def _post(self, name: str, data: object, dest: int, tag: int) -> RemoteRequest | None:
        header = {"op": name, "comm": self._number, "dest": operator.index(dest), "tag": operator.index(tag)}
        number = self._start(header, [data], self._is_rank(dest) and 0 <= tag <= _MOST_TAG)
        return RemoteRequest(self._caller, number, None) if name.startswith("i") else None

    def _post_receive(self, source: int, tag: int, room: int, target: object = None) -> RemoteRequest:
        is_right = source == ANY_SOURCE or self._is_rank(source)
        is_right = is_right and ANY_TAG <= tag <= _MOST_TAG and 0 <= room <= MOST_PAYLOAD_BYTES
        number = self._start(self._source("irecv", source, tag, room), [], is_right)
        return RemoteRequest(self._caller, number, target, room if target is None else None)

    def _is_rank(self, peer: int) -> bool:
        return 0 <= peer < self.size or peer == PROC_NULL

    def _start(self, header: dict[str, object], parts: list[object], is_right: bool) -> int:
        """Begin a message; wait for an answer only where it is an error. The number of its request."""
        if is_right and not self._is_freed:
            return self._caller.post(header, parts)
        return int(self._caller.ask(header, parts)[0].get("request", 0))

    def _source(self, name: str, source: int, tag: int, room: int | None = None) -> dict[str, object]:
        return {
            "op": name,
            "comm": self._number,
            "source": operator.index(source),
            "tag": operator.index(tag),
            "room": room,
        }

    def recv(self, buf: object = None, source: int = -1, tag: int = -1, status: Status | None = None) -> Any:
        """Receive an object."""
        answer, parts = self._caller.ask(self._source("recv", source, tag))
        fill_status(status, answer["status"])
        return deliver(None, parts[0], answer["status"])

    def Recv(self, buf: object, source: int = -1, tag: int = -1, status: Status | None = None) -> None:
        """Receive into a buffer."""
        target = array_of(parse_simple(buf, True))
        answer, parts = self._caller.ask(self._source("recv", source, tag, target.nbytes))
        fill_status(status, answer["status"])
        deliver(target, parts[0], answer["status"])

    def irecv(self, buf: Any = None, source: int = -1, tag: int = -1) -> RemoteRequest:
        """Post a receive of an object."""
        room = _OBJECT_ROOM if buf is None else buf if isinstance(buf, int) else memoryview(buf).nbytes
        return self._post_receive(source, tag, room)

    def Irecv(self, buf: object, source: int = -1, tag: int = -1) -> RemoteRequest:
        """Post a receive into a buffer."""
        target = array_of(parse_simple(buf, True))
        return self._post_receive(source, tag, target.nbytes, target)

    def _swap(
        self, data: object, dest: int, sendtag: int, target: Any, source: int, recvtag: int, status: Any
    ) -> object:
        room = None if target is None else target.nbytes
        header = {
            **self._source("sendrecv", source, sendtag, room),
            "dest": operator.index(dest),
            "recvtag": operator.index(recvtag),
        }
        answer, parts = self._caller.ask(header, [data])
        fill_status(status, answer["status"])
        return deliver(target, parts[0], answer["status"])

    def sendrecv(
        self,
        sendobj: object,
        dest: int,
        sendtag: int = 0,
        recvbuf: object = None,
        source: int = -1,
        recvtag: int = -1,
        status: Status | None = None,
    ) -> Any:
        """Send an object and receive one."""
        return self._swap(pickle.dumps(sendobj), dest, sendtag, None, source, recvtag, status)

    def Sendrecv(
        self,
        sendbuf: object,
        dest: int,
        sendtag: int = 0,
        recvbuf: object = None,
        source: int = -1,
        recvtag: int = -1,
        status: Status | None = None,
    ) -> None:
        """Send a buffer and receive into another."""
        target = array_of(parse_simple(recvbuf, True))
        data = array_of(parse_simple(sendbuf, False))
        self._swap(data, dest, sendtag, target, source, recvtag, status)

    def Sendrecv_replace(
        self,
        buf: object,
        dest: int,
        sendtag: int = 0,
        source: int = -1,
        recvtag: int = -1,
        status: Status | None = None,
    ) -> None:
        """Send a buffer and receive into it."""
        target = array_of(parse_simple(buf, True))
        self._swap(target.copy(), dest, sendtag, target, source, recvtag, status)

    def probe(self, source: int = -1, tag: int = -1, status: Status | None = None) -> bool:
        """Wait for a message without receiving it."""
        answer, _ = self._caller.ask(self._source("probe", source, tag))
        fill_status(status, answer["status"])
        return True

    def iprobe(self, source: int = -1, tag: int = -1, status: Status | None = None) -> bool:
        """Whether a message is there."""
        answer, _ = self._caller.ask(self._source("iprobe", source, tag))
        if answer["flag"]:
            fill_status(status, answer["status"])
        return bool(answer["flag"])

    Probe, Iprobe = probe, iprobe

    def Get_rank(self) -> int:
        """Rank of this process."""
        return self.rank

    def Get_size(self) -> int:
        """Number of ranks."""
        return self.size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteComm) and other._number == self._number

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<communicator of {self.size} ranks>"

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in surface.COMM and name not in surface.TOPOLOGY:
            raise AttributeError(f"a communicator has no attribute {name!r}")
        raise UnsupportedError(REFUSED.format(name))

    def Get_name(self) -> str:
        """Name of the communicator, empty until this rank gives it one."""
        return self.name

    def Set_name(self, name: str) -> None:
        """Give it a name."""
        self.name = str(name)

    def Is_inter(self) -> bool:
        """Whether it joins two groups: never."""
        return False

    def Is_intra(self) -> bool:
        """Whether its ranks are one group: always."""
        return True

    def Get_errhandler(self) -> Errhandler:
        """Return the handler."""
        return self._errhandler

    def Set_errhandler(self, errhandler: Errhandler) -> None:
        """Set the handler. Errors are raised in any case."""
        self._errhandler = errhandler

    def Abort(self, errorcode: int = 0) -> NoReturn:
        """End the whole run; nothing that the submission does catches it."""
        self._caller.report(SystemExit(f"MPI Abort({operator.index(errorcode)})"))
        os._exit(0)

    # --- collectives ------------------------------------------------------------------------------

    def _collective(self, method: Method, *arguments: object) -> RemoteRequest | None:
        parts: list[Any] = []
        targets: list[Any] = []
        values = [
            self._argument(method, kind.role, value, arguments, parts, targets)
            for kind, value in zip(method.parameters, arguments, strict=True)
        ]
        name = method.name
        header = {"op": "collective", "comm": self._number, "name": name, "args": values}
        answer, received = self._caller.ask(header, parts)
        if "request" in answer:
            return RemoteRequest(self._caller, answer["request"], targets[0] if targets else None)
        for target, data in zip(targets, received, strict=False):  # Bcast's root gives one and writes none
            if len(data):
                target[:] = np.frombuffer(data, np.uint8)
        return None

    def _argument(
        self,
        method: Method,
        kind: str,
        value: Any,
        arguments: Sequence[Any],
        parts: Any,
        targets: Any,
    ) -> object:
        if kind == "root":
            return operator.index(value)
        if kind == "counts":
            return None if value is None else [operator.index(count) for count in value]
        if kind == "op":
            if not isinstance(value, Op):
                raise no_operator(value)
            if value._constant is not None:
                return value._constant
            if not value:
                return "OP_NULL"
            return {"own": self._caller.operator(value), "commutes": value.Is_commutative()}
        is_root = method.base == "Bcast" and operator.index(arguments[1]) == self.rank  # it only reads
        return _buffer(value, kind == "write" and not is_root, parts, targets)

    # --- collectives of objects ---------------------------------------------------------------------

    def _of_objects(
        self, name: str, given: Sequence[object], root: int | None = None, op: object = None
    ) -> list[object]:
        """Have a collective of objects carried out; those that this rank gets, in rank order."""
        header: dict[str, object] = {"op": "objects", "comm": self._number, "name": name, "root": root}
        if name in REDUCED:
            header |= {"operator": name_of_operator(op, self.size), "combine": self._caller.operator(op)}
        _, received = self._caller.ask(header, [pickle.dumps(one) for one in given])
        return [pickle.loads(part) if len(part) else None for part in received]

    def barrier(self) -> None:
        """Wait until every rank is here."""
        self.Barrier()

    def bcast(self, obj: object = None, root: int = 0) -> object:
        """Send an object from the root to all ranks."""
        given = [obj] if operator.index(root) == self.rank else ()
        return self._of_objects("bcast", given, operator.index(root))[0]

    def gather(self, sendobj: object, root: int = 0) -> list[object] | None:
        """Collect one object of every rank at the root, in rank order."""
        found = self._of_objects("gather", [sendobj], operator.index(root))
        return found if operator.index(root) == self.rank else None

    def scatter(self, sendobj: Sequence[object] | None = None, root: int = 0) -> object:
        """Send the i-th of the root's objects to rank i."""
        given = self._items(sendobj) if operator.index(root) == self.rank else ()
        return self._of_objects("scatter", given, operator.index(root))[0]

    def allgather(self, sendobj: object) -> list[object]:
        """Collect one object of every rank at every rank, in rank order."""
        return self._of_objects("allgather", [sendobj])

    def alltoall(self, sendobj: Sequence[object] | None) -> list[object]:
        """Send the i-th object to rank i; the objects received, in rank order."""
        return self._of_objects("alltoall", self._items(sendobj))

    def _items(self, objects: Sequence[object] | None) -> Sequence[object]:
        return [None] * self.size if objects is None else objects

    def reduce(self, sendobj: object, op: object = OPERATORS["SUM"], root: int = 0) -> object:
        """Combine the objects in rank order; the result at the root, None elsewhere."""
        return self._of_objects("reduce", [sendobj], operator.index(root), op)[0]

    def allreduce(self, sendobj: object, op: object = OPERATORS["SUM"]) -> object:
        """Combine the objects in rank order; the result at every rank."""
        return self._of_objects("allreduce", [sendobj], None, op)[0]

    def scan(self, sendobj: object, op: object = OPERATORS["SUM"]) -> object:
        """Combine the objects of the ranks up to and including this one."""
        return self._of_objects("scan", [sendobj], None, op)[0]

    def exscan(self, sendobj: object, op: object = OPERATORS["SUM"]) -> object:
        """Combine the objects of the ranks before this one; None at rank 0."""
        return self._of_objects("exscan", [sendobj], None, op)[0]

    # --- for the collectives among neighbors -----------------------------------------------------

    def _private(self, name: str, root: int, op: str = "") -> tuple[RemoteComm, int]:
        asked = {"name": name, "root": operator.index(root), "op_name": op}
        answer, _ = self._caller.ask({"op": "private", "comm": self._number, **asked})
        return RemoteComm(self._caller, answer["comm"], self.rank, self.size), answer["tag"]

    def _leave(self, name: str) -> None:
        self._caller.ask({"op": "leave", "name": name})

    # --- other communicators ----------------------------------------------------------------------

    def _make(self, name: str, *args: object, shape: Grid | None = None) -> Any:
        answer, _ = self._caller.ask({"op": "make", "comm": self._number, "name": name, "args": args})
        if answer["comm"] is None:
            return COMM_NULL
        kind = RemoteComm if shape is None else self.grid_class
        return kind(self._caller, answer["comm"], answer["rank"], answer["size"], shape)

    def Dup(self, info: object = None) -> Any:
        """Return a communicator of the same ranks and grid with its own messages."""
        return self._make("Dup", shape=self._shape)

    Clone = Dup

    def Split(self, color: int = 0, key: int = 0) -> Any:
        """Return a communicator of the ranks with the same color, ordered by key; COMM_NULL for UNDEFINED."""
        return self._make("Split", operator.index(color), operator.index(key))

    def Create_cart(
        self, dims: Sequence[int], periods: Sequence[bool] | bool | None = None, reorder: bool = False
    ) -> Any:
        """Return a communicator of ranks on a grid, in row-major order; COMM_NULL for ranks left over."""
        shape = make_grid(dims, periods)
        rings = [int(ring) for ring in shape.periods]
        return self._make("Create_cart", list(shape.dims), rings, shape=shape)

    def Get_topology(self) -> int:
        """Kind of its topology: CART, or UNDEFINED for none."""
        return UNDEFINED if self._shape is None else CONSTANTS["CART"]

    topology = property(Get_topology, doc="Kind of its topology: CART, or UNDEFINED for none.")
    is_topo = property(lambda self: self._shape is not None, doc="Whether it has a topology.")

    def Free(self) -> None:
        """Give a communicator back."""
        self._caller.ask({"op": "make", "comm": self._number, "name": "Free", "args": []})
        self._is_freed = True

    free = Free


def _message(row: Method) -> str | None:
    """What a send in standard or synchronous mode does; other modes are refused."""
    if row.base.lower() not in ("send", "ssend"):
        return None
    if row.form == "persistent":
        return f"RemotePrequest(self._caller, lambda: self.I{row.base.lower()}({{args}}))"
    data = "array_of(parse_simple(buf, False))" if row.is_buffer else "pickle.dumps(obj)"
    return f"self._post({row.name.lower()!r}, {data}, dest, tag)"


add_methods(
    RemoteComm,
    [row for row in METHODS if row.kind == "send"],
    _message,
    {"array_of": array_of, "parse_simple": parse_simple, "pickle": pickle, "RemotePrequest": RemotePrequest},
)
add_methods(
    RemoteComm,
    [NAMED["Recv_init"]],
    lambda row: "RemotePrequest(self._caller, lambda: self.Irecv({args}))",
    {**_DEFAULTS, "RemotePrequest": RemotePrequest},
)
add_methods(
    RemoteComm,
    ROWS.values(),
    lambda row: "self._collective(method{rest})".format(rest=f", {row.arguments}" if row.arguments else ""),
    _DEFAULTS,
)


def _buffer(message: object, is_writable: bool, parts: list[Any], targets: list[Any]) -> object:
    """Describe a buffer argument as the grader rebuilds it: its bytes, counts, displacements and type."""
    if is_in_place(message):
        return "none" if message is None else "in place"
    data, counts, displacements, datatype = _unpack(message, (tuple,))
    memory, kind = _basic(data, datatype, is_writable)
    parts.append(memory)
    if is_writable:
        targets.append(memory)
    if kind._constant is None:
        raise MPIException(3, "graded runs take MPI's own datatypes")
    return [kind._constant, _numbers(counts), _numbers(displacements)]


def _numbers(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, int) or hasattr(value, "__index__"):
        return None if value is None else operator.index(value)
    if len(value) == 2 and isinstance(value[0], list | tuple | np.ndarray):
        return [_numbers(value[0]), _numbers(value[1])]
    return [operator.index(number) for number in value]


# Cartesian communicators of a submission: the grid's arithmetic is done here, the grader counts the messages.


class RemoteCart(NeighborCollectives, RemoteComm):
    """A communicator of ranks on a grid.

    What a grid is (coordinates, neighbors, edges) is computed as on a simulated machine, by the same
    functions; neighbor collectives are made of messages, as there.
    """

    def _grid(self) -> Grid:
        assert self._shape is not None
        return self._shape

    _topology = _grid

    def _begin(self, name: str, sent: object, received: object, homes: object, given: object) -> Any:
        raise UnsupportedError(REFUSED.format(name))

    def _neighbor_init(self, name: str, build: object) -> Any:
        raise UnsupportedError(REFUSED.format(name))

    inoutedges = Topocomm.inoutedges
    inedges, outedges = Topocomm.inedges, Topocomm.outedges
    degrees, indegree, outdegree = Topocomm.degrees, Topocomm.indegree, Topocomm.outdegree

    Get_dim, dim, ndim = Cartcomm.Get_dim, Cartcomm.dim, Cartcomm.ndim
    Get_topo, topo = Cartcomm.Get_topo, Cartcomm.topo
    dims, periods, coords = Cartcomm.dims, Cartcomm.periods, Cartcomm.coords
    Get_cart_rank, Get_coords, Shift = Cartcomm.Get_cart_rank, Cartcomm.Get_coords, Cartcomm.Shift

    def Sub(self, remain_dims: Sequence[bool]) -> Any:
        """Return the grid of the dimensions kept, of the ranks that differ from this one only in those."""
        keeps = [int(bool(operator.index(keep))) for keep in remain_dims]
        if len(keeps) != len(self._grid().dims):
            raise ValueError(f"expecting {len(self._grid().dims)} items, got {len(keeps)}")
        return self._make("Sub", keeps, shape=self._grid().kept([bool(keep) for keep in keeps]))


RemoteComm.grid_class = RemoteCart
