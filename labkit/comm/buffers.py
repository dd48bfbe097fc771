"""Buffer arguments of upper-case calls: buffers, and mpi4py's list forms around them.

``buf``, ``[buf, type]``, ``[buf, count]``, ``[buf, count, type]``, ``[buf, (count, displ), type]`` and, for
vector collectives, ``[buf, counts]``, ``[buf, (counts, displs)]``, with or without type. Counts and
displacements are in elements of the type, which is found from the buffer when it is not given.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.comm.handles.base import BOTTOM, foreign_array, is_foreign
from labkit.comm.handles.datatypes import DATATYPES, Datatype, find_format, lookup
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.packing import address_of, bytes_of, charge, check_span, gathered, scattered
from labkit.comm.handles.typebody import TypeBody, type_words
from labkit.program import context
from labkit.program.sized import Sized

__all__ = [
    "Simple",
    "Vector",
    "array_of",
    "check_counts",
    "letter_of",
    "parse_buffer",
    "parse_simple",
    "parse_vector",
    "parse_vector_w",
    "warn_of_count",
]


_ERR_COUNT = 2
_NOTHING = np.empty(0, np.uint8)

#: one-letter codes of MPI's element types, for the compiled calls: integers and floats by size
_LETTERS = {("i", 2): "h", ("i", 4): "i", ("i", 8): "q", ("f", 4): "f", ("f", 8): "d", ("f", 16): "g"}
_KINDS = {
    (kind, size): ord(letter)
    for (of, size), letter in _LETTERS.items()
    for kind in ("iu" if of == "i" else "f")
}

#: what libraries before MPI 4 count up to
_MOST_COUNT = 2**31 - 1

#: what whole arrays of a dtype are sent as: filled by the general way, read by the short one
_OF_DTYPE: dict[np.dtype[np.generic], Datatype] = {}


@dataclass(slots=True)
class Simple:
    """One block: `count` elements of `datatype`, from byte `offset` of `memory` on."""

    memory: NDArray[np.uint8]
    offset: int
    count: int
    datatype: Datatype
    home: Home | None = None  #: where `memory` is not the program's, but what travels for it

    @property
    def element_bytes(self) -> int:
        """Bytes from one element of `memory` to the next."""
        body = self.datatype._body.map
        return body.extent if self.home is None else body.size

    @property
    def bytes(self) -> int:
        """Length in bytes."""
        return self.count * self.element_bytes


@dataclass(slots=True)
class Vector:
    """Blocks: counts[i] elements from element displs[i] of `memory` on, for every rank i."""

    memory: NDArray[np.uint8]
    counts: NDArray[np.int64]
    displs: NDArray[np.int64]
    datatype: Datatype
    home: Home | None = None  #: as of `Simple`

    @property
    def element_bytes(self) -> int:
        """Bytes from one element of `memory` to the next."""
        body = self.datatype._body.map
        return body.extent if self.home is None else body.size


def _is_buffer(message: Any) -> bool:
    try:
        memoryview(message).release()
    except TypeError:
        return is_foreign(message)
    except (BufferError, ValueError):  # not contiguous: said where it is used
        return True
    return True


def _memory(buffer: object, is_writable: bool) -> NDArray[np.uint8]:
    """View a contiguous buffer (in C or Fortran order) as bytes."""
    if isinstance(buffer, Sized):
        return buffer.reshape(-1).view(np.uint8, Sized)
    return bytes_of(buffer, is_writable)


def _format(buffer: Any) -> str | None:
    """Return a buffer's format."""
    if isinstance(buffer, Sized):
        return memoryview(np.empty(0, buffer.dtype).data).format
    if is_foreign(buffer) and not isinstance(buffer, np.ndarray):
        buffer = foreign_array(buffer)
    try:
        return memoryview(buffer).format
    except ValueError as error:  # NumPy has no format for it, such as for dates
        raise BufferError(str(error)) from None


