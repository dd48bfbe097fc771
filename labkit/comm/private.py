"""Names with an underscore of mpi4py.MPI that mpi4py's own Python (`mpi4py.util`) asks for."""

from __future__ import annotations

import contextlib
from typing import Any

from labkit.comm.handles.base import Handle
from labkit.comm.handles.datatypes import Datatype
from labkit.comm.known import KNOWN

__all__ = ["PRIVATE"]

#: tags of private messages go round among so many
_TAGS = 1 << 15


def _comm_lock(comm: Any, key: Any = None) -> Any:
    """Return a lock: nobody has to wait, for a rank's calls come from one thread."""
    return contextlib.nullcontext()


def _commctx_intra(comm: Any) -> tuple[Any, int]:
    """Return a communicator of the same ranks for private messages, and the next tag there; collective."""
    own = comm._own()
    if "private" not in own:
        from labkit.comm.communicator import Intracomm

        own["private"] = [Intracomm.Dup(comm), 0]
    private = own["private"]
    private[1] = (private[1] + 1) % _TAGS
    return private[0], private[1]


def _commctx_inter(comm: Any) -> tuple[Any, int, Any, bool]:
    """Return the same of an intercommunicator; the own group's communicator, and whether it is the first."""
    own = comm._own()
    if "private" not in own:
        own["private"] = [KNOWN["Intercomm"].Dup(comm), 0]
    private = own["private"]
    private[1] = (private[1] + 1) % _TAGS
    return private[0], private[1], private[0]._local, private[0]._is_first()


def _set_abort_status(status: int) -> None:
    """Nothing to do: a rank that fails ends the run."""


def _typecode(datatype: Datatype) -> str | None:
    """Character code of a predefined type; None of a pair and of a derived type."""
    char = datatype._body.char
    return None if char in ("", "V") else char


def _typealign(datatype: Datatype) -> int | None:
    """Alignment of a predefined type in bytes; None of a derived type."""
    return int(datatype._body.dtype.alignment) if datatype.is_predefined else None


def _sizeof(arg: Any) -> int:
    """Bytes of a C handle: here as of a pointer."""
    _ = _handleof(arg() if isinstance(arg, type) and issubclass(arg, Handle) else arg)
    return 8


def _handleof(arg: Any) -> int:
    """Return the number that stands for an object's C handle."""
    if not isinstance(arg, Handle):
        raise TypeError(f"expecting an MPI object, got {type(arg).__name__}")
    return arg.toint()


#: name in the module -> function
PRIVATE: dict[str, Any] = {
    function.__name__: function
    for function in (
        _comm_lock,
        _commctx_intra,
        _commctx_inter,
        _set_abort_status,
        _typealign,
        _typecode,
        _sizeof,
        _handleof,
    )
}
