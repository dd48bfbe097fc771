"""The wire protocol to a submission's process: frames of JSON and raw bytes, and plain values in them.

A frame is two lengths, a JSON object and the bytes that belong to it. Nothing here runs code of the other
side: no pickle, no dtype with objects, and every length is looked at before memory is asked for.
"""

from __future__ import annotations

import json
import math
import os
import re
import select
import struct
from collections.abc import Callable, Mapping, Sequence
from time import monotonic  # the host's: while ranks run, the module has their clock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.comm.surface import METHODS, NAMED, Method
from labkit.errors import DataError, LabkitError

__all__ = [
    "COLLECTIVES",
    "OF_MESSAGES",
    "OF_OBJECTS",
    "REDUCED",
    "ROWS",
    "Closed",
    "Frame",
    "Frames",
    "Idle",
    "TooLate",
    "WireError",
    "decode",
    "encode",
    "is_amount",
]


Frame = tuple[dict[str, Any], list[memoryview]]

_HEAD = struct.Struct(">II")
#: descriptors that one message over a socket can carry
MOST_AT_ONCE = 200
MOST_HEADER_BYTES = 1 << 20
MOST_PAYLOAD_BYTES = 64 << 20
MOST_ITEMS, MOST_DEPTH = 100_000, 16
MOST_COMPUTED = 1e12
_KINDS = "biufc"
_DTYPE = re.compile(rf"[<>|=]?[{_KINDS}]\d{{1,2}}")
_LOOK_S = 1.0
#: so much is read, and written, by one system call
_AHEAD_BYTES = 1 << 16


class WireError(LabkitError):
    """The other side does not keep to the protocol."""

    code = "broken-protocol"


class Closed(WireError):
    """The other side is gone."""


class TooLate(WireError):
    """The other side did not answer within its time."""


class Idle(WireError):
    """The other side does not answer and does not work either."""


#: asked with the bytes that have arrived since it was asked last
_Alive = Callable[[int], bool]


