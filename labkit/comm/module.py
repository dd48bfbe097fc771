"""The simulated `labkit.MPI`, put together from the parts of this package."""

from __future__ import annotations

import collections
import contextlib
import functools
import importlib
import operator
import sys
from array import array
from typing import Any

from labkit import _kernels
from labkit.comm import buffers, surface
from labkit.comm.arguments import convert_functions, convert_methods
from labkit.comm.buffering import BUFFERING
from labkit.comm.communicator import Comm
from labkit.comm.environment import ENVIRONMENT
from labkit.comm.files.file import FILE_NULL, File
from labkit.comm.grid import SPECIAL_WEIGHTS, Compute_dims
from labkit.comm.handles import datatypes, exceptions, packing, status
from labkit.comm.handles.base import (
    BOTTOM,
    KNOWN,
    MODULE_NAME,
    SPECIAL,
    Handle,
    MissingError,
    constant_of,
    foreign_memory,
    refuse,
)
from labkit.comm.handles.constants import CONSTANTS, ERROR_TEXTS
from labkit.comm.handles.datatypes import DATATYPES, Datatype
from labkit.comm.handles.errhandlers import ERRHANDLERS, WATCHED, Errhandler
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.exceptions import class_of, codes_in_use, text_of
from labkit.comm.handles.groups import GROUP_EMPTY, GROUP_NULL, SESSION_NULL, Group, Session
from labkit.comm.handles.info import INFO_ENV, INFO_NULL, Info
from labkit.comm.handles.operators import OPERATORS, Op
from labkit.comm.handles.packing import address_of, bytes_of
from labkit.comm.handles.status import F_STATUS, Grequest, Prequest
from labkit.comm.intercomm import Intercomm
from labkit.comm.intracomm import COMM_NULL, COMM_SELF, COMM_WORLD, Intracomm
from labkit.comm.package import RankModule
from labkit.comm.pickling import Pickle, pickle
from labkit.comm.rma.window import WIN_NULL, Win
from labkit.comm.spawning import PORTS
from labkit.comm.surface import METHODS, add_methods
from labkit.comm.topologies import Cartcomm, Distgraphcomm, Graphcomm, Topocomm

__all__ = ["simulated_module"]


_CLASSES = (
    *(
        Comm,
        Intracomm,
        Topocomm,
        Cartcomm,
        Graphcomm,
        Distgraphcomm,
        Intercomm,
        Group,
        datatypes.Datatype,
        Op,
        status.Request,
        Prequest,
        Grequest,
        Info,
        Session,
        Errhandler,
        Win,
        File,
        status.Status,
        status.Message,
    ),
    *(exceptions.Exception, Pickle),
)


class SimulatedModule(RankModule):
    """A module that says which names of mpi4py.MPI it does not simulate yet."""

    def __getattr__(self, name: str) -> object:
        if name == "__pyx_capi__":  # what compiled code looks for first
            raise MissingError(
                "an extension compiled against mpi4py's C interface calls an MPI library, and a simulated "
                "run has none; run on real MPI (--on mpi)"
            )
        raise refuse("MPI", name, surface.MODULE)

    def __reduce__(self) -> str | tuple[object, ...]:
        return importlib.import_module, (MODULE_NAME,)

    def __dir__(self) -> list[str]:
        return sorted(name for name in self.__dict__ if not name.startswith("_"))


def _build() -> SimulatedModule:
    module = SimulatedModule(MODULE_NAME, "mpi4py.MPI's interface on a simulated machine.")
    module.__dict__.update(CONSTANTS)
    module.__dict__.update(F_STATUS)
    module.__dict__.update(datatypes.DATATYPES)
    module.__dict__.update(OPERATORS)
    module.__dict__.update(ENVIRONMENT)
    module.__dict__.update(ERROR_FUNCTIONS)
    module.__dict__.update(MEMORY)
    module.__dict__.update(BUFFERING)
    module.__dict__.update(PRIVATE)
    module.__dict__.update(PORTS)
    module.__dict__.update(SPECIAL)
    module.__dict__.update(SPECIAL_WEIGHTS)
    module.__dict__.update(ERRHANDLERS)
    module.__dict__.update({cls.__name__: cls for cls in _CLASSES})
    module.__dict__.update(
        COMM_WORLD=COMM_WORLD,
        COMM_SELF=COMM_SELF,
        COMM_NULL=COMM_NULL,
        GROUP_EMPTY=GROUP_EMPTY,
        GROUP_NULL=GROUP_NULL,
        Compute_dims=Compute_dims,
        INFO_NULL=INFO_NULL,
        INFO_ENV=INFO_ENV,
        SESSION_NULL=SESSION_NULL,
        WIN_NULL=WIN_NULL,
        FILE_NULL=FILE_NULL,
        REQUEST_NULL=status.REQUEST_NULL,
        MESSAGE_NULL=status.MESSAGE_NULL,
        MESSAGE_NO_PROC=status.MESSAGE_NO_PROC,
        pickle=pickle,
        _datatype_create=datatypes._datatype_create,
        __file__=__file__,
    )
    functions = (*ENVIRONMENT.values(), *ERROR_FUNCTIONS.values(), Compute_dims)
    functions = (*functions, *(value for name, value in BUFFERING.items() if name.endswith("_buffer")))
    functions = (*functions, *PORTS.values(), Alloc_mem, Free_mem)
    for function in (*functions, Get_address, Aint_add, Aint_diff):
        function.__module__ = MODULE_NAME
    return module


