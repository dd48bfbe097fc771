"""Transfers of a window: what a call of the running rank starts at a target, and how it is waited for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from labkit import _kernels
from labkit.comm.buffers import Simple
from labkit.comm.collective.native import (
    Call,
    perform,
)
from labkit.comm.handles.constants import CONSTANTS, PROC_NULL
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.operators import OPERATORS, Op, no_operator
from labkit.comm.handles.typebody import check_small, type_words
from labkit.comm.place import here
from labkit.comm.rma.races import Access, footprint_of
from labkit.comm.rma.state import Origin, Origins, Pending, WindowPart, WindowState
from labkit.comm.typed import (
    WindowTarget,
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

__all__ = [
    "AccessCall",
    "accumulate",
    "check_rank",
    "compare_and_swap",
    "finish",
    "flush",
    "flush_all",
    "get",
    "get_accumulate",
    "one_element",
    "poll",
    "put",
    "read_and_change",
    "wait_for_all",
    "wrong_sync",
]

_ERR_RANK, _ERR_OP, _ERR_DISP, _ERR_RMA_SYNC, _ERR_RMA_RANGE = 6, 10, 26, 47, 68
#: a rank that has come so often at one instant is polling, and then pays
_POLLS, _POLL_S = 64, 1e-7
_Do = TypeVar("_Do", bound=Callable[[], Any])
_DYNAMIC = CONSTANTS["WIN_FLAVOR_DYNAMIC"]
_PUT, _GET, _ACCUMULATE = 1, 2, 3  # tags, for traces


def _nothing() -> None:
    """Do nothing at the end of a transfer."""


def _kind_of(op: Op, wanted: WindowTarget) -> str:
    """Return the kind of an accumulate, for races."""
    if op is OPERATORS["NO_OP"]:
        return "NO_OP"
    basics = {kind.dtype.str for kind, _ in wanted.datatype._usable().basics()}
    return f"{op._constant} {', '.join(sorted(basics))}"


def _combination(name: str, op: Op, wanted: WindowTarget) -> Callable[[Any, Simple], None]:
    """Return what writes ``place = place op data``."""
    if not isinstance(op, Op):
        raise no_operator(op)
    if op._constant is None or not op:
        raise MPIException(_ERR_OP, f"{name} takes one of MPI's own operators, got {op!r}")
    if op is OPERATORS["NO_OP"]:
        if name in ("Accumulate", "Raccumulate"):
            raise MPIException(_ERR_OP, f"{name} takes an operator that changes the target, got {op!r}")
        return lambda data, place: None
    if op is OPERATORS["REPLACE"]:
        return lambda data, place: unpack(place, data)
    reduction = op._reduction_at_target(wanted.datatype)
    if reduction is None:
        raise MPIException(_ERR_OP, f"{name}: {op!r} is not defined on {type_words(wanted.datatype)}")

    def combine(data: object, place: Simple) -> None:
        if place.datatype.is_predefined:
            reduction.apply(data, place.memory[place.offset : place.offset + place.bytes], True)
            return
        there = packed(place).copy()  # of a gathered one the bytes are not ours
        reduction.apply(data, there, True)
        unpack(place, there)

    return combine


class AccessCall(NamedTuple):
    """A call of the running rank's."""

    name: str
    calls: Any
    hub: _kernels.Hub
    state: WindowState
    me: int  #: in the window
    part: WindowPart  #: of this rank
    comm: Any  #: the window's ranks, with messages of the window's own

    @property
    def context(self) -> int:
        """The context of the window's messages."""
        return int(self.comm._context)

    def world(self, rank: int) -> int:
        """World rank of a rank of the window."""
        return self.state.world[rank]


def wrong_sync(text: str) -> MPIException:
    """Make the error of a call outside its epoch."""
    return MPIException(_ERR_RMA_SYNC, text)


# --- waiting -------------------------------------------------------------------------------------------


def check_rank(now: AccessCall, rank: int) -> None:
    """Refuse a rank that is not in the window."""
    if not 0 <= rank < len(now.state.world):
        raise MPIException(
            _ERR_RANK,
            f"{now.name}: rank {rank} is not of this window, which has ranks 0 to "
            f"{len(now.state.world) - 1}, nor PROC_NULL ({PROC_NULL})",
        )


def wait_for_all(now: AccessCall) -> None:
    """Wait until all ranks of the window have arrived."""
    perform(now.comm, Call("barrier", f"Win.{now.name}"))