def _is_datatype(value: object) -> bool:
    return isinstance(value, Datatype | str)


def _unpack(message: object, pairs: Any) -> tuple[Any, Any, Any, Any]:
    """Take a list form apart: buffer, count(s), displacement(s), type; None for what is not given."""
    if not isinstance(message, list | tuple):
        if _is_buffer(message):
            return message, None, None, None
        raise TypeError(f"message: expecting buffer or list/tuple, got {type(message).__name__}")
    count: Any = None
    displ: Any = None
    datatype: object = None
    if len(message) == 2:
        buffer, count = message
        if _is_datatype(count):
            return buffer, None, None, count
    elif len(message) == 3:
        buffer, count, datatype = message
    elif len(message) == 4:
        buffer, count, displ, datatype = message
        return buffer, count, displ, datatype
    else:
        raise ValueError(f"message: expecting 2 to 4 items, got {len(message)}")
    if isinstance(count, pairs):
        count, displ = count
    return buffer, count, displ, datatype


def _basic(buffer: object, datatype: Any, is_writable: bool) -> tuple[NDArray[np.uint8], Datatype]:
    if buffer is None or buffer is BOTTOM:
        return _NOTHING, lookup(datatype)
    if isinstance(buffer, np.ndarray) and buffer.dtype.hasobject:
        if datatype is None:
            find_format(_format(buffer))  # refuses them
        raise TypeError(
            f"message: an array of dtype {buffer.dtype} has addresses of Python objects, which mean nothing "
            "to other ranks; convert it, as by array.astype(float), or pass it to a lower-case call"
        )
    memory = _memory(buffer, is_writable)
    if datatype is not None:
        return memory, lookup(datatype)
    kind = find_format(_format(buffer))
    if type(buffer) is np.ndarray and buffer.itemsize == kind.extent:
        _OF_DTYPE[buffer.dtype] = kind
    return memory, kind


def _whole(length: int, datatype: Datatype) -> int:
    """Count the elements that a length in bytes holds."""
    if length == 0:
        return 0
    if not datatype:
        raise ValueError("message: cannot infer count, datatype is null")
    extent = datatype.Get_extent()[1]
    bounds = f"(lb:{datatype.lb}, ub:{datatype.ub})"
    if extent <= 0:
        raise ValueError(f"message: cannot infer count, datatype extent {extent} {bounds}")
    if length % extent:
        raise ValueError(
            f"message: cannot infer count, buffer length {length} is not a multiple of datatype extent "
            f"{extent} {bounds}"
        )
    return length // extent