def _register() -> None:
    _kernels.register_python_side(
        {
            "request_type": status.Request,
            "status_type": status.Status,
            "message_type": status.Message,
            "message_no_proc": status.MESSAGE_NO_PROC,
            "make_error": exceptions.make_error,
            "make_outside": exceptions.make_outside,
            "make_ended": exceptions.make_ended,
            "owner_of_thread": exceptions.find_owner_of_thread,
            "parse_buffer": buffers.parse_buffer,
            "unpacked": packing.unpacked,
            "find_format": datatypes.find_format,
            "datatypes": tuple(datatypes.DATATYPES.values()),
            "in_place": SPECIAL["IN_PLACE"],
            "foreign_memory": foreign_memory,
        }
    )


@functools.cache
def simulated_module() -> SimulatedModule:
    """Return the simulated module; the same one every time."""
    _register()
    complete()
    classes = {cls.__name__: cls for cls in _CLASSES}
    convert_methods(classes)
    WATCHED.extend(cls for cls in _CLASSES if cls not in (MPIException, Errhandler, Pickle))
    module = _build()
    convert_functions(module.__dict__, classes)
    sys.modules.setdefault(MODULE_NAME, module)
    return module


# Calls about error classes, codes and strings.


_ERR_ARG = 13


def Get_error_class(errorcode: int) -> int:
    """Error class of an error code."""
    return class_of(_checked(errorcode))


def Get_error_string(errorcode: int) -> str:
    """The text of an error code, MPI's or the program's."""
    return text_of(_checked(errorcode))


def _checked(errorcode: int) -> int:
    code = int(errorcode)
    if code < 0 or (code > CONSTANTS["ERR_LASTCODE"] and code not in codes_in_use().classes):
        raise MPIException(_ERR_ARG, f"errorcode={code} is no error code of MPI or of the program")
    return code


def Add_error_class() -> int:
    """Add an error class; its number."""
    return codes_in_use().add(None)


def Add_error_code(errorclass: int) -> int:
    """Add an error code to a class; its number."""
    number = int(errorclass)
    if number not in ERROR_TEXTS and not codes_in_use().is_class(number):
        raise MPIException(_ERR_ARG, f"{number} is no error class")
    return codes_in_use().add(number)


def Add_error_string(errorcode: int, string: str) -> None:
    """Set the text of an added class or code."""
    codes_in_use().texts[_added(errorcode)] = str(string)


def Remove_error_class(errorclass: int) -> None:
    """Take an added class away; it must have no codes and no text."""
    number, codes = _added(errorclass), codes_in_use()
    if not codes.is_class(number) or codes.is_used(number):
        raise MPIException(_ERR_ARG, f"{number} is no error class, or has codes or a string still")
    del codes.classes[number]


def Remove_error_code(errorcode: int) -> None:
    """Remove an added code; it must have no text."""
    number, codes = _added(errorcode), codes_in_use()
    if codes.is_class(number) or number in codes.texts:
        raise MPIException(_ERR_ARG, f"{number} is an error class, or has a string still")
    del codes.classes[number]


def Remove_error_string(errorcode: int) -> None:
    """Remove the text of an added class or code."""
    number, codes = _added(errorcode), codes_in_use()
    if number not in codes.texts:
        raise MPIException(_ERR_ARG, f"error code {number} has no string")
    del codes.texts[number]


def _added(number: int) -> int:
    if int(number) not in codes_in_use().classes:
        raise MPIException(_ERR_ARG, f"{number} is not an error class or code that this rank has added")
    return int(number)


#: name in the module -> function
ERROR_FUNCTIONS: dict[str, Any] = {
    function.__name__: function
    for function in (
        *(Get_error_class, Get_error_string, Add_error_class, Add_error_code, Add_error_string),
        *(Remove_error_class, Remove_error_code, Remove_error_string),
    )
}


# Memory as MPI has it: buffers of bytes, addresses, and what is computed with them.


_BITS = 64


def Get_address(location: object) -> int:
    """Return where a buffer lies in memory; 0 for BOTTOM."""
    if location is BOTTOM or location is None:
        return 0
    memory = bytes_of(location)
    return address_of(memory) if memory.nbytes else int(_kernels.Buffer(location).address)


def Aint_add(base: int, disp: int) -> int:
    """Return an address plus a displacement in bytes."""
    return _address(operator.index(base) + operator.index(disp))