class Frames:
    """One end of the connection between the grader and a process: frames go and come, one after another.

    `descriptor`: The socket; not blocking where waits have a deadline.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._ahead = bytearray()  # what has arrived and is not yet read
        self._polls: dict[int, select.poll] = {}  # made when one is waited on: a rank's end blocks

    def write(
        self,
        header: Mapping[str, object],
        parts: Sequence[Any] = (),
        deadline_s: float | None = None,
        is_alive: _Alive | None = None,
    ) -> None:
        """Send a frame."""
        views = [memoryview(part).cast("B") for part in parts]
        text = json.dumps({**header, "parts": [len(view) for view in views]}).encode()
        size = sum(len(view) for view in views)
        if len(text) > MOST_HEADER_BYTES or size > MOST_PAYLOAD_BYTES:
            raise WireError(f"a message of {size + len(text)} bytes is more than may be sent")
        head = _HEAD.pack(len(text), size) + text
        is_small = size <= _AHEAD_BYTES
        for view in [memoryview(b"".join([head, *views]))] if is_small else [memoryview(head), *views]:
            while view:
                view = view[self._put(view, deadline_s, is_alive) :]

    def _put(self, view: memoryview, deadline_s: float | None, is_alive: _Alive | None) -> int:
        try:
            return os.write(self.descriptor, view)
        except BlockingIOError:
            is_ready = self._wait(select.POLLOUT, deadline_s, None if is_alive is None else _LOOK_S)
            if not is_ready and is_alive is not None and not is_alive(0):
                raise Idle("nothing is taken, and no work is done") from None
            return 0
        except OSError as error:
            raise Closed("the other side is gone") from error

    def read(self, deadline_s: float | None = None, is_alive: _Alive | None = None) -> Frame:
        """Receive a frame; its parts are views of one buffer."""
        self._fill(_HEAD.size, deadline_s, is_alive)
        header_bytes, payload_bytes = _HEAD.unpack_from(self._ahead)
        if header_bytes > MOST_HEADER_BYTES or payload_bytes > MOST_PAYLOAD_BYTES:
            raise WireError(
                f"a message of {header_bytes + payload_bytes} bytes; at most {MOST_PAYLOAD_BYTES} are allowed"
            )
        begin = _HEAD.size + header_bytes
        end = begin + payload_bytes
        self._fill(end, deadline_s, is_alive)
        frame, self._ahead = memoryview(self._ahead), self._ahead[end:]
        try:
            header = json.loads(str(frame[_HEAD.size : begin], "utf-8"))
            lengths = header["parts"]
            if not all(type(length) is int and length >= 0 for length in lengths):
                raise ValueError("lengths")
            if sum(lengths) != payload_bytes:
                raise ValueError("lengths")
        except (ValueError, TypeError, KeyError, RecursionError, AttributeError) as error:
            raise WireError("a message that is not of the protocol") from error
        parts = []
        for length in lengths:
            parts.append(frame[begin : begin + length])
            begin += length
        return header, parts

    def _fill(self, size: int, deadline_s: float | None, is_alive: _Alive | None) -> None:
        """Read until `size` bytes lie ahead."""
        is_patient = deadline_s is None and is_alive is None  # the socket blocks
        seen = len(self._ahead)
        look_s = math.inf if is_alive is None else monotonic() + _LOOK_S  # a rank has no clock
        while len(self._ahead) < size:
            if is_alive is not None and monotonic() > look_s:  # bytes may trickle in
                come, seen = len(self._ahead) - seen, len(self._ahead)
                look_s = monotonic() + _LOOK_S
                if not is_alive(come):
                    raise Idle("no answer, and no work on one")
            if not is_patient and not self._wait(
                select.POLLIN, deadline_s, None if is_alive is None else _LOOK_S
            ):
                continue
            missing = size - len(self._ahead)
            try:
                more = os.read(self.descriptor, min(max(missing, _AHEAD_BYTES), 1 << 20))
            except BlockingIOError:
                continue
            except OSError as error:
                raise Closed("the other side is gone") from error
            if not more:
                raise Closed("the other side is gone")
            self._ahead += more

    def _wait(self, event: int, deadline_s: float | None, slice_s: float | None = None) -> bool:
        """Wait until the descriptor is ready; False when only the slice of time is over."""
        left_s = None if deadline_s is None else max(deadline_s - monotonic(), 0.0)
        is_slice = slice_s is not None and (left_s is None or slice_s < left_s)
        wait_s = slice_s if is_slice else left_s
        if event not in self._polls:
            self._polls[event] = select.poll()
            self._polls[event].register(self.descriptor, event)
        if self._polls[event].poll(None if wait_s is None else wait_s * 1000 + (wait_s > 0)):
            return True
        if is_slice:
            return False
        raise TooLate("no answer within the time limit")


# --- values ---------------------------------------------------------------------------------------------


def encode(value: object, parts: list[object]) -> Any:
    """Turn a plain value into JSON, with its arrays appended to `parts`.

    `value`: None, bool, int, float, str, bytes, NumPy numbers and arrays of numbers, lists, tuples and dicts
        (with str or int keys) of these.
    `parts`: Gets the arrays' bytes.
    Raises DataError: The value holds something else.
    """
    return _Encoder(parts).encode(value, 0)


class _Encoder:
    def __init__(self, parts: list[Any]) -> None:
        self.parts, self.items = parts, 0

    def encode(self, value: object, depth: int) -> Any:
        self.items += 1
        if self.items > MOST_ITEMS or depth > MOST_DEPTH:
            raise DataError(
                f"a value of more than {MOST_ITEMS} items or {MOST_DEPTH} levels: return arrays",
                code="too-large",
            )
        if value is None or isinstance(value, bool | float | str):
            return value if not isinstance(value, float) else float(value)
        if isinstance(value, int):
            return {"i": str(int(value))} if abs(value) >= 1 << 53 else int(value)
        if isinstance(value, np.ndarray | np.generic):
            return self._array(np.asarray(value), isinstance(value, np.generic))
        if isinstance(value, bytes | bytearray):
            self.parts.append(bytes(value))
            return {"b": len(self.parts) - 1}
        if isinstance(value, list | tuple):
            kind = "t" if isinstance(value, tuple) else "l"
            return {kind: [self.encode(item, depth + 1) for item in value]}
        if isinstance(value, dict):
            pairs = [
                [self.encode(key, depth + 1), self.encode(item, depth + 1)] for key, item in value.items()
            ]
            return {"d": pairs}
        raise DataError(
            f"{type(value).__name__!r} is a type that cannot be handed over: numbers, texts, arrays of "
            "numbers, and lists, tuples and dicts of them can",
            code="not-picklable",
        )

    def _array(self, array: NDArray[Any], is_number: bool) -> object:
        if array.dtype.kind not in _KINDS or array.dtype.itemsize > 16 or not array.dtype.isnative:
            raise DataError(
                f"an array of dtype {array.dtype} cannot be handed over: return numbers", code="not-picklable"
            )
        self.parts.append(np.ascontiguousarray(array).tobytes())
        return {"a": [array.dtype.str, list(array.shape), len(self.parts) - 1, is_number]}


def decode(value: object, parts: Sequence[object], *, is_writable: bool = True) -> Any:
    """Turn what `encode` made into values again, trusting none of it."""
    try:
        return _Decoder(parts, is_writable).decode(value, 0)
    except WireError:
        raise
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError, AttributeError) as error:
        raise WireError("a value that is not of the protocol") from error


class _Decoder:
    def __init__(self, parts: Sequence[object], is_writable: bool) -> None:
        self.parts, self.is_writable, self.items = parts, is_writable, 0

    def decode(self, value: Any, depth: int) -> Any:
        self.items += 1
        if self.items > 2 * MOST_ITEMS or depth > MOST_DEPTH + 1:
            raise WireError("a value with too many items or levels")
        if value is None or isinstance(value, bool | int | float | str):
            return value
        ((kind, inner),) = value.items()
        if kind == "a":
            return self._array(*inner)
        if kind == "b":
            return bytes(self._part(inner))
        if kind == "i":
            return int(inner)
        if kind in ("l", "t"):
            if not isinstance(inner, list):
                raise WireError("a list that is none")
            items = [self.decode(item, depth + 1) for item in inner]
            return tuple(items) if kind == "t" else items
        if kind == "d":
            return {
                self._key(self.decode(key, depth + 1)): self.decode(item, depth + 1) for key, item in inner
            }
        raise WireError("a value of an unknown kind")

    @staticmethod
    def _key(key: object) -> Any:
        if not isinstance(key, str | int):
            raise WireError("a key that is no text or number")
        return key

    def _part(self, index: object) -> Any:
        if type(index) is not int or not 0 <= index < len(self.parts):
            raise WireError("a part that does not exist")
        return self.parts[index]

    def _array(self, name: str, shape: list[int], index: int, is_number: bool) -> object:
        if not isinstance(name, str) or not _DTYPE.fullmatch(name):  # NumPy reads more: it even parses ",b"
            raise WireError("a dtype that is not allowed")
        dtype = np.dtype(name)
        if dtype.kind not in _KINDS or dtype.hasobject or not dtype.isnative:
            raise WireError("a dtype that is not allowed")
        if len(shape) > 8 or not all(type(n) is int and 0 <= n < 1 << 40 for n in shape):
            raise WireError("a shape that no array has")
        array = np.frombuffer(self._part(index), dtype).reshape(shape)
        if is_number is True:
            return array[()]
        return array.copy() if self.is_writable else array


def is_amount(value: object) -> bool:
    """Whether `compute` takes it: seconds, or operations."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < MOST_COMPUTED


# The upper-case collectives that a submission may call, blocking or not, and what their arguments are.


#: their rows of the table of methods: all but those whose blocks have a datatype each
ROWS: dict[str, Method] = {
    row.name: row for row in METHODS if row.problem and row.form != "persistent" and row.base != "Alltoallw"
}
#: name -> the roles of its arguments: read, written, operator, root, counts
COLLECTIVES = {row.name: tuple(p.role for p in row.parameters) for row in ROWS.values()}
#: those of objects, and which of them combine the objects
OF_OBJECTS = tuple(
    row.name for row in METHODS if row.kind == "collective" and not row.is_buffer and row.parameters
)
REDUCED = tuple(name for name in OF_OBJECTS if any(p.role == "op" for p in NAMED[name].parameters))
#: those that are made of messages of a private communicator
OF_MESSAGES = (
    *("neighbor_allgather", "neighbor_alltoall"),
    *("Neighbor_allgather", "Neighbor_allgatherv", "Neighbor_alltoall", "Neighbor_alltoallv"),
)
