"""The base of the simulated module's objects: names that pickle, and names not built yet."""

from __future__ import annotations

import ctypes
import operator
import os
import warnings
import weakref
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from labkit.errors import UnsupportedError

__all__ = [
    "BOTTOM",
    "IN_PLACE",
    "KNOWN",
    "MODULE_NAME",
    "SPECIAL",
    "Handle",
    "HandleType",
    "MissingError",
    "Named",
    "constant_of",
    "foreign_array",
    "foreign_memory",
    "foreign_memory_at",
    "is_foreign",
    "is_in_place",
    "public",
    "refuse",
]


#: where everything is found again when unpickled: see labkit/MPI.py
MODULE_NAME = "labkit.MPI"

Class = TypeVar("Class", bound=type)


class MissingError(UnsupportedError, AttributeError):
    """A name of mpi4py that is not there: also what `hasattr` and guards of programs expect."""


def public(cls: Class) -> Class:
    """Make a class one of the module's own, so that it pickles by the module's name."""
    cls.__module__ = MODULE_NAME
    return cls


def refuse(owner: str, name: str, known: frozenset[str]) -> Exception:
    """Return the error for a missing attribute: not built yet, or a typo."""
    if name in known:
        return MissingError(f"{owner}.{name} is not simulated yet; on real MPI (on='mpi') it works")
    return AttributeError(f"{owner} has no attribute {name!r}")


class HandleType(type):
    """Class of the module's classes: says which of mpi4py's names are not built yet."""

    _known: frozenset[str] = frozenset()

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        raise refuse(f"MPI.{cls.__name__}", name, cls._missing())

    def _missing(cls) -> frozenset[str]:
        """Return the names that no class of its kind has: those of another one of these are not its own."""
        built: set[str] = set()
        classes: list[type] = [one for one in cls.__mro__ if vars(one).get("_known")][-1:]
        while classes:
            one = classes.pop()
            built.update(dir(one))
            classes += one.__subclasses__()
        return cls._known - built


class Handle(metaclass=HandleType):
    """Mixin of the module's classes: the same for their instances; and objects as numbers."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # as mpi4py's handles

    def toint(self) -> int:
        """Return the number of the object, from which `fromint` makes a handle again."""
        key = (type(self).__name__, self._identity())
        if key not in _numbers:
            _numbers[key] = len(_kept)
            _kept.append(type(self)(self))  # type: ignore[call-arg]
        return _numbers[key]

    @classmethod
    def fromint(cls, arg: int, /) -> Any:
        """Return a handle of the object with a number."""
        if not 0 <= int(arg) < len(_kept) or not isinstance(_kept[int(arg)], cls):
            raise ValueError(f"{arg} is the number of no {cls.__name__}; toint() gives numbers")
        kept = _kept[int(arg)]
        return type(kept)(kept)  # type: ignore[call-arg]

    py2f: Any = toint
    f2py: Any = fromint
    fromhandle = fromint
    handle = property(toint, doc="Number of the object.")

    def _identity(self) -> object:
        """Return what is the same for all handles of one object, and for no other."""
        return id(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise refuse(f"MPI.{type(self).__name__}", name, type(self)._missing())


#: numbers of objects by class and identity, and handles of them, which keep them alive
_numbers: dict[tuple[str, Any], int] = {}
_kept: list[Handle] = []


class Named(Handle):
    """Mixin of the module's constant objects: they compare by identity and pickle by name."""

    __slots__ = ()
    __hash__ = None
    _constant: str | None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)) and not isinstance(self, type(other)):
            return NotImplemented
        return self is other

    def __reduce__(self) -> str | tuple[object, ...]:
        if self._constant is None:
            raise ValueError(f"cannot pickle a {type(self).__name__} that the program made itself")
        return self._constant


# Classes of communicators and MPI's own communicators, by name: filled where they are made.


#: a making of one communicator from another names the class of the new one
KNOWN: dict[str, Any] = {}


def constant_of(comm: object) -> str | None:
    """Name of a communicator that the module has, None of any other."""
    for name in ("COMM_WORLD", "COMM_SELF", "COMM_NULL"):
        if KNOWN.get(name) == comm:
            return name
    return None


# IN_PLACE and BOTTOM: marks that stand where a buffer would.


class InPlaceType(int):
    """Type of IN_PLACE."""

    __module__ = MODULE_NAME

    def __new__(cls) -> InPlaceType:
        """Make the one there is."""
        return super().__new__(cls, -1)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return "labkit.MPI.IN_PLACE"

    def __reduce__(self) -> str | tuple[object, ...]:
        return "IN_PLACE"


