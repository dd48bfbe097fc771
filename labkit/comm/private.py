"""Names with an underscore of mpi4py.MPI that mpi4py's own Python (`mpi4py.util`) asks for."""

from __future__ import annotations

import contextlib
from typing import Any

from labkit.comm.handles.base import Handle
from labkit.comm.handles.datatypes import DATATYPES, Datatype
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


def _addressof(arg: Any) -> int:
    """Return the number that stands for where an object's C handle lies."""
    return _handleof(arg)


def _comm_lock_table(comm: Any) -> dict[Any, Any]:
    """Return the locks of a communicator: nobody has to wait."""
    return {}


def _datatype_decode(datatype: Datatype, mark: bool = False) -> Any:
    """Return how a datatype was made: its parent, the combiner, and the parameters."""
    return datatype.decode()


def _codes(text: str) -> dict[str, Datatype]:
    """Return datatypes by character codes, from ``code NAME`` pairs."""
    words = text.split()
    return {
        code: DATATYPES[name] for code, name in zip(words[::2], words[1::2], strict=True) if name in DATATYPES
    }


_C = """
    ? C_BOOL b SIGNED_CHAR h SHORT i INT l LONG q LONG_LONG B UNSIGNED_CHAR H UNSIGNED_SHORT I UNSIGNED
    L UNSIGNED_LONG Q UNSIGNED_LONG_LONG f FLOAT d DOUBLE g LONG_DOUBLE F C_FLOAT_COMPLEX D C_DOUBLE_COMPLEX
    G C_LONG_DOUBLE_COMPLEX b1 C_BOOL i1 INT8_T i2 INT16_T i4 INT32_T i8 INT64_T u1 UINT8_T u2 UINT16_T
    u4 UINT32_T u8 UINT64_T f4 FLOAT c8 C_FLOAT_COMPLEX f8 DOUBLE c16 C_DOUBLE_COMPLEX f16 LONG_DOUBLE
    c32 C_LONG_DOUBLE_COMPLEX
"""
_FORTRAN = """
    l LOGICAL i INTEGER r REAL s REAL d DOUBLE_PRECISION c COMPLEX z DOUBLE_COMPLEX l1 LOGICAL1 l2 LOGICAL2
    l4 LOGICAL4 l8 LOGICAL8 i1 INTEGER1 i2 INTEGER2 i4 INTEGER4 i8 INTEGER8 r4 REAL4 r8 REAL8 r16 REAL16
    c8 COMPLEX8 c16 COMPLEX16 c32 COMPLEX32
"""
_OTHER = """
    Zf C_FLOAT_COMPLEX Zd C_DOUBLE_COMPLEX Zg C_LONG_DOUBLE_COMPLEX n COUNT N UNSIGNED_LONG p AINT
    P UNSIGNED_LONG c CHAR a CHAR S CHAR S1 CHAR s CHAR 1s CHAR U WCHAR U1 WCHAR u UINT16_T 1u UINT16_T
    w WCHAR 1w WCHAR M INT64_T M8 INT64_T m INT64_T m8 INT64_T
"""

#: name in the module -> function or table
PRIVATE: dict[str, Any] = {
    "_typedict": _codes(_C + _OTHER),
    "_typedict_c": _codes(_C),
    "_typedict_f": _codes(_FORTRAN),
    "_keyval_registry": {},
} | {
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
        _addressof,
        _comm_lock_table,
        _datatype_decode,
    )
}
