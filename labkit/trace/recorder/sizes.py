"""Lengths of the messages that a program hands to mpi4py.

mpi4py's list forms are those that the simulated calls take, so the simulator's reading of them is used, with
mpi4py's datatypes turned into the simulator's. A derived datatype counts what it sends, not what it spans.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from labkit.comm.buffers import Simple, Vector, parse_simple, parse_vector
from labkit.comm.handles.datatypes import DATATYPES, Datatype
from labkit.comm.handles.special import BOTTOM
from labkit.comm.surface import Method, made
from labkit.trace.recorder.ledger import Ledger

__all__ = ["Sizes", "guarded", "noted_methods"]

_BY_NAME = {kind.name: kind for kind in DATATYPES.values()}

_NOTHING = np.empty(0, np.uint8)


class Sizes:
    """Reads messages for mpi4py's module.

    Parameters
    ----------
    mpi : module
        ``mpi4py.MPI``.
    """

    def __init__(self, mpi: Any) -> None:
        self._datatype: Any = mpi.Datatype
        self._bottom: Any = mpi.BOTTOM
        self._in_place: Any = mpi.IN_PLACE

    def is_in_place(self, message: Any) -> bool:
        """Whether the data lies in the other buffer."""
        return message is None or message is self._in_place

    def bytes(self, message: Any) -> int:
        """Return the length of a message of one block."""
        if type(message) is np.ndarray:  # the most frequent one, at a tenth of the general way's cost
            return int(message.nbytes)
        return self.simple(message).bytes

    def simple(self, message: Any, blocks: int = 0, is_operand: bool = False) -> Simple:
        """Read a message of one block, or of equal blocks; what is combined keeps gaps, as in simulation."""
        kind = self._given(message)
        if kind is None or kind.is_predefined:
            return parse_simple(self._translated(message, kind), False, blocks, is_operand)
        count = message[1] if len(message) > 2 else None
        if isinstance(count, list | tuple):
            count = count[0]
        number = _spanned(message[0], kind) // max(blocks, 1) if count is None else operator.index(count)
        return Simple(_NOTHING, 0, number, _known(kind))

    def vector(self, message: Any, blocks: int) -> Vector:
        """Read a message of blocks of any sizes."""
        kind = self._given(message)
        if kind is None or kind.is_predefined:
            return parse_vector(self._translated(message, kind), False, blocks)
        counts = message[1] if len(message) > 2 else None
        if isinstance(counts, tuple):
            counts = counts[0]
        if counts is None:
            number = _spanned(message[0], kind)
            sizes = number // blocks + (np.arange(blocks) < number % blocks)
        else:
            sizes = np.broadcast_to(np.asarray(counts, np.int64), (blocks,)).copy()
        return Vector(_NOTHING, sizes, np.zeros(blocks, np.int64), _known(kind))

    def unequal(self, message: Any) -> tuple[int, int] | None:
        """Return an element's bytes as sent and as counted where these differ (a value with its location)."""
        kind = self._given(message)
        if kind is None or not kind.is_predefined or kind.size == kind.extent:
            return None
        return int(kind.size), int(kind.extent)

    def _given(self, message: Any) -> Any:
        """Return the datatype that a list form names, None where it names none."""
        if isinstance(message, list | tuple) and len(message) > 1 and isinstance(message[-1], self._datatype):
            return message[-1]
        return None

    def _translated(self, message: Any, kind: Any) -> Any:
        """Return a message with what the simulator's reader knows."""
        if not isinstance(message, list | tuple):
            return message
        items = [BOTTOM if item is self._bottom else item for item in message]
        if kind is not None:
            items[-1] = _known(kind)
        return items


def _known(kind: Any) -> Datatype:
    """Return the simulator's datatype; one of the same number of bytes for those it has not."""
    name = str(kind.name)
    if kind.is_predefined and name in _BY_NAME:
        return _BY_NAME[name]
    return Datatype._make(None, name or "derived", f"V{kind.size}" if kind.size else "", "")


def _spanned(buffer: Any, kind: Any) -> int:
    """Count the elements that a buffer has room for."""
    length = 0 if buffer is None else memoryview(buffer).nbytes
    return length // int(kind.extent) if length else 0


# Methods in place of mpi4py's, which note the program's calls: one for each row of mpi4py's surface.

_Call = Callable[..., Any]


def noted_methods(
    ledger: Ledger, own: dict[str, Any], rows: Iterable[Method], note: Callable[[Method, _Call], _Call | None]
) -> dict[str, Any]:
    """Return what stands for methods of a class."""
    methods: dict[str, Any] = {}
    defaults = {"ANY_SOURCE": ledger.any_source, "ANY_TAG": ledger.any_tag, "SUM": ledger.sum}
    for row in rows:
        original = own.get(row.name)
        if original is None:
            continue
        noted = note(row, original)
        if noted is not None:
            space = {**defaults, "call": guarded(ledger, row.name, original, noted)}
            methods[row.name] = made(row, "call(self, {args})", space)
    return methods


def guarded(ledger: Ledger, name: str, original: _Call, noted: _Call) -> _Call:
    """Return a call that is noted, unless it is one that mpi4py, or an operator, makes inside another."""
    number = ledger.number(name)
    begin, here, end = ledger.log.enter, ledger.here, ledger.log.leave

    def call(self_: Any, *arguments: Any, **named: Any) -> Any:
        if ledger.is_busy:
            return original(self_, *arguments, **named)
        ledger.is_busy = True  # `Ledger.enter` and `leave`, here for their cost: two frames of Python a call
        begin(number, here())
        try:
            return noted(self_, *arguments, **named)
        finally:
            ledger.is_busy = False
            end()

    return call