IN_PLACE = InPlaceType()


def is_in_place(message: object) -> bool:
    """Whether a buffer argument says that the data lies in the other buffer (None counts, as in mpi4py)."""
    return message is IN_PLACE or message is None


class BottomType(int):
    """Type of BOTTOM."""

    __module__ = MODULE_NAME

    def __new__(cls) -> BottomType:
        """Make the one there is."""
        return super().__new__(cls, 0)

    def __repr__(self) -> str:
        return "labkit.MPI.BOTTOM"

    def __reduce__(self) -> str | tuple[object, ...]:
        return "BOTTOM"


BOTTOM = BottomType()

SPECIAL: dict[str, Any] = {
    "BOTTOM": BOTTOM,
    "BottomType": BottomType,
    "IN_PLACE": IN_PLACE,
    "InPlaceType": InPlaceType,
}


# Arrays of other libraries, which say where they lie by DLPack or `__cuda_array_interface__`.


#: DLPack's numbers of devices whose memory this processor reads: its own, and pinned or managed host memory
_ACCESSIBLE = (1, 3, 11, 13)
#: DLPack's codes of types -> NumPy's kinds
_KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}
#: DLPack's codes of types that are sent as bytes: opaque handles
_OPAQUE = 3
#: types of arrays that know nothing of DLPack's versions
_UNVERSIONED: weakref.WeakSet[type] = weakref.WeakSet()
_READ_ONLY = 1
#: the system's own write, which reports memory that it cannot read
_write = ctypes.CDLL(None, use_errno=True).write
_write.argtypes, _write.restype = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t), ctypes.c_ssize_t


class _Interface:
    """Memory described by a dictionary; keeps its owner alive."""

    def __init__(self, interface: Mapping[str, object], owner: object) -> None:
        self.__array_interface__ = {**interface, "version": 3}
        self.owner = owner


def is_foreign(value: object) -> bool:
    """Whether it is such an array."""
    return hasattr(value, "__dlpack__") or hasattr(value, "__cuda_array_interface__")


def foreign_array(value: object) -> NDArray[Any]:
    """Return the array as one of NumPy's, on the same memory."""
    return _read(value)[0]


def foreign_memory(value: object) -> tuple[NDArray[Any], bool]:
    """Return the array as `foreign_array` does, and whether it says that it lies on a device."""
    if not is_foreign(value):
        raise TypeError(f"a bytes-like object is required, not {type(value).__name__!r}")
    return _read(value)


def foreign_memory_at(address: int, count: int, kind: Any, owner: object) -> NDArray[Any]:
    """Return memory of a compiled object as an array, which keeps the object alive."""
    described = {"shape": (count,), "typestr": np.dtype(kind).str, "data": (address, False)}
    return np.asarray(_Interface(described, owner))


def _read(value: Any) -> tuple[NDArray[Any], bool]:
    if hasattr(value, "__dlpack__"):
        device, number = value.__dlpack_device__()
        device, _ = operator.index(device), operator.index(number)
        described = _tensor(_capsule(value, device))
        is_device, what = device not in _ACCESSIBLE, f"DLPack's device {device}"
    else:
        described = _cuda(value.__cuda_array_interface__)
        is_device, what = True, "__cuda_array_interface__"
    array = np.asarray(_Interface(described, value))
    if is_device and array.size and not _is_readable(described["data"][0], array.nbytes):
        raise BufferError(
            f"the array is in the memory of a device ({what}), which a simulated rank cannot read; copy it "
            "to the host first, or run on real MPI with device support (--on mpi)"
        )
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        raise BufferError("the array is not contiguous: send a copy")
    return array.T if not array.flags.c_contiguous else array, is_device


def _is_readable(address: int, count: int) -> bool:
    """Ask the system whether a read of the first and of the last byte would be a fault."""
    reading, writing = os.pipe()
    try:
        return bool(_write(writing, address, 1) == 1 == _write(writing, address + count - 1, 1))
    finally:
        os.close(reading)
        os.close(writing)


# --- __cuda_array_interface__ ---------------------------------------------------------------------------


