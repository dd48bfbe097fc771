"""Pack and Unpack: a datatype's elements as a row of bytes, in the machine's form or in external32."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.comm.handles.base import foreign_array, is_foreign
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.typebody import TypeBody
from labkit.program import context

__all__ = [
    "address_of",
    "bytes_of",
    "charge",
    "check_span",
    "elements_in",
    "external_size",
    "from_external",
    "gathered",
    "is_external_name",
    "scattered",
    "to_external",
    "unpacked",
]

_ERR_TYPE, _ERR_ARG, _ERR_TRUNCATE = 3, 13, 15
_Bytes = NDArray[np.uint8]


def bytes_of(buffer: Any, is_writable: bool = False) -> _Bytes:
    """View a contiguous buffer as bytes."""
    if not isinstance(buffer, np.ndarray) and is_foreign(buffer):
        buffer = foreign_array(buffer)
    if isinstance(buffer, np.ndarray):  # memoryview has no format for dates, and casts few
        array = np.asarray(buffer)
        is_read_only = not array.flags.writeable
        if not array.flags.c_contiguous and array.flags.f_contiguous:
            array = array.T
        is_contiguous, n_bytes = array.flags.c_contiguous, array.nbytes
    else:
        view = memoryview(buffer)
        if view.f_contiguous and not view.c_contiguous:
            return bytes_of(np.asarray(view), is_writable)
        is_read_only, is_contiguous, n_bytes = view.readonly, view.c_contiguous, view.nbytes
    if is_writable and is_read_only:
        raise BufferError("the buffer to receive into is read-only")
    if not is_contiguous:
        raise BufferError("the buffer is not contiguous: send a copy, for example numpy.ascontiguousarray(x)")
    if n_bytes == 0:
        return np.empty(0, np.uint8)
    if isinstance(buffer, np.ndarray):
        return array.reshape(-1).view(np.uint8)
    return np.frombuffer(view if view.format == "B" and view.ndim == 1 else view.cast("B"), np.uint8)


def address_of(memory: _Bytes) -> int:
    """Return where an array lies."""
    return int(memory.__array_interface__["data"][0])


def check_span(body: TypeBody, room: int, count: int, offset: int = 0) -> None:
    """Refuse elements that real MPI would look for in foreign memory."""
    first, end = body.map.span(count)
    if offset + first < 0 or offset + end > room:
        name = body.name if body.name not in ("", "Dup ") else "a derived datatype"
        raise ValueError(
            f"message: {count} elements of {name} take bytes {offset + first} to {offset + end} of a buffer "
            f"of {room} bytes"
        )


def gathered(body: TypeBody, address: int, count: int) -> bytes:
    """Return the bytes of elements that lie at an address."""
    data: bytes = body.map.layout.pack(address, count)
    return data


def scattered(body: TypeBody, address: int, data: object) -> None:
    """Put bytes where elements at an address have them."""
    body.map.layout.unpack(address, data)


def charge(pieces: Iterable[tuple[TypeBody, int]], is_call: bool = True) -> None:
    """Charge the running simulated rank with gathering or scattering elements, where packing is charged."""
    machine = context.simulated()
    if machine is None or machine.packing is None or (machine.is_measured and not is_call):
        return
    size = runs = span = 0
    for body, count in pieces:
        if not body.map.is_dense:
            size += body.map.size * count
            runs += len(body.map.offsets) * count
            begin, end = body.map.span(count)
            span += end - begin
    if size:
        machine.pack(size, runs, span)


def unpacked(layout: Any, size: int) -> None:
    """Charge the running rank with having put the bytes of a receive where they belong."""
    machine = context.simulated()
    if machine is not None and machine.packing is not None and size:
        elements = -(-size // layout.size)
        span = layout.span * size // layout.size if elements == 1 else layout.span
        machine.pack(size, -(-size * layout.runs // layout.size), span + (elements - 1) * abs(layout.extent))


def elements_in(body: TypeBody, length: int) -> int:
    """Return how many elements fit into `length` bytes."""
    if body.map.extent == 0:
        raise ZeroDivisionError("the datatype's extent is 0: the number of elements is undefined")
    return length // body.map.extent


def is_external_name(datarep: str) -> bool:
    """Whether a data representation is external32; ERR_ARG for unknown ones."""
    if datarep in ("external32", "native"):
        return datarep == "external32"
    raise MPIException(_ERR_ARG, f"datarep={datarep!r} is not known; there are 'external32' and 'native'")


# --- external32: the greatest byte first, and C's long in four (MPI 4.1, section 14.5.2) -----------------

#: of numbers that are shorter there: their bytes
_SHORTER = {"LONG": 4, "UNSIGNED_LONG": 4, "LONG_INT": 4}


def _numbers_of(body: TypeBody) -> list[tuple[int, int, int, bool]]:
    """Return the numbers in an element: bytes here and there, how many in a row, whether they have a sign."""
    parts: list[tuple[int, int, int, bool]] = []
    for kind, times in body.basics():
        here, there = kind.dtype.itemsize, _SHORTER.get(kind.constant or "", 0)
        is_signed = kind.dtype.kind == "i"
        if kind.dtype.fields:
            first, second = (np.dtype(part).itemsize for part in kind.code.split("+"))
            parts += [(first, there or first, 1, True), (second, second, 1, True)] * times
        elif kind.dtype.kind == "c":
            parts.append((here // 2, here // 2, 2 * times, True))
        else:
            parts.append((here, there or here, times, is_signed))
    return parts


def external_size(body: TypeBody) -> int:
    """Bytes of an element's data in external32."""
    return sum(there * many for _, there, many, _ in _numbers_of(body))


def to_external(body: TypeBody, data: _Bytes) -> _Bytes:
    """Turn packed elements into external32."""
    return _converted(data, [(here, there, many, False) for here, there, many, _ in _numbers_of(body)])


def from_external(body: TypeBody, data: _Bytes) -> _Bytes:
    """Turn elements in external32 into packed ones of this machine."""
    parts = [(there, here, many, is_signed) for here, there, many, is_signed in _numbers_of(body)]
    return _converted(data, parts, is_external=True)


def _converted(data: _Bytes, parts: list[tuple[int, int, int, bool]], is_external: bool = False) -> _Bytes:
    """Turn every number round; a longer one gets its sign in front, of a shorter one the low bytes stay."""
    old = sum(before * many for before, _, many, _ in parts)
    new = sum(after * many for _, after, many, _ in parts)
    if not old or not len(data):
        return data
    rows = data.reshape(-1, old)
    made = np.zeros((len(rows), new), np.uint8)
    begin = there = 0
    for before, after, many, is_signed in parts:
        numbers = rows[:, begin : begin + before * many].reshape(-1, many, before)
        low_first = numbers[:, :, ::-1] if is_external else numbers
        wide = np.zeros((len(rows), many, after), np.uint8)
        if is_signed and after > before:
            wide[:] = np.where(low_first[:, :, -1:] >= 128, 255, 0)
        kept = min(before, after)
        wide[:, :, :kept] = low_first[:, :, :kept]
        made[:, there : there + after * many] = (wide if is_external else wide[:, :, ::-1]).reshape(
            len(rows), -1
        )
        begin, there = begin + before * many, there + after * many
    return made.reshape(-1)
