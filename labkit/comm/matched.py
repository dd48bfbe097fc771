"""Messages that matched probes took out of the queue."""

from __future__ import annotations

from typing import Any

from labkit import _kernels
from labkit.comm.handles.base import MODULE_NAME, Handle
from labkit.comm.handles.status import Status

__all__ = ["MESSAGE_NO_PROC", "MESSAGE_NULL", "Message"]


class Message(Handle, _kernels.MessageBase):
    """A message that a matched probe took out of the queue."""

    __module__ = MODULE_NAME
    __hash__ = None  # type: ignore[assignment]
    #: the engine's own
    _is_taken: bool
    _is_no_proc: bool
    _number: int

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        if self is other or (self._is_taken and other._is_taken):
            return True
        if self._is_taken or other._is_taken or self._is_no_proc or other._is_no_proc:
            return bool(self._is_no_proc and other._is_no_proc and self._is_taken == other._is_taken)
        return bool(self._number == other._number)

    def _identity(self) -> Any:
        return None if self == MESSAGE_NULL else "no process" if self == MESSAGE_NO_PROC else id(self)

    def free(self) -> None:
        """Let go of it: a handle becomes MESSAGE_NULL, MPI's own stay as they are."""
        if self is not MESSAGE_NO_PROC:
            self._is_taken = True

    def __reduce__(self) -> Any:
        for constant, name in ((MESSAGE_NULL, "MESSAGE_NULL"), (MESSAGE_NO_PROC, "MESSAGE_NO_PROC")):
            if self == constant:
                return name if self is constant else (type(self), (constant,))
        raise ValueError("a message cannot be pickled: receive it first")

    @classmethod
    def Probe(cls, comm: Any, source: int = -1, tag: int = -1, status: Status | None = None) -> Message:
        """Wait for a message and take it out of the queue."""
        found: Message = comm.Mprobe(source, tag, status)
        return found

    @classmethod
    def Iprobe(
        cls, comm: Any, source: int = -1, tag: int = -1, status: Status | None = None
    ) -> Message | None:
        """Take a message out of the queue if there is one."""
        found: Message | None = comm.Improbe(source, tag, status)
        return found

    probe = Probe
    iprobe = Iprobe


MESSAGE_NULL = Message()
MESSAGE_NO_PROC = Message()
MESSAGE_NO_PROC._is_no_proc = True
MESSAGE_NO_PROC._is_taken = False
