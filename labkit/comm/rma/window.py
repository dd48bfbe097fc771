"""Windows: memory that other ranks of a communicator can access."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from labkit import _kernels
from labkit.comm import names
from labkit.comm.buffers import Simple, parse_simple
from labkit.comm.collective.makers import maker_of
from labkit.comm.collective.native import Call, arrive_shared, leave, perform, refuse_in_recordings
from labkit.comm.handles.base import BOTTOM, KNOWN, MODULE_NAME, Handle
from labkit.comm.handles.constants import CONSTANTS, PROC_NULL
from labkit.comm.handles.errhandlers import ErrorHandling
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.groups import Group
from labkit.comm.handles.info import Info
from labkit.comm.handles.keyvals import Keyed
from labkit.comm.handles.operators import OPERATORS, Op, no_operator
from labkit.comm.handles.typebody import type_words
from labkit.comm.place import here
from labkit.comm.rma.base import Now, wrong_sync
from labkit.comm.rma.races import Access, footprint_of
from labkit.comm.rma.state import Part, Pending, WindowState
from labkit.comm.rma.synchronise import Synchronisation
from labkit.comm.surface import NAMED
from labkit.comm.typed import (
    Target,
    address_of,
    check_sizes,
    data_bytes,
    filled,
    is_phantom,
    packed,
    parse_origin,
    runs_of,
    target_of,
    unpack,
    within,
)
from labkit.schedule.problem import PROBLEMS

__all__ = ["WIN_NULL", "Win"]


# Accesses of other ranks' memory: Put, Get, accumulates, and their forms with requests.


_Do = TypeVar("_Do", bound=Callable[[], Any])
_SUM = OPERATORS["SUM"]
_DYNAMIC = CONSTANTS["WIN_FLAVOR_DYNAMIC"]
_ERR_OP, _ERR_RMA_RANGE = 10, 68
_PUT, _GET, _ACCUMULATE = 1, 2, 3  # tags, for traces


def _nothing() -> None:
    """Do nothing at the end of a transfer."""


def _kind_of(op: Op, wanted: Target) -> str:
    """Return the kind of an accumulate, for races."""
    if op is OPERATORS["NO_OP"]:
        return "NO_OP"
    basics = {kind.dtype.str for kind, _ in wanted.datatype._usable().basics()}
    return f"{op._constant} {', '.join(sorted(basics))}"


def _combination(name: str, op: Op, wanted: Target) -> Callable[[Any, Simple], None]:
    """Return what writes ``place = place op data``."""
    if not isinstance(op, Op):
        raise no_operator(op)
    if op._constant is None or not op:
        raise MPIException(_ERR_OP, f"{name} takes one of MPI's own operators, got {op!r}")
    if op is OPERATORS["NO_OP"]:
        return lambda data, place: None
    if op is OPERATORS["REPLACE"]:
        return lambda data, place: unpack(place, data)
    reduction = op._reduction_at_target(wanted.datatype)
    if reduction is None:
        raise MPIException(_ERR_OP, f"{name}: {op!r} is not defined on {type_words(wanted.datatype)}")

    def combine(data: Any, place: Simple) -> None:
        if place.datatype.is_predefined:
            reduction.apply(data, place.memory[place.offset : place.offset + place.bytes], True)
            return
        there = packed(place).copy()  # of a gathered one the bytes are not ours
        reduction.apply(data, there, True)
        unpack(place, there)

    return combine


_ERR_COMM, _ERR_DISP, _ERR_SIZE = 5, 26, 49
_ERR_RMA_FLAVOR, _ERR_RMA_SHARED = 70, 71
_FLAVORS = {name: CONSTANTS[f"WIN_FLAVOR_{name}"] for name in ("CREATE", "ALLOCATE", "DYNAMIC", "SHARED")}


class Win(Synchronisation, Keyed, ErrorHandling, Handle, _kernels.Exporter):
    """Memory of the ranks of a communicator that all of them can access; falsy when it is WIN_NULL.

    What accesses cost is told in `labkit.comm.rma`.
    """

    __slots__ = ("__weakref__",)
    __module__ = MODULE_NAME
    __hash__ = None  # type: ignore[assignment]
    _known = names.WIN
    _attribute_kind = "Win"

    def __new__(cls, win: Win | None = None) -> Win:
        """Return a handle of WIN_NULL, or of the window given."""
        if win is not None and not isinstance(win, Win):
            raise TypeError(f"win: expected a Win, got {type(win).__name__}")
        self = object.__new__(cls)
        self._state, self._comm = (None, None) if win is None else (win._state, win._comm)
        return self

    def __eq__(self, other: object) -> bool:
        return self._state is other._state if isinstance(other, Win) else NotImplemented

    def __bool__(self) -> bool:
        return self._state is not None

    def _identity(self) -> Any:
        return None if self._state is None else (id(self._state), self._comm.rank)

    def __repr__(self) -> str:
        return "labkit.MPI.WIN_NULL" if self._state is None else f"<labkit.MPI.Win: {self._state.text()}>"

    def __reduce__(self) -> Any:
        if self._state is not None:
            raise ValueError("cannot pickle a window: it is memory of this run")
        return "WIN_NULL" if self is WIN_NULL else (type(self), ())

    # --- making -------------------------------------------------------------------------------------

    @classmethod
    def Create(cls, memory: Any, disp_unit: int = 1, info: Any = None, comm: Any = None) -> Win:
        """Let the ranks of a communicator access memory that this rank gives (None or BOTTOM: none)."""
        bytes_of = None
        if memory is not None and memory is not BOTTOM:
            bytes_of = parse_simple([memory, "B"], True).memory
        self, part, _ = cls._make("Create", _FLAVORS["CREATE"], disp_unit, info, comm)
        if bytes_of is not None:
            part.memory = bytes_of
        return self._met("Create")

    @classmethod
    def Allocate(cls, size: int, disp_unit: int = 1, info: Any = None, comm: Any = None) -> Win:
        """Make memory of so many bytes that the ranks of a communicator can access."""
        _check_size(size)
        self, part, _ = cls._make("Allocate", _FLAVORS["ALLOCATE"], disp_unit, info, comm)
        part.memory = np.zeros(size, np.uint8)
        return self._met("Allocate")

    @classmethod
    def Allocate_shared(cls, size: int, disp_unit: int = 1, info: Any = None, comm: Any = None) -> Win:
        """Make memory that the ranks of a communicator, all on one host, load from and store to directly.

        The ranks' parts follow each other in rank order.
        """
        name = "Allocate_shared"
        _check_size(size)
        self, _, shared = cls._make(name, _FLAVORS["SHARED"], disp_unit, info, comm)
        state = self._now(name).state
        shared.made.setdefault("sizes", {})[self._comm.rank] = size
        self._tell_eight_bytes("Bcast", name)
        perform(self._comm, Call("barrier", f"Win.{name}"))
        if state.block is None:  # all have come
            sizes = [shared.made["sizes"][rank] for rank in range(len(state.world))]
            state.block = np.zeros(sum(sizes), np.uint8)
            end = 0
            for other, length in zip(state.parts, sizes, strict=True):
                other.memory = state.block[end : end + length]
                end += length
        return self._met(name)

    @classmethod
    def Create_dynamic(cls, info: Any = None, comm: Any = None) -> Win:
        """Make a window without memory; `Attach` gives it some. Displacements are addresses."""
        return cls._make("Create_dynamic", _FLAVORS["DYNAMIC"], 1, info, comm)[0]._met("Create_dynamic")

    @classmethod
    def _make(cls, name: str, flavor: int, disp_unit: int, info: Any, comm: Any) -> tuple[Win, Part, Any]:
        """Return this rank's handle of a window, its part, and what the ranks share about the call."""
        comm = KNOWN["COMM_SELF"] if comm is None else comm
        if not isinstance(comm, KNOWN["Intracomm"]):
            if comm == KNOWN["COMM_NULL"]:
                raise MPIException(_ERR_COMM, f"Win.{name} on COMM_NULL")
            raise TypeError(f"comm: expected an Intracomm, got {type(comm).__name__}")
        if disp_unit < 1:
            raise MPIException(_ERR_DISP, f"Win.{name}: disp_unit={disp_unit} is not allowed: at least 1")
        calls, shared = arrive_shared(comm, f"Win.{name}", {})
        refuse_in_recordings(calls, f"Win.{name}")
        if "window" not in shared.made:
            shared.made["context"] = calls.hub.new_context()
            shared.made["window"] = WindowState(flavor, comm._world_ranks(), name, here())
            calls.windows.append(shared.made["window"])
        leave(f"Win.{name}")
        self = cls()
        self._state = shared.made["window"]
        self._comm = KNOWN["Intracomm"](comm)
        self._comm._use_context(shared.made["context"])
        if flavor == _FLAVORS["SHARED"]:
            _check_host(calls.hub, self._state.world)
            calls.shares_memory()
        part = self._state.parts[comm.rank]
        part.unit = int(disp_unit)
        if info:
            part.own["info"] = dict(info.items())
        return self, part, shared

    def _met(self, name: str) -> Win:
        """All ranks' parts are known once each has told the others."""
        self._tell_eight_bytes("Allgather", name)
        return self

    def _tell_eight_bytes(self, method: str, name: str) -> None:
        """Do what the calls that make a window do with an address."""
        row, eight = NAMED[method], np.zeros(8, np.uint8)
        rest = (0,) if method == "Bcast" else (np.zeros(8 * self._comm.size, np.uint8),)
        perform(self._comm, maker_of(row)(self._comm, PROBLEMS[row.problem], f"Win.{name}", eight, *rest))

    def Free(self) -> None:
        """Give the window back, all its ranks together; the handle becomes WIN_NULL."""
        now = self._now("Free")
        epoch = now.part.epoch
        if epoch.is_passive:
            place = epoch.is_all or next(iter(epoch.locked.values()))
            raise wrong_sync(f"Free while this rank holds a lock of the window, taken at {place}")
        if epoch.targets is not None or epoch.origins is not None:
            raise wrong_sync("Free between Start and Complete, or Post and Wait")
        self._barrier(now)
        self._finish(now, now.me, None)
        self._barrier(now)
        now.part.is_free = True
        self._state = None

    def free(self) -> None:
        """Give it back unless it is null."""
        if self:
            self.Free()

    # --- memory ---------------------------------------------------------------------------------------

    def Attach(self, memory: Any) -> None:
        """Let memory be accessed through a dynamic window, by its address."""
        self._dynamic("Attach").attach(parse_simple([memory, "B"], True).memory)

    def Detach(self, memory: Any) -> None:
        """Let attached memory be accessed no more."""
        self._dynamic("Detach").detach(parse_simple([memory, "B"], True).memory)

    def _dynamic(self, name: str) -> Part:
        now = self._now(name)
        if now.state.flavor != _FLAVORS["DYNAMIC"]:
            raise MPIException(_ERR_RMA_FLAVOR, f"{name} is for windows of Create_dynamic")
        now.hub.catch_up(name)
        return now.part

    def Shared_query(self, rank: int) -> tuple[Any, int]:
        """Return a rank's memory of a shared window and its unit; PROC_NULL: that of the first that has any.

        Of other windows the ranks' memory is not shared: nothing is returned.
        """
        now = self._now("Shared_query")
        if now.state.flavor == _FLAVORS["DYNAMIC"]:
            raise MPIException(_ERR_RMA_FLAVOR, "Shared_query is not for windows of Create_dynamic")
        if rank == PROC_NULL:
            parts = now.state.parts
            rank = next((index for index, part in enumerate(parts) if part.memory.size), 0)
        self._check_rank(now, rank)
        part = now.state.parts[rank]
        if now.state.flavor != _FLAVORS["SHARED"] and rank != now.me:
            return _buffer_of(np.empty(0, np.uint8)), 1
        return _buffer_of(part.memory), part.unit

    def tomemory(self) -> Any:
        """Return this rank's memory."""
        return _buffer_of(self._now("tomemory").part.memory)

    def _exported(self) -> Any:
        """Return what ``memoryview(win)`` and ``np.frombuffer(win)`` see."""
        return self.tomemory()

    @property
    def attrs(self) -> tuple[int, int, int]:
        """Address, size in bytes and unit of this rank's memory."""
        part = self._now("attrs").part
        size = int(part.memory.size)
        return address_of(part.memory) if size else 0, size, part.unit

    # --- attributes -----------------------------------------------------------------------------------

    def _own(self) -> dict[Any, Any]:
        return self._now("attributes").part.own

    def Get_attr(self, keyval: int) -> Any:
        """Value of an attribute: WIN_BASE, WIN_SIZE, WIN_DISP_UNIT, WIN_CREATE_FLAVOR, WIN_MODEL; or kept."""
        base, size, unit = self.attrs
        values = {"BASE": base, "SIZE": size, "DISP_UNIT": unit, "CREATE_FLAVOR": self.flavor}
        for name, value in (*values.items(), ("MODEL", self.model)):
            if keyval == CONSTANTS[f"WIN_{name}"]:
                return value
        return super().Get_attr(keyval)

    def _kept(self) -> dict[int, Any]:
        kept: dict[int, Any] = self._own().setdefault("attributes", {})
        return kept

    @property
    def flavor(self) -> int:
        """How it was made: WIN_FLAVOR_CREATE, _ALLOCATE, _SHARED or _DYNAMIC."""
        return int(self._now("flavor").state.flavor)

    @property
    def model(self) -> int:
        """WIN_UNIFIED: what others write is at once what the rank reads."""
        self._now("model")
        return int(CONSTANTS["WIN_UNIFIED"])

    def Get_group(self) -> Group:
        """Return the group of its ranks."""
        return Group._of(tuple(self._now("Get_group").state.world))

    group = property(Get_group, doc="The group of its ranks.")
    group_size = property(lambda self: len(self._now("group_size").state.world), doc="Number of its ranks.")
    group_rank = property(lambda self: self._now("group_rank").me, doc="The running rank in it.")

    def Get_name(self) -> str:
        """Name of the window, as this rank gave it."""
        return str(self._own().get("name", "")) if self else "MPI_WIN_NULL"

    def Set_name(self, name: str) -> None:
        """Give it a name; every rank names for itself."""
        self._own()["name"] = str(name)

    name = property(Get_name, Set_name, doc="Name of the window.")

    def Get_info(self) -> Info:
        """Return a copy of the hints that this rank has set."""
        return Info.Create(dict(self._own().get("info", {})))

    def Set_info(self, info: Info) -> None:
        """Keep hints; nothing looks at them."""
        self._own()["info"] = dict(info.items())

    info = property(Get_info, Set_info, doc="Hints that this rank has set.")

    # The communication calls of a window.

    # --- put and get ------------------------------------------------------------------------------

    def Put(self, origin: Any, target_rank: int, target: Any = None) -> None:
        """Write data into a rank's part of the window."""
        self._put("Put", origin, target_rank, target)

    def Get(self, origin: Any, target_rank: int, target: Any = None) -> None:
        """Read data from a rank's part of the window."""
        self._get("Get", origin, target_rank, target)

    def Rput(self, origin: Any, target_rank: int, target: Any = None) -> Any:
        """Put, with a request that is complete when the origin may be used again: at once."""
        self._put("Rput", origin, target_rank, target)
        return self._over("Rput")

    def Rget(self, origin: Any, target_rank: int, target: Any = None) -> Any:
        """Get, with a request that is complete when the data have come."""
        handle = self._get("Rget", origin, target_rank, target, is_owned=True)
        now = self._now("Rget")
        return self._over("Rget") if handle is None else now.hub.handle_request(self._comm, handle)

    # --- accumulates ------------------------------------------------------------------------------

    def Accumulate(self, origin: Any, target_rank: int, target: Any = None, op: Op = _SUM) -> None:
        """Combine data with those of a rank's part of the window, element by element and atomically."""
        self._accumulate("Accumulate", origin, target_rank, target, op)

    def Raccumulate(self, origin: Any, target_rank: int, target: Any = None, op: Op = _SUM) -> Any:
        """Accumulate, with a request."""
        self._accumulate("Raccumulate", origin, target_rank, target, op)
        return self._over("Raccumulate")

    def Get_accumulate(
        self, origin: Any, result: Any, target_rank: int, target: Any = None, op: Op = _SUM
    ) -> None:
        """Combine data with those of a rank's part of the window, and read what was there before."""
        self._get_accumulate("Get_accumulate", origin, result, target_rank, target, op)

    def Rget_accumulate(
        self, origin: Any, result: Any, target_rank: int, target: Any = None, op: Op = _SUM
    ) -> Any:
        """Do as `Get_accumulate`, with a request."""
        self._get_accumulate("Rget_accumulate", origin, result, target_rank, target, op)
        return self._over("Rget_accumulate")

    def Fetch_and_op(
        self, origin: Any, result: Any, target_rank: int, target_disp: int = 0, op: Op = _SUM
    ) -> None:
        """Combine one element with one of a rank's part of the window, and read what was there before."""
        given, taken = self._one_element(origin, result, target_rank)
        self._read_and_change("Fetch_and_op", given, taken, target_rank, target_disp, op)

    def Compare_and_swap(
        self, origin: Any, compare: Any, result: Any, target_rank: int, target_disp: int = 0
    ) -> None:
        """Write an element of a rank's part of the window if it equals another; read what was there."""
        name = "Compare_and_swap"
        given = parse_origin(origin, False, target_rank)
        expected = parse_origin(compare, False, target_rank)
        taken = parse_origin(result, True, target_rank)
        now = self._begin(name, target_rank)
        if now is None or given is None or expected is None or taken is None:
            return
        for what, side in (("origin", given), ("compare", expected), ("result", taken)):
            if side.count != 1:
                raise ValueError(f"{what}: expecting a single element, got {side.count}")
        if not given.datatype == expected.datatype == taken.datatype:
            raise ValueError("mismatch in origin, compare and result MPI datatypes")
        wanted = Target(target_disp, 1, given.datatype)
        place = self._place(now, target_rank, wanted)
        self._note(now, target_rank, place, f"compare {given.datatype.name}")
        new, old = packed(given), packed(expected)
        now.hub.catch_up(name)
        atomic = now.state.parts[target_rank].atomic
        atomic.acquire(now.hub, name)
        found = np.empty(0, np.uint8)

        def look() -> None:
            nonlocal found
            found = packed(place)
            if (found == old).all():
                unpack(place, new)

        look = self._beside_stores(now, target_rank, place, look)
        self._fetch(now, target_rank, data_bytes(wanted), look)
        unpack(taken, found)
        if (found == old).all():
            self._send(now, target_rank, data_bytes(wanted), None, _PUT)
        atomic.release(now.hub)

    # --- how --------------------------------------------------------------------------------------

    def _over(self, name: str) -> Any:
        return self._now(name).hub.finished_request(self._comm)

    def _begin(self, name: str, target_rank: int) -> Now | None:
        """Return the call; None where there is nothing to do."""
        now = self._now(name)
        if target_rank == PROC_NULL:
            return None
        self._check_rank(now, target_rank)
        if not now.part.epoch.allows(target_rank):
            raise wrong_sync(
                f"{name} to rank {target_rank} outside any epoch: call Fence before it, or Start with that "
                "rank in the group, or Lock or Lock_all"
            )
        return now

    @staticmethod
    def _place(now: Now, rank: int, wanted: Target) -> Simple:
        """Find the bytes at the target."""
        part, n_bytes = now.state.parts[rank], data_bytes(wanted)
        if now.state.flavor == _DYNAMIC:
            memory, offset = part.find(wanted.disp)
        else:
            memory, offset = part.memory, wanted.disp * part.unit
        low, high = wanted.datatype._usable().map.span(max(wanted.count, 0))
        if offset + low < 0 or wanted.count < 0 or (n_bytes and offset + high > memory.size):
            what = "no attached memory has" if now.state.flavor == _DYNAMIC else f"it has {memory.size} bytes"
            raise MPIException(
                _ERR_RMA_RANGE,
                f"{now.name}: {wanted.count} x {type_words(wanted.datatype)} at displacement {wanted.disp} "
                f"are bytes {offset + low} to {offset + high - 1} of rank {rank}'s part of the window; "
                f"{what}",
            )
        return Simple(memory, offset, wanted.count, wanted.datatype)

    @staticmethod
    def _note(now: Now, rank: int, place: Simple, kind: str, n_bytes: int | None = None) -> None:
        """Keep the access, for races."""
        access = Access(kind, now.name, now.world(now.me), here())
        # Of a dynamic window the offset is one in the attached memory: addresses tell several apart.
        is_by_address = now.state.flavor == _DYNAMIC and not is_phantom(place)
        base = address_of(place.memory) if is_by_address else 0
        where = footprint_of(place, n_bytes, base)
        now.state.note_access(now.calls.note_fault, rank, where, access)
        now.part.touched[rank] = None

    @staticmethod
    def _beside_stores(now: Now, rank: int, place: Simple, do: _Do, n_bytes: int | None = None) -> _Do:
        """Return what an access does at its target; in checked runs it looks for the target's own stores."""
        epoch, part = now.part.epoch, now.state.parts[rank]
        if not now.calls.looks_at_stores or not epoch.is_fenced or epoch.targets is not None:
            return do
        runs = runs_of(place, n_bytes)

        def watched() -> Any:
            return do() if part.stores is None else part.stores.around(runs, do)

        return watched  # type: ignore[return-value]

    @staticmethod
    def _send(
        now: Now, rank: int, n_bytes: int, on_end: Callable[[], None] | None, tag: int, is_self: bool = False
    ) -> None:
        """Begin a transfer to a target."""
        hub, target = now.hub, now.state.parts[rank]
        if rank == now.me and not is_self:
            hub.catch_up(now.name)
            if on_end is not None:
                on_end()
            return
        hub.begin_transfer(n_bytes, now.name)
        handle = hub.transfer(now.world(now.me), now.world(rank), n_bytes, now.context, tag, on_end)
        if tag == _PUT:  # SMPI keeps a list of its own of these
            now.part.mutex.acquire(hub, now.name)
            now.part.mutex.release(hub)
        target.mutex.acquire(hub, now.name)
        target.pending.append(Pending(handle, now.me, now.me))
        target.mutex.release(hub)

    @staticmethod
    def _begin_fetch(now: Now, rank: int, n_bytes: int, on_begin: Callable[[], Callable[[], None]]) -> int:
        """Begin a transfer from a target; its handle."""
        hub, target = now.hub, now.state.parts[rank]
        hub.begin_transfer(n_bytes, now.name)
        on_end = on_begin()
        handle = int(hub.transfer(now.world(rank), now.world(now.me), n_bytes, now.context, _GET, on_end))
        target.mutex.acquire(hub, now.name)
        target.mutex.release(hub)
        return handle

    def _fetch(self, now: Now, rank: int, n_bytes: int, on_end: Callable[[], None]) -> None:
        """Transfer from a target, and wait for it."""
        if rank == now.me:
            on_end()
            return
        handle = self._begin_fetch(now, rank, n_bytes, lambda: on_end)
        now.hub.wait_for([handle], now.name)
        now.hub.release_handles([handle])
        now.hub.catch_up(now.name)

    def _put(self, name: str, origin: Any, target_rank: int, target: Any) -> None:
        given = parse_origin(origin, False, target_rank)
        now = self._begin(name, target_rank)
        if now is None or given is None:
            return
        wanted = filled(name, given, target_of(target, given))
        place = self._place(now, target_rank, wanted)
        self._note(now, target_rank, place, "put", given.bytes)
        self._watched(now, given, target_rank)
        on_end = None
        if given.bytes and not (is_phantom(given) or is_phantom(place)):
            data = packed(given)
            on_end = self._beside_stores(now, target_rank, place, lambda: unpack(place, data), given.bytes)
        self._send(now, target_rank, given.bytes, on_end, _PUT)

    def _get(
        self, name: str, origin: Any, target_rank: int, target: Any, is_owned: bool = False
    ) -> int | None:
        taken = parse_origin(origin, True, target_rank)
        now = self._begin(name, target_rank)
        if now is None or taken is None:
            return None
        wanted = within(name, taken, target_of(target, taken))
        place = self._place(now, target_rank, wanted)
        self._note(now, target_rank, place, "get")
        n_bytes = data_bytes(wanted)
        has_data = n_bytes and not (is_phantom(taken) or is_phantom(place))
        origin_of = self._watched(now, taken, target_rank)

        def read() -> Callable[[], None]:
            if not has_data:
                return lambda: None
            data = packed(place)
            if origin_of is not None:
                return lambda: origin_of.arriving(lambda: unpack(taken, data))
            return lambda: unpack(taken, data)

        read = self._beside_stores(now, target_rank, place, read)
        if target_rank == now.me:
            now.hub.catch_up(name)
            read()()
            return None
        handle = self._begin_fetch(now, target_rank, n_bytes, read)
        now.part.mutex.acquire(now.hub, name)
        now.part.pending.append(Pending(handle, target_rank, now.me, is_owned))
        now.part.mutex.release(now.hub)
        return handle

    def _accumulate(self, name: str, origin: Any, target_rank: int, target: Any, op: Op) -> None:
        given = parse_origin(origin, False, target_rank, True)
        now = self._begin(name, target_rank)
        if now is None or given is None:
            return
        wanted = filled(name, given, target_of(target, given), is_whole=True)
        combine = _combination(name, op, wanted)
        place = self._place(now, target_rank, wanted)
        self._note(now, target_rank, place, _kind_of(op, wanted))
        on_end = None
        if given.bytes and not (is_phantom(given) or is_phantom(place)):
            data = packed(given)
            on_end = self._beside_stores(now, target_rank, place, lambda: combine(data, place))
        self._send(now, target_rank, given.bytes, on_end, _ACCUMULATE, is_self=True)
        self._flush_transfers(now, target_rank)

    def _get_accumulate(
        self, name: str, origin: Any, result: Any, target_rank: int, target: Any, op: Op
    ) -> None:
        taken = parse_origin(result, True, target_rank, True)
        given = parse_origin(origin, False, target_rank, True)
        wanted = None if given is None else target_of(target, given)
        self._read_and_change(name, given, taken, target_rank, wanted, op)

    @staticmethod
    def _one_element(origin: Any, result: Any, target_rank: int) -> tuple[Simple | None, Simple | None]:
        given = parse_origin(origin, False, target_rank, True)
        taken = parse_origin(result, True, target_rank, True)
        if given is None or taken is None:
            return None, None
        for what, side in (("origin", given), ("result", taken)):
            if side.count != 1:
                raise ValueError(f"{what}: expecting a single element, got {side.count}")
        if given.datatype != taken.datatype:
            raise ValueError("mismatch in origin and result MPI datatypes")
        return given, taken

    def _read_and_change(
        self, name: str, given: Simple | None, taken: Simple | None, target_rank: int, target: Any, op: Op
    ) -> None:
        """Read what a target has and combine it with what the origin gives, at one instant."""
        now = self._begin(name, target_rank)
        if now is None or given is None or taken is None:
            return
        wanted = target if isinstance(target, Target) else target_of(target, given)
        is_read = op is OPERATORS["NO_OP"]  # then the origin is not looked at
        for side in (taken,) if is_read else (given, taken):
            check_sizes(name, side, wanted)
        combine = _combination(name, op, wanted)
        place = self._place(now, target_rank, wanted)
        self._note(now, target_rank, place, _kind_of(op, wanted))
        n_bytes = data_bytes(taken)
        has_data = n_bytes and not any(is_phantom(side) for side in (given, taken, place))
        data = packed(given) if has_data and not is_read else None
        found: Any = None

        def exchange() -> None:
            nonlocal found
            if has_data:
                found = packed(place)
                if data is not None:
                    combine(data, place)

        exchange = self._beside_stores(now, target_rank, place, exchange)
        now.hub.catch_up(name)
        atomic = now.state.parts[target_rank].atomic
        atomic.acquire(now.hub, name)
        self._fetch(now, target_rank, n_bytes, exchange if is_read else _nothing)
        if not is_read:
            self._send(now, target_rank, n_bytes, exchange, _ACCUMULATE, is_self=True)
            self._flush_transfers(now, target_rank)
        atomic.release(now.hub)
        if found is not None:
            unpack(taken, found)


def _check_size(size: int) -> None:
    if size < 0:
        raise MPIException(_ERR_SIZE, f"size={size} is not allowed: at least 0 bytes")


def _check_host(hub: Any, world: list[int]) -> None:
    """Refuse shared memory of ranks on several hosts."""
    hosts = {hub.host(rank) for rank in world}
    if len(hosts) > 1:
        raise MPIException(
            _ERR_RMA_SHARED,
            f"the {len(world)} ranks of the communicator are on {len(hosts)} hosts, and memory is shared "
            "within one: take comm.Split_type(MPI.COMM_TYPE_SHARED), or put all of them on one host, as in "
            f"--on star:1,cores={len(world)}",
        )


def _buffer_of(memory: Any) -> Any:
    """Return memory as the program sees it; none is at address 0."""
    return _kernels.Buffer.frombuffer(memory) if memory.size else _kernels.Buffer()


WIN_NULL = Win()
KNOWN["WIN_NULL"] = WIN_NULL