def parse_simple(message: object, is_writable: bool, blocks: int = 0, is_operand: bool = False) -> Simple:
    """Read a message of one block, or of `blocks` blocks of equal size."""
    if type(message) is np.ndarray and message.size and message.size % (blocks or 1) == 0:
        known = _OF_DTYPE.get(message.dtype)
        flags = message.flags
        is_plain = flags.carray if is_writable else flags.c_contiguous and flags.aligned
        if known is not None and is_plain:  # what most calls pass, at a third of the general way's cost
            return Simple(message.reshape(-1).view(np.uint8), 0, message.size // (blocks or 1), known)
    memory, offset, number, kind, is_bottom = _read_simple(message, is_writable, blocks)
    body = kind._usable()
    is_plain = body.map.is_dense or (is_operand and body.dtype.fields is not None)
    if is_plain and not (is_bottom and number):
        _check_room(memory, offset + number * max(blocks, 1) * kind.extent, number, kind)
        return Simple(memory, offset, number, kind)
    home = Home(memory, [(body, offset, number * max(blocks, 1))], is_bottom)
    return Simple(home.copy, 0, number, kind, home)


def _read_simple(
    message: object, is_writable: bool, blocks: int
) -> tuple[NDArray[np.uint8], int, int, Datatype, bool]:
    """Return memory, byte where the message begins, elements (of a block), type, whether it is BOTTOM."""
    buffer, count, displ, datatype = _unpack(message, (list, tuple))
    memory, kind = _basic(buffer, datatype, is_writable)
    is_bottom = buffer is BOTTOM
    first = 0 if displ is None else wide(displ)
    if first < 0:
        raise ValueError(f"message: negative displacement {first}")
    if first and not kind:
        raise ValueError("message: cannot handle displacement, datatype is null")
    offset = first * kind.extent if first else 0
    if first and (kind.extent <= 0 or (offset > memory.nbytes and not is_bottom)):
        entries = memory.nbytes // kind.extent if kind.extent > 0 else 0
        raise ValueError(f"message: displacement {first} out of bounds, number of datatype entries {entries}")
    if count is not None:
        number = wide(count)
        if number < 0:
            raise ValueError(f"message: negative count {number}")
        if number and buffer is None:
            raise ValueError(f"message: buffer is None but count is {number}")
        return memory, offset, number, kind, is_bottom
    number = _whole(memory.nbytes - offset, kind)
    if blocks >= 2:
        if number % blocks:
            raise ValueError(
                f"message: cannot infer count, number of entries {number} is not a multiple of required "
                f"number of blocks {blocks}"
            )
        number //= blocks
    return memory, offset, number, kind, is_bottom


def _check_room(memory: NDArray[np.uint8], end: int, count: int, kind: Datatype) -> None:
    """Refuse what real MPI would let run into foreign memory."""
    if end > memory.nbytes:
        raise ValueError(
            f"message: {count} elements of {type_words(kind)} end at byte {end} of a buffer of "
            f"{memory.nbytes} bytes"
        )


def wide(value: Any) -> int:
    """Return a count or displacement, of 64 bits."""
    number = operator.index(value)
    if not -(2**63) <= number < 2**63:
        raise OverflowError(f"message: {number} is too large for a count or displacement")
    return number


def _is_number(value: object) -> bool:
    return value.ndim == 0 if isinstance(value, np.ndarray) else hasattr(value, "__index__")


def _numbers(values: Any, blocks: int, what: str) -> NDArray[np.int64]:
    """Read one number per rank; 1024 ranks with 1024 numbers each are no place for a loop."""
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iu":
        numbers = values.astype(np.int64)
    else:
        given = values if type(values) in (list, tuple) else [values[place] for place in range(len(values))]
        numbers = np.fromiter(map(operator.index, given), np.int64, len(given))
    if len(numbers) != blocks:
        raise ValueError(f"message: expecting {blocks} {what}, got {len(numbers)}")
    return numbers


def parse_vector(message: object, is_writable: bool, blocks: int) -> Vector:
    """Read a message of `blocks` blocks of any sizes."""
    buffer, counts, displs, datatype = _unpack(message, (tuple,))
    memory, kind = _basic(buffer, datatype, is_writable)
    if counts is None:
        number = _whole(memory.nbytes, kind)
        sizes = number // blocks + (np.arange(blocks) < number % blocks)
    elif _is_number(counts):
        sizes = np.full(blocks, operator.index(counts), np.int64)
    else:
        sizes = _numbers(counts, blocks, "counts")
    if displs is None:
        places = np.cumsum(sizes) - sizes
    elif _is_number(displs):
        step = wide(displs)
        places = np.fromiter((step * i for i in range(blocks)), np.int64)
    else:
        places = _numbers(displs, blocks, "displacements")
    check_counts(sizes)
    body, is_bottom = kind._usable(), buffer is BOTTOM
    if body.map.is_dense and not is_bottom:
        _check_blocks(memory, sizes, places, kind)
        return Vector(memory, sizes, places, kind)
    pieces = [
        (body, place * body.map.extent, count)
        for place, count in zip(places.tolist(), sizes.tolist(), strict=True)
    ]
    home = Home(memory, pieces, is_bottom)
    return Vector(home.copy, sizes, np.cumsum(sizes) - sizes, kind, home)


def parse_vector_w(message: object, is_writable: bool, blocks: int) -> Vector:
    """Read a message of `blocks` blocks, each with its own datatype: ``[buf, counts, displs, types]``.

    Also ``[buf, (counts, displs), types]`` and ``[buf, types]``: one element each, from the beginning on (as
    with None for both).
    """
    if not isinstance(message, list | tuple):
        raise TypeError(f"message: expecting buffer or list/tuple, got {type(message).__name__}")
    if not 2 <= len(message) <= 4:
        raise ValueError(f"message: expecting 2 to 4 items, got {len(message)}")
    places = message[1] if len(message) == 3 else message[1:3] if len(message) == 4 else (None, None)
    counts, displs = places
    byte = DATATYPES["BYTE"]
    memory, _ = _basic(message[0], byte, is_writable)
    kinds = list(message[-1])
    for kind in kinds:
        if not isinstance(kind, Datatype):
            raise TypeError(f"message: expecting datatypes, got {type(kind).__name__}")
    if len(kinds) < blocks:
        raise ValueError(f"message: expecting {blocks} datatypes, got {len(kinds)}")
    is_bottom = message[0] is None or message[0] is BOTTOM
    if counts is None and displs is None and not is_bottom:
        numbers, begins = np.ones(blocks, np.int64), np.zeros(blocks, np.int64)
    elif counts is None or displs is None:
        raise ValueError("message: counts and displacements (in bytes) are needed")
    else:
        numbers, begins = _numbers(counts, blocks, "counts"), _numbers(displs, blocks, "displacements")
    check_counts(numbers)
    bodies = [kind._usable() for kind in kinds[:blocks]]
    # more than the buffer has does not fit either, and its bytes could overflow
    most = _MOST_COUNT if message[0] is BOTTOM else memory.nbytes + 1
    sizes = np.minimum(numbers, most) * np.array([body.map.size for body in bodies], np.int64)
    if all(body.map.is_dense for body in bodies) and message[0] is not BOTTOM:
        _check_blocks(memory, sizes, begins, byte)
        return Vector(memory, sizes, begins, byte)
    pieces = list(zip(bodies, begins.tolist(), numbers.tolist(), strict=True))
    home = Home(memory, pieces, message[0] is BOTTOM)
    return Vector(home.copy, sizes, np.cumsum(sizes) - sizes, byte, home)


def check_counts(counts: NDArray[np.int64]) -> None:
    """Refuse negative counts of a collective, as MPI does."""
    if len(counts) and counts.min() < 0:
        raise MPIException(_ERR_COUNT, f"counts are 0 or more, got {counts.min()}")


def _check_blocks(
    memory: NDArray[np.uint8], sizes: NDArray[np.int64], places: NDArray[np.int64], kind: Datatype
) -> None:
    """Refuse the first block that has no place in the buffer."""
    is_negative = (sizes > 0) & (places < 0)
    # as a difference: a sum or product of what a program gives could overflow
    room = memory.nbytes // kind.extent if kind.extent else np.iinfo(np.int64).max
    is_bad = is_negative | ((sizes > 0) & (places > room - sizes))
    if not is_bad.any():
        return
    first = int(is_bad.argmax())
    size, place = int(sizes[first]), int(places[first])
    if is_negative[first]:
        raise ValueError(f"message: negative displacement {place} of a block of {size}")
    _check_room(memory, (place + size) * kind.extent, size, kind)


def parse_buffer(message: object, is_writable: bool) -> tuple[Any, ...]:
    """Read a list form for the compiled calls: memory (or None), offset and length in bytes.

    Of a datatype with gaps: what is sent as bytes; where it is received the layout and the address, too (0 of
    a phantom).
    """
    memory, offset, number, kind, is_bottom = _read_simple(message, is_writable, 0)
    body = kind._usable()
    length = number * body.map.size
    is_plain = body.map.is_dense and not (is_bottom and number)
    code = _KINDS.get((body.dtype.kind, body.dtype.itemsize)) if is_plain and body.constant else None
    if number > _MOST_COUNT and not is_writable and not code:  # else the compiled call warns
        warn_of_count(number)
    if is_plain:
        _check_room(memory, offset + length, number, kind)
        return (memory if length else None), offset, length, *((None, 0, code) if code else ())
    if not is_writable:
        charge([(body, number)])
    if type(memory) is Sized:
        at = (body.map.layout, 0) if is_writable and length else ()
        return (memory[:length] if length else None), 0, length, *at
    if not is_bottom:
        check_span(body, memory.nbytes, number, offset)
    address = offset if is_bottom else address_of(memory) + offset
    if not is_writable:
        return gathered(body, address, number), 0, length
    return (memory if length and not is_bottom else None), 0, length, body.map.layout, address


def letter_of(datatype: Datatype) -> str:
    """Return the letter of the elements that a predefined datatype has; none of bytes and others."""
    body = datatype._usable()
    code = _KINDS.get((body.dtype.kind, body.dtype.itemsize)) if body.constant else None
    return chr(code) if code else ""


def warn_of_count(number: int, what: str = "count") -> None:
    """Warn of a count or a displacement of more than 31 bits, which many MPI libraries refuse."""
    running = context.simulated()
    if number > _MOST_COUNT and running is not None and running.calls.hub.is_watching:
        running.calls.hub.warn(what, str(number))


def array_of(message: Simple, blocks: int = 1) -> NDArray[np.uint8]:
    """View the bytes of a message of equal blocks."""
    return message.memory[message.offset : message.offset + message.bytes * blocks]


# Messages of datatypes with gaps: a copy without them travels, and goes home where it arrives.


class Home:
    """Where the elements of datatypes with gaps lie, of which a message has a copy without gaps.

    Parameters
    ----------
    memory : numpy.ndarray, dtype uint8
        The program's buffer; empty for BOTTOM, where places are addresses.
    pieces : list of (TypeBody, int, int)
        Datatypes, where their elements begin in the buffer, in bytes, and how many there are.
    is_bottom : bool
    """

    __slots__ = ("_base", "_memory", "_pieces", "copy")

    def __init__(
        self, memory: NDArray[np.uint8], pieces: list[tuple[TypeBody, int, int]], is_bottom: bool
    ) -> None:
        self._memory, self._pieces = memory, pieces  # the buffer must live as long as its address is used
        if type(memory) is Sized:
            self.copy: Any = memory[: sum(body.map.size * count for body, _, count in pieces)]
            return
        self._base = 0 if is_bottom else address_of(memory)
        for body, place, count in pieces:
            if not is_bottom:
                check_span(body, memory.nbytes, count, place)
        self.copy = np.frombuffer(bytearray(self.gathered()), np.uint8)

    def gathered(self) -> bytes:
        """Return what lies there now, without gaps."""
        parts = [gathered(body, self._base + place, count) for body, place, count in self._pieces]
        return b"".join(parts)

    def runs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the addresses of the elements' bytes, runs by where they begin: beginnings and ends."""
        begins, lengths = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        if type(self.copy) is not Sized:
            for body, place, count in self._pieces:
                at = self._base + place + np.arange(count, dtype=np.int64) * body.map.extent
                begins.append((at[:, None] + body.map.offsets[None, :]).ravel())
                lengths.append(np.tile(body.map.lengths, count))
        first, length = np.concatenate(begins), np.concatenate(lengths)
        order = np.argsort(first, kind="stable")
        return first[order], (first + length)[order]

    def charge(self) -> None:
        """Charge the running rank with the copy, where packing is charged."""
        charge((body, count) for body, _, count in self._pieces)

    def restore(self) -> None:
        """Put what the copy holds now where it belongs."""
        if type(self.copy) is Sized:
            return
        begin = 0
        for body, place, count in self._pieces:
            end = begin + body.map.size * count
            scattered(body, self._base + place, self.copy[begin:end])
            begin = end