def poll(now: AccessCall) -> None:
    """Let the engine catch up; a rank that comes again and again at one instant pays for it."""
    time, times = now.part.polls
    at = now.hub.now()
    times = times + 1 if at == time else 1
    now.part.polls = (at, times)
    if times >= _POLLS:
        now.hub.sleep(_POLL_S)
    now.hub.catch_up(now.name)


def _give_way(now: AccessCall) -> None:
    """Let the ranks that are here at this instant do what they are about to do: go on a bit later."""
    gate = now.hub.gate()
    now.hub.open_gate(gate, math.nextafter(now.hub.now(), math.inf))
    now.hub.wait_for([gate], now.name)
    now.hub.release_handles([gate])


def _watched(now: AccessCall, buffer: Simple, rank: int) -> Origin | None:
    """Watch a buffer at the origin, in checked runs.

    Not that of a request, whose end is not seen here, nor a part of the window, whose races are reported.
    """
    if not now.calls.looks_at_stores or now.name[0] == "R" or is_phantom(buffer) or not buffer.bytes:
        return None
    if np.may_share_memory(buffer.memory, now.part.memory):
        return None
    if now.part.origins is None:
        now.part.origins = Origins()
    return now.part.origins.keep(buffer, now.name, rank, here())


def finish(now: AccessCall, owner: int, peer: int | None, begun_by: int | None = None) -> None:
    """Wait for the transfers of a rank's list: with one other rank or all, or what one rank has begun.

    As in SMPI, calls of others that begin a transfer there return when the list is free again.
    """
    _await(now, owner, peer, begun_by)
    if owner == now.me and now.part.origins is not None:
        now.state.note_used(now.calls.note_fault, now.part.origins.end(peer), now.name, now.world(owner))


def _await(now: AccessCall, owner: int, peer: int | None, begun_by: int | None) -> None:
    hub, part = now.hub, now.state.parts[owner]
    hub.catch_up(now.name)
    if not part.pending and not part.mutex.is_held:
        return
    part.mutex.acquire(hub, now.name)
    mine: list[Any] = []
    others: list[Any] = []
    for entry in part.pending:
        is_mine = peer in (None, entry.peer) and begun_by in (None, entry.origin)
        (mine if is_mine else others).append(entry)
    part.pending = others
    if mine:
        hub.wait_for([entry.handle for entry in mine], now.name)
        hub.catch_up(now.name)
    part.mutex.release(hub)
    hub.release_handles([entry.handle for entry in mine if not entry.is_owned])


def _flush_transfers(now: AccessCall, rank: int) -> None:
    """Wait for them; their accesses stay open to the end of the epoch."""
    finish(now, now.me, rank, now.me)
    if rank != now.me and rank in now.part.touched:
        _give_way(now)
        finish(now, rank, now.me, now.me)


def flush(now: AccessCall, rank: int) -> None:
    """Wait for what this rank has begun with another, on both sides."""
    _flush_transfers(now, rank)
    now.part.touched.pop(rank, None)
    now.state.parts[rank].accesses.close(now.world(now.me))


def flush_all(now: AccessCall) -> None:
    """Wait for what this rank has begun with any other, on both sides."""
    finish(now, now.me, None, now.me)
    for rank in list(now.part.touched):
        flush(now, rank)


# --- accesses ------------------------------------------------------------------------------------------


def _begin(now: AccessCall, target_rank: int) -> bool:
    """Whether there is something to do; refuse an access outside any epoch."""
    if target_rank == PROC_NULL:
        return False
    check_rank(now, target_rank)
    if not now.part.epoch.allows(target_rank):
        raise wrong_sync(
            f"{now.name} to rank {target_rank} outside any epoch: call Fence before it, or Start with that "
            "rank in the group, or Lock or Lock_all"
        )
    return True


def _place(now: AccessCall, rank: int, wanted: WindowTarget) -> Simple:
    """Find the bytes at the target."""
    check_small([wanted.count])
    if wanted.disp < 0 and now.state.flavor != _DYNAMIC:
        raise MPIException(
            _ERR_DISP, f"{now.name}: displacement {wanted.disp} at the target: it is 0 or more"
        )
    part, n_bytes = now.state.parts[rank], data_bytes(wanted)
    if now.state.flavor == _DYNAMIC:
        memory, offset = part.find(wanted.disp)
    else:
        memory, offset = part.memory, wanted.disp * part.unit
    low, high = wanted.datatype._usable().map.span(wanted.count)
    if offset + low < 0 or (n_bytes and offset + high > memory.size):
        what = "no attached memory has" if now.state.flavor == _DYNAMIC else f"it has {memory.size} bytes"
        raise MPIException(
            _ERR_RMA_RANGE,
            f"{now.name}: {wanted.count} x {type_words(wanted.datatype)} at displacement {wanted.disp} "
            f"are bytes {offset + low} to {offset + high - 1} of rank {rank}'s part of the window; "
            f"{what}",
        )
    return Simple(memory, offset, wanted.count, wanted.datatype)