def Aint_diff(addr1: int, addr2: int) -> int:
    """Return how many bytes the first address is behind the second."""
    return _address(operator.index(addr1) - operator.index(addr2))


def _address(number: int) -> int:
    """Wrap around as the machine's addresses do."""
    half = 1 << (_BITS - 1)
    return (number + half) % (2 * half) - half


def Alloc_mem(size: int, info: object = None) -> _kernels.Buffer:
    """Return memory of `size` bytes."""
    if size < 0:
        raise MPIException(_ERR_ARG, f"size={size}: memory has 0 bytes or more")
    return _kernels.Buffer.allocate(int(size))


def Free_mem(mem: _kernels.Buffer) -> None:
    """Let go of memory."""
    mem.release()


#: name in the module -> object
MEMORY: dict[str, Any] = {
    "Get_address": Get_address,
    "Aint_add": Aint_add,
    "Aint_diff": Aint_diff,
    "buffer": _kernels.Buffer,
    "Alloc_mem": Alloc_mem,
    "Free_mem": Free_mem,
    "memory": _kernels.Buffer,
}


# Methods of `MPI.Comm` that communicators of one and of two groups do in their own ways.


def _exact(comm: Any) -> Any:
    """Return a handle of the kind that the communicator is."""
    comm._check()
    return Intercomm(comm) if comm.Is_inter() else Intracomm(comm)


def _free(self: Any) -> None:
    """Give it back; a handle of one of MPI's own becomes null, the module's stay unchanged."""
    if self:
        exact = _exact(self)
        if self is not KNOWN.get(constant_of(self) or ""):
            exact.free()
            self._become("null", 0)


def _made(name: str, doc: str | None) -> object:
    def method(self: Any, *args: object, **kwargs: object) -> object:
        exact = _exact(self)
        made = getattr(exact, name)(*args, **kwargs)
        if not exact:  # it has been given back
            self._become("null", 0)
        return Comm.__new__(type(self), made) if name == "Clone" else made  # type: ignore[call-arg]

    method.__name__, method.__qualname__, method.__doc__ = name, f"Comm.{name}", doc
    method.__wrapped__ = getattr(Intracomm, name)  # type: ignore[attr-defined]
    return method


def complete() -> None:
    """Give `Comm` what both kinds of communicators have."""
    own, both = _of(Comm), _of(Intercomm) & _of(Intracomm)
    rows = [row for row in METHODS if row.name in both - own]
    add_methods(
        Comm,
        rows,
        lambda row: f"exact(self).{row.name}({{args}})",
        {"exact": _exact, "SUM": OPERATORS["SUM"]},
    )
    _free.__name__, _free.__qualname__ = "free", "Comm.free"
    Comm.free = _free  # type: ignore[attr-defined]
    for name in both - _of(Comm):
        if not name.startswith("_"):
            setattr(Comm, name, _made(name, getattr(Intracomm, name).__doc__))


def _of(cls: type) -> frozenset[str]:
    return frozenset(dir(cls))


# Names with an underscore of mpi4py.MPI that mpi4py's own Python (`mpi4py.util`) asks for.


#: number of tags of private messages, used in turn
_TAGS = 1 << 15


def _comm_lock(comm: object, key: object = None) -> object:
    """Return a lock: nobody has to wait, for a rank's calls come from one thread."""
    return contextlib.nullcontext()


def _commctx_intra(comm: Intracomm) -> tuple[object, int]:
    """Return a communicator of the same ranks for private messages, and the next tag there; collective."""
    own = comm._own()
    if "private" not in own:
        own["private"] = [Intracomm.Dup(comm), 0]
    private = own["private"]
    private[1] = (private[1] + 1) % _TAGS
    return private[0], private[1]


def _commctx_inter(comm: Any) -> tuple[object, int, object, bool]:
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


def _sizeof(arg: object) -> int:
    """Bytes of a C handle: here as of a pointer."""
    _ = _handleof(arg() if isinstance(arg, type) and issubclass(arg, Handle) else arg)
    return 8


def _handleof(arg: object) -> int:
    """Return the number that stands for an object's C handle."""
    if not isinstance(arg, Handle):
        raise TypeError(f"expecting an MPI object, got {type(arg).__name__}")
    return arg.toint()


#: memory that `_addressof` has given away, of the last ones
_GIVEN: collections.deque[array[int]] = collections.deque(maxlen=1024)


def _addressof(arg: object) -> int:
    """Return the address of a copy of the number that stands for an object's C handle: C code may read it."""
    _GIVEN.append(array("Q", [_handleof(arg) % 2**64]))
    return _GIVEN[-1].buffer_info()[0]


def _comm_lock_table(comm: object) -> dict[object, object]:
    """Return the locks of a communicator: nobody has to wait."""
    return {}


def _datatype_decode(datatype: Datatype, mark: bool = False) -> object:
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
