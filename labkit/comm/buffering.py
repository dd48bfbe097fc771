"""Buffers for buffered sends, attached and given back as in MPI; the simulator keeps the messages itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labkit import _kernels
from labkit.comm.handles.base import MODULE_NAME
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.status import Request
from labkit.program import context

__all__ = ["BUFFERING", "BUFFER_AUTOMATIC", "BufferAutomaticType", "Buffering"]

_ERR_BUFFER = 1
_outside: dict[object, Any] = {}


class BufferAutomaticType(int):
    """Type of BUFFER_AUTOMATIC."""

    __module__ = MODULE_NAME

    def __new__(cls) -> BufferAutomaticType:
        """Make the one there is."""
        return super().__new__(cls, 2)

    def __repr__(self) -> str:
        return "labkit.MPI.BUFFER_AUTOMATIC"

    def __reduce__(self) -> str | tuple[object, ...]:
        return "BUFFER_AUTOMATIC"


BUFFER_AUTOMATIC = BufferAutomaticType()


def _attach(own: dict[object, object], buf: object) -> None:
    if "attached" in own:
        raise MPIException(_ERR_BUFFER, "a buffer is attached already; Detach_buffer gives it back")
    is_special = buf is None or isinstance(buf, BufferAutomaticType)
    is_any_order = (
        isinstance(buf, memoryview) and buf.contiguous and not buf.readonly
    )  # in Fortran's order as well
    if not (is_special or is_any_order):
        _kernels.Buffer.frombuffer(buf)  # refuses what is no memory
    own["attached"] = buf


def _detach(own: dict[object, object]) -> object:
    if "attached" not in own:
        raise MPIException(_ERR_BUFFER, "no buffer is attached")
    return own.pop("attached")


class Buffering:
    """The buffer of a communicator's or a session's buffered sends."""

    _own: Callable[[], dict[object, Any]]

    def Attach_buffer(self, buf: object) -> None:
        """Give memory for buffered sends."""
        _attach(self._own(), buf)

    def Detach_buffer(self) -> Any:
        """Return the memory that was attached."""
        return _detach(self._own())

    def Flush_buffer(self) -> None:
        """Wait until buffered messages are under way: they are."""
        self._own()

    def Iflush_buffer(self) -> Request:
        """Begin to do as `Flush_buffer`: a request that is complete."""
        self._own()
        return _over()


def _of_rank() -> dict[object, object]:
    running = context.simulated()
    if running is None:
        return _outside
    own: dict[object, object] = running.calls.attributes.setdefault((-1, running.calls.hub.rank), {})
    return own


def _over() -> Request:
    running = context.simulated()
    if running is None:
        return Request()
    request: Request = running.calls.hub.start_general("Iflush_buffer")
    request._complete()
    return request


def Attach_buffer(buf: object) -> None:
    """Give memory for buffered sends."""
    _attach(_of_rank(), buf)


def Detach_buffer() -> Any:
    """Return the memory that was attached."""
    return _detach(_of_rank())


def Flush_buffer() -> None:
    """Wait until buffered messages are under way: they are."""


def Iflush_buffer() -> Request:
    """Begin to do as `Flush_buffer`: a request that is complete."""
    return _over()


#: name in the module -> object
BUFFERING: dict[str, object] = {
    "Attach_buffer": Attach_buffer,
    "Detach_buffer": Detach_buffer,
    "Flush_buffer": Flush_buffer,
    "Iflush_buffer": Iflush_buffer,
    "BUFFER_AUTOMATIC": BUFFER_AUTOMATIC,
    "BufferAutomaticType": BufferAutomaticType,
}
