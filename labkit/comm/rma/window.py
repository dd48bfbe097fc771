"""Windows: memory that other ranks of a communicator can access."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from labkit import _kernels
from labkit.comm import surface
from labkit.comm.buffers import parse_simple
from labkit.comm.collective.makers import maker_of
from labkit.comm.collective.native import (
    Call,
    arrive_shared,
    call_under_way,
    leave,
    perform,
    refuse_in_recordings,
)
from labkit.comm.handles.base import BOTTOM, KNOWN, MODULE_NAME, Handle
from labkit.comm.handles.constants import CONSTANTS, PROC_NULL
from labkit.comm.handles.errhandlers import ErrorHandling
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.groups import Group
from labkit.comm.handles.info import Info, Keyed, deleted
from labkit.comm.handles.operators import OPERATORS, Op
from labkit.comm.handles.status import Request
from labkit.comm.handles.typebody import check_small
from labkit.comm.place import here
from labkit.comm.rma.state import Stores, WindowPart, WindowState
from labkit.comm.rma.transfers import (
    AccessCall,
    accumulate,
    check_rank,
    compare_and_swap,
    finish,
    flush,
    flush_all,
    get,
    get_accumulate,
    one_element,
    poll,
    put,
    read_and_change,
    wait_for_all,
    wrong_sync,
)
from labkit.comm.surface import NAMED
from labkit.comm.typed import address_of
from labkit.program.sized import is_sized
from labkit.schedule.problem import PROBLEMS

__all__ = ["WIN_NULL", "Win"]


_ERR_COMM, _ERR_GROUP, _ERR_ASSERT, _ERR_DISP, _ERR_LOCKTYPE, _ERR_SIZE, _ERR_WIN = 5, 9, 22, 26, 37, 49, 53
_ERR_RMA_FLAVOR, _ERR_RMA_SHARED = 70, 71
_NULL = _ERR_WIN, "WIN_NULL, or a window that has been freed"
_SUM = OPERATORS["SUM"]
_NOPRECEDE, _NOSUCCEED = CONSTANTS["MODE_NOPRECEDE"], CONSTANTS["MODE_NOSUCCEED"]
_EXCLUSIVE, _SHARED = CONSTANTS["LOCK_EXCLUSIVE"], CONSTANTS["LOCK_SHARED"]
_POSTED, _COMPLETED = 4, 5  # tags
_FLAVORS = {name: CONSTANTS[f"WIN_FLAVOR_{name}"] for name in ("CREATE", "ALLOCATE", "DYNAMIC", "SHARED")}


class Win(Keyed, ErrorHandling, Handle, _kernels.Exporter):
    """Memory of the ranks of a communicator that all of them can access; falsy when it is WIN_NULL.

    For the cost of accesses see `labkit.comm.rma`.
    """

    __slots__ = ("_comm", "_state")
    __module__ = MODULE_NAME
    __hash__ = None  # type: ignore[assignment]
    _known = surface.WIN
    _attribute_kind = "Win"
    _state: WindowState | None
    _comm: Any  #: the window's ranks, with messages of the window's own

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

    def _identity(self) -> object:
        return None if self._state is None else (id(self._state), self._comm.rank)

    def __repr__(self) -> str:
        return "labkit.MPI.WIN_NULL" if self._state is None else f"<labkit.MPI.Win: {self._state.text()}>"

    def __reduce__(self) -> str | tuple[object, ...]:
        if self._state is not None:
            raise ValueError("cannot pickle a window: it is memory of this run")
        return "WIN_NULL" if self is WIN_NULL else (type(self), ())

    # --- making -------------------------------------------------------------------------------------

    @classmethod
    def Create(cls, memory: object, disp_unit: int = 1, info: object = None, comm: object = None) -> Win:
        """Let the ranks of a communicator access memory that this rank gives (None or BOTTOM: none)."""
        bytes_of = None
        if memory is not None and memory is not BOTTOM:
            bytes_of = parse_simple([memory, "B"], True).memory
        self, part, _ = cls._make("Create", _FLAVORS["CREATE"], disp_unit, info, comm)
        if bytes_of is not None:
            part.memory = bytes_of
        return self._met("Create")

    @classmethod
    def Allocate(cls, size: int, disp_unit: int = 1, info: object = None, comm: object = None) -> Win:
        """Make memory of `size` bytes that the ranks of a communicator can access."""
        _check_size(size)
        self, part, _ = cls._make("Allocate", _FLAVORS["ALLOCATE"], disp_unit, info, comm)
        part.memory = np.zeros(size, np.uint8)
        return self._met("Allocate")

    @classmethod
    def Allocate_shared(cls, size: int, disp_unit: int = 1, info: object = None, comm: object = None) -> Win:
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
        if state.block is None:  # all have arrived
            sizes = [shared.made["sizes"][rank] for rank in range(len(state.world))]
            state.block = np.zeros(sum(sizes), np.uint8)
            end = 0
            for other, length in zip(state.parts, sizes, strict=True):
                other.memory = state.block[end : end + length]
                end += length
        return self._met(name)

    @classmethod
    def Create_dynamic(cls, info: object = None, comm: object = None) -> Win:
        """Make a window without memory; `Attach` gives it some. Displacements are addresses."""
        return cls._make("Create_dynamic", _FLAVORS["DYNAMIC"], 1, info, comm)[0]._met("Create_dynamic")

    @classmethod
    def _make(
        cls, name: str, flavor: int, disp_unit: int, info: Any, comm: object
    ) -> tuple[Win, WindowPart, Any]:
        """Return this rank's handle of a window, its part, and what the ranks share about the call."""
        comm = KNOWN["COMM_SELF"] if comm is None else comm
        if not isinstance(comm, KNOWN["Intracomm"]):
            if comm == KNOWN["COMM_NULL"]:
                raise MPIException(_ERR_COMM, f"Win.{name} on COMM_NULL")
            raise TypeError(f"comm: expected an Intracomm, got {type(comm).__name__}")
        check_small([disp_unit])
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
            part.own["info"] = dict(info._dict())
        return self, part, shared

    def _met(self, name: str) -> Win:
        """All ranks' parts are known after the exchange."""
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
        deleted(self)
        wait_for_all(now)
        finish(now, now.me, None)
        wait_for_all(now)
        now.part.is_free = True
        self._state = None

    def free(self) -> None:
        """Give it back unless it is null."""
        if self:
            self.Free()

    def _now(self, name: str) -> AccessCall:
        """Return the call under way; see `call_under_way`."""
        calls, state, me = call_under_way(self, "Win", name, _NULL)
        return AccessCall(name, calls, calls.hub, state, me, state.parts[me], self._comm)

    # --- memory ---------------------------------------------------------------------------------------

    def Attach(self, memory: object) -> None:
        """Let memory be accessed through a dynamic window, by its address."""
        self._dynamic("Attach").attach(parse_simple([memory, "B"], True).memory)

    def Detach(self, memory: object) -> None:
        """Let attached memory be accessed no more."""
        self._dynamic("Detach").detach(parse_simple([memory, "B"], True).memory)

    def _dynamic(self, name: str) -> WindowPart:
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
        check_rank(now, rank)
        part = now.state.parts[rank]
        if now.state.flavor != _FLAVORS["SHARED"] and rank != now.me:
            return _buffer_of(np.empty(0, np.uint8)), 1
        return _buffer_of(part.memory), part.unit

    def tomemory(self) -> Any:
        """Return this rank's memory."""
        return _buffer_of(self._now("tomemory").part.memory)

    def _exported(self) -> object:
        """Return what ``memoryview(win)`` and ``np.frombuffer(win)`` see."""
        return self.tomemory()

    @property
    def attrs(self) -> tuple[int, int, int]:
        """Address, size in bytes and unit of this rank's memory."""
        part = self._now("attrs").part
        size = int(part.memory.size)
        return address_of(part.memory) if size else 0, size, part.unit

    # --- attributes -----------------------------------------------------------------------------------

    def _own(self) -> dict[object, Any]:
        return self._now("attributes").part.own

    def Get_attr(self, keyval: int) -> Any:
        """Value of an attribute: WIN_BASE, WIN_SIZE, WIN_DISP_UNIT, WIN_CREATE_FLAVOR, WIN_MODEL; or kept."""
        base, size, unit = self.attrs
        values = {"BASE": base, "SIZE": size, "DISP_UNIT": unit, "CREATE_FLAVOR": self.flavor}
        for name, value in (*values.items(), ("MODEL", self.model)):
            if keyval == CONSTANTS[f"WIN_{name}"]:
                return value
        return super().Get_attr(keyval)

    def _kept(self) -> dict[int, object]:
        kept: dict[int, object] = self._own().setdefault("attributes", {})
        return kept

    @property
    def flavor(self) -> int:
        """How it was made: WIN_FLAVOR_CREATE, _ALLOCATE, _SHARED or _DYNAMIC."""
        return int(self._now("flavor").state.flavor)

    @property
    def model(self) -> int:
        """WIN_UNIFIED: what others write is immediately visible to the rank."""
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
        """Keep hints, in addition to those set before; nothing looks at them."""
        self._own().setdefault("info", {}).update(info._dict())

    info = property(Get_info, Set_info, doc="Hints that this rank has set.")

    # --- put and get ------------------------------------------------------------------------------

    def Put(self, origin: object, target_rank: int, target: object = None) -> None:
        """Write data into a rank's part of the window."""
        put(self._now("Put"), origin, target_rank, target)

    def Get(self, origin: object, target_rank: int, target: object = None) -> None:
        """Read data from a rank's part of the window."""
        get(self._now("Get"), origin, target_rank, target)

    def Rput(self, origin: object, target_rank: int, target: object = None) -> _kernels.RequestBase:
        """Put, with a request that is complete when the origin may be used again, which is immediately."""
        put(self._now("Rput"), origin, target_rank, target)
        return self._over("Rput")

    def Rget(self, origin: object, target_rank: int, target: object = None) -> _kernels.RequestBase:
        """Get, with a request that is complete when the data have arrived."""
        handle = get(self._now("Rget"), origin, target_rank, target, is_owned=True)
        now = self._now("Rget")
        return self._over("Rget") if handle is None else now.hub.handle_request(self._comm, handle)

    # --- accumulates ------------------------------------------------------------------------------

    def Accumulate(self, origin: object, target_rank: int, target: object = None, op: Op = _SUM) -> None:
        """Combine data with those of a rank's part of the window, element by element and atomically."""
        accumulate(self._now("Accumulate"), origin, target_rank, target, op)

    def Raccumulate(
        self, origin: object, target_rank: int, target: object = None, op: Op = _SUM
    ) -> _kernels.RequestBase:
        """Accumulate, with a request."""
        accumulate(self._now("Raccumulate"), origin, target_rank, target, op)
        return self._over("Raccumulate")

    def Get_accumulate(
        self, origin: object, result: object, target_rank: int, target: object = None, op: Op = _SUM
    ) -> None:
        """Combine data with those of a rank's part of the window, and read what was there before."""
        get_accumulate(self._now("Get_accumulate"), origin, result, target_rank, target, op)

    def Rget_accumulate(
        self, origin: object, result: object, target_rank: int, target: object = None, op: Op = _SUM
    ) -> _kernels.RequestBase:
        """Do as `Get_accumulate`, with a request."""
        get_accumulate(self._now("Rget_accumulate"), origin, result, target_rank, target, op)
        return self._over("Rget_accumulate")

    def Fetch_and_op(
        self, origin: object, result: object, target_rank: int, target_disp: int = 0, op: Op = _SUM
    ) -> None:
        """Combine one element with one of a rank's part of the window, and read what was there before."""
        given, taken = one_element(origin, result, target_rank)
        read_and_change(self._now("Fetch_and_op"), given, taken, target_rank, target_disp, op)

    def Compare_and_swap(
        self, origin: object, compare: object, result: object, target_rank: int, target_disp: int = 0
    ) -> None:
        """Write an element of a rank's part of the window if it equals another; read what was there."""
        compare_and_swap(self._now("Compare_and_swap"), origin, compare, result, target_rank, target_disp)

    def _over(self, name: str) -> _kernels.RequestBase:
        return self._now(name).hub.finished_request(self._comm)

    # --- fences -----------------------------------------------------------------------------------

    def Fence(self, assertion: int = 0) -> None:
        """End an epoch of the whole window, and begin one (not with MODE_NOSUCCEED)."""
        _check_assertion(assertion, "NOSTORE", "NOPUT", "NOPRECEDE", "NOSUCCEED")
        now = self._now("Fence")
        epoch = now.part.epoch
        if epoch.is_passive:
            raise wrong_sync("Fence while this rank holds a lock of the window: Unlock first")
        if epoch.targets is not None or epoch.origins is not None:
            raise wrong_sync("Fence between Start and Complete, or Post and Wait")
        if not assertion & _NOPRECEDE:
            wait_for_all(now)
            finish(now, now.me, None)
            now.state.note_stores(now.calls.note_fault, now.me)
            now.part.accesses.close()
            now.part.touched.clear()
        wait_for_all(now)
        epoch.is_fenced = not assertion & _NOSUCCEED
        if now.calls.looks_at_stores:
            memory = now.part.memory
            is_own = epoch.is_fenced and memory.size and not is_sized(memory) and now.state.block is None
            now.part.stores = Stores(memory, here()) if is_own else None

    # --- post, start, complete, wait ----------------------------------------------------------------

    def Post(self, group: Group, assertion: int = 0) -> None:
        """Let the ranks of a group access this rank's part."""
        _check_assertion(assertion, "NOCHECK", "NOSTORE", "NOPUT")
        now = self._now("Post")
        if now.part.epoch.origins is not None:
            raise wrong_sync("Post while an exposure epoch is open: Wait for it first")
        origins = self._ranks_of(now, group)
        self._tell(now, origins, _POSTED)
        now.part.epoch.origins = origins

    def Start(self, group: Group, assertion: int = 0) -> None:
        """Begin to access the parts of a group's ranks: wait until they have posted."""
        _check_assertion(assertion, "NOCHECK")
        now = self._now("Start")
        epoch = now.part.epoch
        if epoch.targets is not None or epoch.is_passive:
            raise wrong_sync("Start while an access epoch is open: Complete or Unlock first")
        targets = self._ranks_of(now, group)
        Request.Waitall(self._hear(now, targets, _POSTED))
        epoch.targets = targets

    def Complete(self) -> None:
        """End what `Start` began."""
        now = self._now("Complete")
        targets = now.part.epoch.targets
        if targets is None:
            raise wrong_sync("Complete without Start")
        self._tell(now, targets, _COMPLETED)
        finish(now, now.me, None)
        now.part.epoch.targets = None
        for rank in targets:
            now.part.touched.pop(rank, None)

    def Wait(self) -> Literal[True]:
        """End what `Post` began: wait until the group's ranks have completed."""
        now = self._now("Wait")
        arriving = self._arriving(now)
        Request.Waitall(arriving)
        self._end_exposure(now)
        return True

    def Test(self) -> bool:
        """Whether `Wait` would return immediately; then it does what that does."""
        now = self._now("Test")
        arriving = now.part.epoch.arriving = self._arriving(now)
        if not Request.Testall(arriving):
            return False
        self._end_exposure(now)
        return True

    def _arriving(self, now: AccessCall) -> list[Any]:
        origins = now.part.epoch.origins
        if origins is None:
            raise wrong_sync(f"{now.name} without Post")
        known = now.part.epoch.arriving
        return self._hear(now, origins, _COMPLETED) if known is None else known

    def _end_exposure(self, now: AccessCall) -> None:
        finish(now, now.me, None)
        now.part.accesses.close()
        now.part.epoch.origins = now.part.epoch.arriving = None

    @staticmethod
    def _ranks_of(now: AccessCall, group: Group) -> tuple[int, ...]:
        if not isinstance(group, Group):
            raise TypeError(f"group: expected a Group, got {type(group).__name__}")
        places = {world: rank for rank, world in enumerate(now.state.world)}
        strangers = [world for world in group._members() if world not in places]
        if strangers:
            raise MPIException(
                _ERR_GROUP, f"{now.name}: the group has {len(strangers)} ranks that the window lacks"
            )
        return tuple(places[world] for world in group._members())

    def _tell(self, now: AccessCall, ranks: tuple[int, ...], tag: int) -> None:
        for rank in ranks:
            if rank != now.me:
                self._comm.Send(np.empty(0, np.uint8), rank, tag)

    def _hear(self, now: AccessCall, ranks: tuple[int, ...], tag: int) -> list[Any]:
        return [self._comm.Irecv(np.empty(0, np.uint8), rank, tag) for rank in ranks if rank != now.me]

    # --- locks --------------------------------------------------------------------------------------

    def Lock(self, rank: int, lock_type: int = _EXCLUSIVE, assertion: int = 0) -> None:
        """Begin to access a rank's part, alone (LOCK_EXCLUSIVE) or with others (LOCK_SHARED)."""
        now = self._now("Lock")
        check_rank(now, rank)
        epoch = now.part.epoch
        if lock_type not in (_EXCLUSIVE, _SHARED):
            raise MPIException(
                _ERR_LOCKTYPE, f"lock_type={lock_type} is not allowed: LOCK_EXCLUSIVE or LOCK_SHARED"
            )
        if rank in epoch.locked or epoch.is_all is not None:
            raise wrong_sync(f"Lock of rank {rank}, of which this rank has a lock already")
        if epoch.targets is not None:
            raise wrong_sync("Lock between Start and Complete")
        _check_assertion(assertion, "NOCHECK")
        poll(now)
        self._take(now, rank, lock_type == _EXCLUSIVE)
        epoch.locked[rank] = here()
        epoch.is_fenced = False
        flush(now, rank)

    def Unlock(self, rank: int) -> None:
        """Complete what was done under a lock, and give it back."""
        now = self._now("Unlock")
        check_rank(now, rank)
        if rank not in now.part.epoch.locked:
            raise wrong_sync(f"Unlock of rank {rank}, of which this rank has no lock")
        flush(now, rank)
        del now.part.epoch.locked[rank]
        now.state.locks.unlock(now.hub, now.me, rank)

    def Lock_all(self, assertion: int = 0) -> None:
        """Begin to access all ranks' parts, with others."""
        _check_assertion(assertion, "NOCHECK")
        now = self._now("Lock_all")
        epoch = now.part.epoch
        if epoch.is_passive:
            raise wrong_sync("Lock_all while this rank has a lock of the window already")
        if epoch.targets is not None:
            raise wrong_sync("Lock_all between Start and Complete")
        poll(now)
        self._take(now, None, False)
        epoch.is_all = here()
        epoch.is_fenced = False

    def Unlock_all(self) -> None:
        """Complete what was done, and give the locks back."""
        now = self._now("Unlock_all")
        if now.part.epoch.is_all is None:
            raise wrong_sync("Unlock_all without Lock_all")
        flush_all(now)
        now.part.epoch.is_all = None
        now.state.locks.unlock(now.hub, now.me, None)

    def _take(self, now: AccessCall, rank: int | None, is_exclusive: bool) -> None:
        waiting = now.calls.waiting_for_locks
        world = now.world(now.me)
        waiting[world] = (now.state, rank)
        now.state.locks.lock(now.hub, now.me, rank, is_exclusive, now.name)
        del waiting[world]

    # --- flushes --------------------------------------------------------------------------------------

    def Flush(self, rank: int) -> None:
        """Complete what was begun with a rank, at both sides."""
        now = self._passive("Flush", rank)
        poll(now)
        flush(now, rank)

    def Flush_all(self) -> None:
        """Complete what was begun with any rank, at both sides."""
        now = self._passive("Flush_all", None)
        poll(now)
        flush_all(now)

    def Flush_local(self, rank: int) -> None:
        """Complete what was begun with a rank, at this side."""
        now = self._passive("Flush_local", rank)
        poll(now)
        finish(now, now.me, rank, now.me)

    def Flush_local_all(self) -> None:
        """Complete what was begun with any rank, at this side."""
        now = self._passive("Flush_local_all", None)
        poll(now)
        finish(now, now.me, None, now.me)

    def Sync(self) -> None:
        """Make the window's own copy and the memory agree: there is but one, so it only lets others go on."""
        poll(self._now("Sync"))

    def _passive(self, name: str, rank: int | None) -> AccessCall:
        now = self._now(name)
        epoch = now.part.epoch
        if rank is not None:
            check_rank(now, rank)
        if epoch.is_all is None and (rank not in epoch.locked if rank is not None else not epoch.locked):
            whom = "" if rank is None else f" of rank {rank}"
            raise wrong_sync(f"{name}{whom} without a lock of it: call Lock or Lock_all before it")
        return now