def _note(now: AccessCall, rank: int, place: Simple, kind: str, n_bytes: int | None = None) -> None:
    """Keep the access, for races."""
    access = Access(kind, now.name, now.world(now.me), here())
    # Of a dynamic window the offset is one in the attached memory: addresses separate several of them.
    is_by_address = now.state.flavor == _DYNAMIC and not is_phantom(place)
    base = address_of(place.memory) if is_by_address else 0
    where = footprint_of(place, n_bytes, base)
    now.state.note_access(now.calls.note_fault, rank, where, access)
    now.part.touched[rank] = None


def _with_stores(now: AccessCall, rank: int, place: Simple, do: _Do, n_bytes: int | None = None) -> _Do:
    """Return what an access does at its target; in checked runs it looks for the target's own stores."""
    epoch, part = now.part.epoch, now.state.parts[rank]
    if not now.calls.looks_at_stores or not epoch.is_fenced or epoch.targets is not None:
        return do
    runs = runs_of(place, n_bytes)

    def watched() -> object:
        return do() if part.stores is None else part.stores.around(runs, do)

    return watched  # type: ignore[return-value]


def _send(
    now: AccessCall,
    rank: int,
    n_bytes: int,
    on_end: Callable[[], None] | None,
    tag: int,
    is_self: bool = False,
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
    if tag == _PUT:  # SMPI keeps its own list of these
        now.part.mutex.acquire(hub, now.name)
        now.part.mutex.release(hub)
    target.mutex.acquire(hub, now.name)
    target.pending.append(Pending(handle, now.me, now.me))
    target.mutex.release(hub)


def _begin_fetch(now: AccessCall, rank: int, n_bytes: int, on_begin: Callable[[], Callable[[], None]]) -> int:
    """Begin a transfer from a target; its handle."""
    hub, target = now.hub, now.state.parts[rank]
    hub.begin_transfer(n_bytes, now.name)
    on_end = on_begin()
    handle = int(hub.transfer(now.world(rank), now.world(now.me), n_bytes, now.context, _GET, on_end))
    target.mutex.acquire(hub, now.name)
    target.mutex.release(hub)
    return handle


def _fetch(now: AccessCall, rank: int, n_bytes: int, on_end: Callable[[], None]) -> None:
    """Transfer from a target, and wait for it."""
    if rank == now.me:
        on_end()
        return
    handle = _begin_fetch(now, rank, n_bytes, lambda: on_end)
    now.hub.wait_for([handle], now.name)
    now.hub.release_handles([handle])
    now.hub.catch_up(now.name)


def put(now: AccessCall, origin: object, target_rank: int, target: object) -> None:
    """Begin to write into a rank's part."""
    given = parse_origin(origin, False, target_rank)
    if not _begin(now, target_rank) or given is None:
        return
    wanted = filled(now.name, given, target_of(target, given))
    place = _place(now, target_rank, wanted)
    _note(now, target_rank, place, "put", given.bytes)
    _watched(now, given, target_rank)
    on_end = None
    if given.bytes and not (is_phantom(given) or is_phantom(place)):
        data = packed(given)
        on_end = _with_stores(now, target_rank, place, lambda: unpack(place, data), given.bytes)
    _send(now, target_rank, given.bytes, on_end, _PUT)


def get(
    now: AccessCall, origin: object, target_rank: int, target: object, is_owned: bool = False
) -> int | None:
    """Begin to read from a rank's part; the handle of the transfer, None if it is over."""
    taken = parse_origin(origin, True, target_rank)
    if not _begin(now, target_rank) or taken is None:
        return None
    wanted = within(now.name, taken, target_of(target, taken))
    place = _place(now, target_rank, wanted)
    _note(now, target_rank, place, "get")
    n_bytes = data_bytes(wanted)
    has_data = n_bytes and not (is_phantom(taken) or is_phantom(place))
    origin_of = _watched(now, taken, target_rank)

    def read() -> Callable[[], None]:
        if not has_data:
            return lambda: None
        data = packed(place)
        if origin_of is not None:
            return lambda: origin_of.arriving(lambda: unpack(taken, data))
        return lambda: unpack(taken, data)

    read = _with_stores(now, target_rank, place, read)
    if target_rank == now.me:
        now.hub.catch_up(now.name)
        read()()
        return None
    handle = _begin_fetch(now, target_rank, n_bytes, read)
    now.part.mutex.acquire(now.hub, now.name)
    now.part.pending.append(Pending(handle, target_rank, now.me, is_owned))
    now.part.mutex.release(now.hub)
    return handle


def accumulate(now: AccessCall, origin: object, target_rank: int, target: object, op: Op) -> None:
    """Combine data with those of a rank's part."""
    given = parse_origin(origin, False, target_rank, True)
    if not _begin(now, target_rank) or given is None:
        return
    wanted = filled(now.name, given, target_of(target, given), is_whole=True)
    combine = _combination(now.name, op, wanted)
    place = _place(now, target_rank, wanted)
    _note(now, target_rank, place, _kind_of(op, wanted))
    on_end = None
    if given.bytes and not (is_phantom(given) or is_phantom(place)):
        data = packed(given)
        on_end = _with_stores(now, target_rank, place, lambda: combine(data, place))
    _send(now, target_rank, given.bytes, on_end, _ACCUMULATE, is_self=True)
    _flush_transfers(now, target_rank)


def get_accumulate(
    now: AccessCall, origin: object, result: object, target_rank: int, target: object, op: Op
) -> None:
    """Combine data with those of a rank's part, and read what was there before."""
    taken = parse_origin(result, True, target_rank, True)
    given = parse_origin(origin, False, target_rank, True)
    wanted = None if given is None else target_of(target, given)
    read_and_change(now, given, taken, target_rank, wanted, op)


def one_element(origin: object, result: object, target_rank: int) -> tuple[Simple | None, Simple | None]:
    """Return origin and result of a call on one element; None for PROC_NULL."""
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


def read_and_change(
    now: AccessCall, given: Simple | None, taken: Simple | None, target_rank: int, target: object, op: Op
) -> None:
    """Read what a target has and combine it with what the origin gives, at one instant."""
    if not _begin(now, target_rank) or given is None or taken is None:
        return
    wanted = target if isinstance(target, WindowTarget) else target_of(target, given)
    is_read = op is OPERATORS["NO_OP"]  # then the origin is not looked at
    for side in (taken,) if is_read else (given, taken):
        check_sizes(now.name, side, wanted)
    combine = _combination(now.name, op, wanted)
    place = _place(now, target_rank, wanted)
    _note(now, target_rank, place, _kind_of(op, wanted))
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

    exchange = _with_stores(now, target_rank, place, exchange)
    now.hub.catch_up(now.name)
    atomic = now.state.parts[target_rank].atomic
    atomic.acquire(now.hub, now.name)
    _fetch(now, target_rank, n_bytes, exchange if is_read else _nothing)
    if not is_read:
        _send(now, target_rank, n_bytes, exchange, _ACCUMULATE, is_self=True)
        _flush_transfers(now, target_rank)
    atomic.release(now.hub)
    if found is not None:
        unpack(taken, found)


def compare_and_swap(
    now: AccessCall, origin: object, compare: object, result: object, target_rank: int, target_disp: int
) -> None:
    """Write an element at a target if it equals another; read what was there."""
    given = parse_origin(origin, False, target_rank)
    expected = parse_origin(compare, False, target_rank)
    taken = parse_origin(result, True, target_rank)
    if not _begin(now, target_rank) or given is None or expected is None or taken is None:
        return
    for what, side in (("origin", given), ("compare", expected), ("result", taken)):
        if side.count != 1:
            raise ValueError(f"{what}: expecting a single element, got {side.count}")
    if not given.datatype == expected.datatype == taken.datatype:
        raise ValueError("mismatch in origin, compare and result MPI datatypes")
    wanted = WindowTarget(target_disp, 1, given.datatype)
    place = _place(now, target_rank, wanted)
    _note(now, target_rank, place, f"compare {given.datatype.name}")
    new, old = packed(given), packed(expected)
    now.hub.catch_up(now.name)
    atomic = now.state.parts[target_rank].atomic
    atomic.acquire(now.hub, now.name)
    found = np.empty(0, np.uint8)

    def look() -> None:
        nonlocal found
        found = packed(place)
        if (found == old).all():
            unpack(place, new)

    look = _with_stores(now, target_rank, place, look)
    _fetch(now, target_rank, data_bytes(wanted), look)
    unpack(taken, found)
    if (found == old).all():
        _send(now, target_rank, data_bytes(wanted), None, _PUT)
    atomic.release(now.hub)