def _cuda(interface: object) -> dict[str, Any]:
    """Return the entries of the dictionary, refusing anything else."""
    if not isinstance(interface, dict):
        raise TypeError(f"__cuda_array_interface__: expecting a dictionary, got {type(interface).__name__}")
    pointer, is_read_only = _typed(interface["data"], tuple, "data")
    shape, typestr = interface["shape"], _typed(interface["typestr"], str, "typestr")
    strides, descr = interface.get("strides"), interface.get("descr")
    shape = tuple(map(operator.index, _typed(shape, tuple | list, "shape")))
    if interface.get("mask") is not None:
        raise BufferError("__cuda_array_interface__: an array with a mask is no message")
    if shape and min(shape) < 0:
        raise BufferError(f"__cuda_array_interface__: shape {shape} has a negative extent")
    order, kind, item_bytes = typestr[:1], typestr[1:2], int(typestr[2:])
    if order not in ("<", "|", "="):
        raise BufferError(f"__cuda_array_interface__: {typestr!r} is not in this machine's byte order")
    if descr is not None and _typed(descr, list, "descr") != [("", typestr)]:
        message = f"__cuda_array_interface__: 'descr' is ignored, its elements are sent as {typestr!r}"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
    described: dict[str, Any] = {"shape": shape, "data": (pointer, bool(is_read_only))}
    if strides is not None:
        described["strides"] = tuple(map(operator.index, _typed(strides, tuple | list, "strides")))
    if kind != "V":
        return {**described, "typestr": f"<{kind}{item_bytes}".replace("<b1", "|b1")}
    return _as_bytes(described, item_bytes)


def _typed(value: object, kind: Any, name: str) -> Any:
    if not isinstance(value, kind):
        expected = getattr(kind, "__name__", "a sequence")
        raise TypeError(f"__cuda_array_interface__[{name!r}]: {value!r} is not {expected}")
    return value


def _as_bytes(described: dict[str, Any], item_bytes: int) -> dict[str, object]:
    """Describe elements of types that MPI lacks as rows of bytes."""
    inner = {"shape": (*described["shape"], item_bytes), "typestr": "|u1"}
    if "strides" in described:
        inner["strides"] = (*described["strides"], 1)
    return {**described, **inner}


# --- DLPack -------------------------------------------------------------------------------------------


class _Tensor(ctypes.Structure):
    """DLPack's DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int),
        ("device_id", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    """DLPack's DLManagedTensorVersioned, of its versions 1.x."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)


def _capsule(value: Any, device: int) -> object:
    """Ask for a capsule: of version 1 where the array knows it."""
    stream = {} if device in _ACCESSIBLE else {"stream": -1}
    kind = type(value)
    if kind not in _UNVERSIONED:
        try:
            return value.__dlpack__(**stream, max_version=(1, 0))
        except TypeError:  # an older producer takes no version
            _UNVERSIONED.add(kind)
    return value.__dlpack__(**stream)


def _tensor(capsule: object) -> dict[str, Any]:
    """Return what a capsule says. It is only read: the producer, not the capsule, keeps the memory alive."""
    is_read_only = False
    if _is_valid(capsule, b"dltensor_versioned"):
        managed = _Versioned.from_address(_pointer_of(capsule, b"dltensor_versioned"))
        if managed.major != 1:
            raise BufferError(f"DLPack's version {managed.major} is not known; version 1 is")
        is_read_only, tensor = bool(managed.flags & _READ_ONLY), managed.tensor
    elif _is_valid(capsule, b"dltensor"):
        tensor = _Tensor.from_address(_pointer_of(capsule, b"dltensor"))
    else:
        raise BufferError(f"__dlpack__ returned no capsule that can still be read, but {capsule!r}")
    described: dict[str, object] = {
        "shape": _shape(tensor),
        "data": ((tensor.data or 0) + tensor.byte_offset, is_read_only),
    }
    kind, item_bytes = _KINDS.get(tensor.code), (tensor.bits * tensor.lanes + 7) // 8
    if tensor.strides:
        described["strides"] = tuple(tensor.strides[axis] * item_bytes for axis in range(tensor.ndim))
    if (kind, tensor.lanes) == ("f", 2):  # as complex numbers were written before they had a code
        kind = "c"
    elif tensor.code == _OPAQUE or tensor.lanes != 1:
        return _as_bytes(described, item_bytes)
    elif kind is None:
        raise BufferError(f"DLPack's type {tensor.code} of {tensor.bits} bits has no MPI datatype")
    return {**described, "typestr": f"<{kind}{item_bytes}".replace("<b1", "|b1")}


def _shape(tensor: _Tensor) -> tuple[int, ...]:
    """Return the extents."""
    if tensor.ndim < 0 or (tensor.ndim and not tensor.shape):
        raise BufferError(f"DLPack: a tensor of {tensor.ndim} dimensions without extents")
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    if shape and min(shape) < 0:
        raise BufferError(f"DLPack: shape {shape} has a negative extent")
    return shape