def _check_assertion(assertion: int, *allowed: str) -> None:
    """Refuse assertions that MPI does not have for a call."""
    if assertion & ~sum(CONSTANTS[f"MODE_{name}"] for name in allowed):
        words = " | ".join(f"MODE_{name}" for name in allowed)
        raise MPIException(_ERR_ASSERT, f"assertion={assertion} is not allowed: 0, or of {words}")


def _check_size(size: int) -> None:
    if size < 0:
        raise MPIException(_ERR_SIZE, f"size={size} is not allowed: at least 0 bytes")


def _check_host(hub: _kernels.Hub, world: list[int]) -> None:
    """Refuse shared memory of ranks on several hosts."""
    hosts = {hub.host(rank) for rank in world}
    if len(hosts) > 1:
        raise MPIException(
            _ERR_RMA_SHARED,
            f"the {len(world)} ranks of the communicator are on {len(hosts)} hosts, and memory is shared "
            "within one: take comm.Split_type(MPI.COMM_TYPE_SHARED), or put all of them on one host, as in "
            f"--on star:1,cores={len(world)}",
        )


def _buffer_of(memory: Any) -> object:
    """Return memory as the program sees it; none is at address 0."""
    return _kernels.Buffer.frombuffer(memory) if memory.size else _kernels.Buffer()


WIN_NULL = Win()
KNOWN["WIN_NULL"] = WIN_NULL
