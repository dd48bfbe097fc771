"""Typed places in memory: what a rank gives or takes, and where in a window it goes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labkit.comm.buffers import Simple, parse_simple, warn_of_count, wide
from labkit.comm.handles.constants import PROC_NULL
from labkit.comm.handles.datatypes import Datatype, lookup
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.packing import gathered, scattered
from labkit.comm.handles.typebody import type_words
from labkit.program.sized import Sized

__all__ = [
    "WindowTarget", "address_of", "blocks_of", "check_sizes", "data_bytes", "filled", "is_dense",
    "is_phantom", "packed", "parse_origin", "runs_of", "target_of", "unpack", "within",
]  # fmt: skip

_ERR_COUNT, _ERR_TYPE, _ERR_TRUNCATE = 2, 3, 15


@dataclass(frozen=True, slots=True)
class WindowTarget:
    """Elements of a window: `count` of `datatype` from displacement `disp` on."""

    disp: int
    count: int
    datatype: Datatype


def parse_origin(message: object, is_writable: bool, rank: int, is_operand: bool = False) -> Simple | None:
    """Read an origin, compare or result argument; None where the other side is PROC_NULL."""
    if rank == PROC_NULL:
        return None
    origin = parse_simple(message, is_writable, is_operand=is_operand)
    warn_of_count(origin.count)
    return origin


def target_of(target: object, origin: Simple) -> WindowTarget:
    """Read a target argument: None, a displacement, or up to ``(displacement, count, datatype)``."""
    count, datatype = origin.count, origin.datatype
    if target is None:
        return WindowTarget(0, count, datatype)
    if hasattr(target, "__index__"):
        return WindowTarget(wide(target), count, datatype)
    if not isinstance(target, list | tuple):
        raise ValueError("target: expecting integral or list/tuple")
    if len(target) > 3:
        raise ValueError("target: expecting 3 items at most")
    disp = wide(target[0]) if target else 0
    if len(target) >= 2:
        count = wide(target[1])
        if count < 0:
            raise MPIException(_ERR_COUNT, f"target: count={count}: it is 0 or more")
    if len(target) == 3:
        datatype = lookup(target[2])
    return WindowTarget(disp, count, datatype)


def data_bytes(place: Simple | WindowTarget) -> int:
    """Bytes of data, without gaps."""
    if isinstance(place, Simple):
        return place.bytes if place.home is not None or is_dense(place) else place.count * place.datatype.size
    return int(place.count * (place.datatype.extent if is_dense(place) else place.datatype.size))


def is_dense(place: Simple | WindowTarget) -> bool:
    """Whether its elements are one row of bytes; a value with its location keeps its gap."""
    body = place.datatype._usable()
    return bool(body.map.is_dense or body.dtype.fields is not None)


def runs_of(place: Simple, n_bytes: int | None = None) -> list[tuple[int, int]]:
    """Return the bytes of its memory that the data touch: (first, end) of each run."""
    if n_bytes is None:
        n_bytes = data_bytes(place)
    if is_dense(place):
        return [(place.offset, place.offset + n_bytes)]
    body = place.datatype._usable().map
    begins = (place.offset + np.arange(place.count)[:, None] * body.extent + body.offsets).ravel()
    lengths = np.broadcast_to(body.lengths, (place.count, len(body.lengths))).ravel()
    before = np.cumsum(lengths) - lengths
    lengths = np.clip(n_bytes - before, 0, lengths)  # the last element may be filled in part
    return list(zip(begins[lengths > 0].tolist(), (begins + lengths)[lengths > 0].tolist(), strict=True))


def is_phantom(place: Simple) -> bool:
    """Whether there are no bytes, only a size (`labkit.sized`)."""
    return type(place.memory) is Sized


def packed(place: Simple) -> NDArray[np.uint8]:
    """Copy the data of a place, without gaps."""
    if place.home is None and not is_dense(place):
        body = place.datatype._usable()
        found = gathered(body, address_of(place.memory) + place.offset, place.count)
        return np.frombuffer(found, np.uint8)
    return place.memory[place.offset : place.offset + place.bytes].copy()


def unpack(place: Simple, data: NDArray[np.uint8]) -> None:
    """Write data into a place."""
    if place.home is None and not is_dense(place):
        body = place.datatype._usable()
        scattered(body, address_of(place.memory) + place.offset, np.ascontiguousarray(data))
        return
    place.memory[place.offset : place.offset + len(data)] = data
    if place.home is not None:
        place.home.restore()


def address_of(memory: NDArray[np.uint8]) -> int:
    """Address of the first byte; 0 of nothing."""
    return int(memory.__array_interface__["data"][0]) if memory.size else 0


def check_sizes(name: str, given: Simple, taken: WindowTarget) -> None:
    """Refuse another amount of data at the target than at the origin."""
    if data_bytes(given) != data_bytes(taken):
        raise _truncated(name, given, taken)


def filled(name: str, origin: Simple, target: WindowTarget, is_whole: bool = False) -> WindowTarget:
    """Return as much of a target as the origin fills, the last element in part unless it has to be whole.

    There may be room for more, as in a receive; not for less (MPI 4.1, section 12.3).
    """
    moved, room = data_bytes(origin), data_bytes(target)
    if moved < room:
        target = WindowTarget(target.disp, -(-moved * target.count // room), target.datatype)
    if moved > room or (is_whole and moved != data_bytes(target)):
        raise _truncated(name, origin, target)
    return target


def within(name: str, origin: Simple, target: WindowTarget) -> WindowTarget:
    """Return a target whose data fit into the origin, which gets them; it may have room for more."""
    if data_bytes(target) > data_bytes(origin):
        raise _truncated(name, origin, target)
    return target


def _truncated(name: str, origin: Simple, target: WindowTarget) -> MPIException:
    return MPIException(
        _ERR_TRUNCATE,
        f"{name}: {origin.count} x {type_words(origin.datatype)} ({data_bytes(origin)} bytes) at the "
        f"origin, but {target.count} x {type_words(target.datatype)} ({data_bytes(target)} bytes) at the "
        "target",
    )


def blocks_of(datatype: Datatype) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the data of one element lie: offsets and lengths of blocks, in bytes."""
    body = datatype._usable().map
    return np.asarray(body.offsets, np.int64), np.asarray(body.lengths, np.int64)
