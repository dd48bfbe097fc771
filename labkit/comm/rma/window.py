"""Windows: memory that other ranks of a communicator can access."""

from __future__ import annotations

from typing import Any

import numpy as np

from labkit import _kernels
from labkit.comm import names
from labkit.comm.buffers import parse_simple
from labkit.comm.collective.makers import maker_of
from labkit.comm.collective.native import Call, arrive_shared, leave, perform, refuse_in_recordings
from labkit.comm.handles.base import MODULE_NAME, Handle
from labkit.comm.handles.constants import CONSTANTS, PROC_NULL
from labkit.comm.handles.errhandlers import ErrorHandling
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.groups import Group
from labkit.comm.handles.info import Info
from labkit.comm.handles.keyvals import Keyed
from labkit.comm.handles.special import BOTTOM
from labkit.comm.known import KNOWN
from labkit.comm.place import here
from labkit.comm.rma.base import wrong_sync
from labkit.comm.rma.operations import Operations
from labkit.comm.rma.state import Part, WindowState
from labkit.comm.rma.synchronise import Synchronisation
from labkit.comm.surface import NAMED
from labkit.comm.typed import address_of
from labkit.schedule.problem import PROBLEMS

__all__ = ["WIN_NULL", "Win"]

_ERR_COMM, _ERR_DISP, _ERR_SIZE = 5, 26, 49
_ERR_RMA_FLAVOR, _ERR_RMA_SHARED = 70, 71
_FLAVORS = {name: CONSTANTS[f"WIN_FLAVOR_{name}"] for name in ("CREATE", "ALLOCATE", "DYNAMIC", "SHARED")}


class Win(Operations, Synchronisation, Keyed, ErrorHandling, Handle, _kernels.Exporter):
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
