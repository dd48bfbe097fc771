"""Datatypes: handles of them, MPI's predefined ones, and how buffers are recognised as one of them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from labkit.comm import names
from labkit.comm.handles.base import MODULE_NAME, Named
from labkit.comm.handles.derived import DerivedTypes
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.keyvals import Keyed, deleted
from labkit.comm.handles.packing import Packing
from labkit.comm.handles.typebody import TypeBody, Typemap

__all__ = ["DATATYPES", "DATATYPE_NULL", "Datatype", "_datatype_create", "find_format", "lookup"]

_ERR_TYPE = 3

#: name, MPI's name, NumPy type string, character code; an alias repeats an MPI name
_TABLE = """
CHAR CHAR S1 c | WCHAR WCHAR U1 U | SIGNED_CHAR SIGNED_CHAR i1 b | UNSIGNED_CHAR UNSIGNED_CHAR u1 B
SHORT SHORT i2 h | UNSIGNED_SHORT UNSIGNED_SHORT u2 H | INT INT i4 i | UNSIGNED UNSIGNED u4 I
LONG LONG i8 l | UNSIGNED_LONG UNSIGNED_LONG u8 L | LONG_LONG LONG_LONG_INT i8 q
UNSIGNED_LONG_LONG UNSIGNED_LONG_LONG u8 Q | FLOAT FLOAT f4 f | DOUBLE DOUBLE f8 d
LONG_DOUBLE LONG_DOUBLE f16 g | C_BOOL C_BOOL b1 ? | C_FLOAT_COMPLEX C_FLOAT_COMPLEX c8 F
C_DOUBLE_COMPLEX C_DOUBLE_COMPLEX c16 D | C_LONG_DOUBLE_COMPLEX C_LONG_DOUBLE_COMPLEX c32 G
INT8_T INT8_T i1 b | INT16_T INT16_T i2 h | INT32_T INT32_T i4 i | INT64_T INT64_T i8 l
UINT8_T UINT8_T u1 B | UINT16_T UINT16_T u2 H | UINT32_T UINT32_T u4 I | UINT64_T UINT64_T u8 L
BYTE BYTE u1 B | PACKED PACKED u1 B | AINT AINT i8 p | COUNT COUNT i8 p | OFFSET OFFSET i8 p
CXX_BOOL CXX_BOOL b1 ? | CXX_FLOAT_COMPLEX CXX_FLOAT_COMPLEX c8 F
CXX_DOUBLE_COMPLEX CXX_DOUBLE_COMPLEX c16 D | CXX_LONG_DOUBLE_COMPLEX CXX_LONG_DOUBLE_COMPLEX c32 G
CHARACTER CHARACTER S1 c | LOGICAL LOGICAL i4 i | INTEGER INTEGER i4 i | REAL REAL f4 f
DOUBLE_PRECISION DOUBLE_PRECISION f8 d | COMPLEX COMPLEX c8 F | DOUBLE_COMPLEX DOUBLE_COMPLEX c16 D
LOGICAL1 LOGICAL1 b1 ? | LOGICAL2 LOGICAL2 i2 h | LOGICAL4 LOGICAL4 i4 i | LOGICAL8 LOGICAL8 i8 l
INTEGER1 INTEGER1 i1 b | INTEGER2 INTEGER2 i2 h | INTEGER4 INTEGER4 i4 i | INTEGER8 INTEGER8 i8 l
REAL4 REAL4 f4 f | REAL8 REAL8 f8 d | REAL16 REAL16 f16 g | COMPLEX8 COMPLEX8 c8 F
COMPLEX16 COMPLEX16 c16 D | COMPLEX32 COMPLEX32 c32 G | FLOAT16_T SHORT_FLOAT f2 e
FLOAT_INT FLOAT_INT f4+i4 V | DOUBLE_INT DOUBLE_INT f8+i4 V | LONG_INT LONG_INT i8+i4 V
TWOINT 2INT i4+i4 V | SHORT_INT SHORT_INT i2+i4 V | LONG_DOUBLE_INT LONG_DOUBLE_INT f16+i4 V
"""

_ALIASES = {
    "BOOL": "C_BOOL", "C_COMPLEX": "C_FLOAT_COMPLEX", "FLOAT32_T": "FLOAT", "FLOAT64_T": "DOUBLE",
    "INT_INT": "TWOINT", "SIGNED_INT": "INT", "SIGNED_SHORT": "SHORT", "SIGNED_LONG": "LONG",
    "SIGNED_LONG_LONG": "LONG_LONG", "SINT8_T": "INT8_T", "SINT16_T": "INT16_T", "SINT32_T": "INT32_T",
    "SINT64_T": "INT64_T", "UNSIGNED_INT": "UNSIGNED", "F_BOOL": "LOGICAL", "F_INT": "INTEGER",
    "F_FLOAT": "REAL", "F_DOUBLE": "DOUBLE_PRECISION", "F_COMPLEX": "COMPLEX", "F_FLOAT_COMPLEX": "COMPLEX",
    "F_DOUBLE_COMPLEX": "DOUBLE_COMPLEX",
}  # fmt: skip


#: types of Fortran that no compiler here has: null, as with an MPI without them
_ABSENT = ("BFLOAT16_T", "COMPLEX4", "INTEGER16", "LOGICAL16", "REAL2")


class Datatype(DerivedTypes, Packing, Keyed, Named):
    """An MPI datatype: a handle of a predefined one, or of one that the program has made.

    Attributes
    ----------
    code : str
        NumPy's kind and size (``"f8"``), or two of them for a value with its location (``"f8+i4"``); of a
        derived type something that no other type has.
    """

    __slots__ = ("_body", "_constant")
    __module__ = MODULE_NAME
    _attribute_kind = "Datatype"
    _known = names.DATATYPE
    _body: TypeBody

    def __new__(cls, datatype: Datatype | None = None) -> Self:
        """Return a handle of DATATYPE_NULL, or of the datatype given."""
        if datatype is not None and not isinstance(datatype, Datatype):
            raise TypeError(f"datatype: expected a Datatype, got {type(datatype).__name__}")
        return cls._of(_NULL if datatype is None else datatype._body)

    @classmethod
    def _of(cls, body: TypeBody) -> Self:
        self = object.__new__(cls)
        self._constant, self._body = None, body
        return self

    @classmethod
    def _make(cls, constant: str | None, name: str, code: str, char: str) -> Datatype:
        """Make one of the module's own."""
        self = cls._of(_basic_body(constant, name, code, char))
        self._constant = constant
        return self

    @classmethod
    def _predefined(cls, name: str) -> Self:
        """Return a handle of one of the module's own."""
        return cls._of(DATATYPES[name]._body)

    def __repr__(self) -> str:
        return f"labkit.MPI.{self._body.constant or 'Datatype'}"

    def __bool__(self) -> bool:
        return not self._body.is_null

    def __eq__(self, other: object) -> bool:
        return self._body is other._body if isinstance(other, Datatype) else NotImplemented

    __hash__ = None

    def __reduce__(self) -> Any:
        constant = self._body.constant
        if constant is not None:
            return constant if self._constant == constant else (type(self), (DATATYPES[constant],))
        return _datatype_create, (*self.decode(), True)

    def _identity(self) -> Any:
        return id(self._body)

    # --- size and bounds ----------------------------------------------------------------------------

    def Get_size(self) -> int:
        """Bytes of data in one element."""
        return self._valid().map.size

    def Get_extent(self) -> tuple[int, int]:
        """Lower bound and extent, in bytes."""
        kind = self._valid().map
        return kind.lb, kind.extent

    def Get_true_extent(self) -> tuple[int, int]:
        """Where the data begin, and how far it is to their end, in bytes."""
        begin, end = self._valid().map.true_bounds
        return begin, end - begin

    size = property(Get_size, doc="Bytes of data in one element.")
    extent = property(lambda self: self.Get_extent()[1], doc="Bytes from one element to the next.")
    lb = property(lambda self: self._valid().map.lb, doc="Lower bound.")
    ub = property(lambda self: self._valid().map.ub, doc="Upper bound.")
    true_extent = property(lambda self: self.Get_true_extent()[1], doc="Bytes from first to last datum.")
    true_lb = property(lambda self: self.Get_true_extent()[0], doc="Where the data begin.")
    true_ub = property(lambda self: self._valid().map.true_bounds[1], doc="Where the data end.")
    code = property(lambda self: self._body.code, doc="NumPy's kind and size.")
    dtype = property(lambda self: self._body.dtype, doc="NumPy's dtype of a predefined type.")

    # --- names --------------------------------------------------------------------------------------

    def Get_name(self) -> str:
        """MPI's name of the type, or the one that it was given."""
        return self._body.name

    def Set_name(self, name: str) -> None:
        """Name it."""
        self._valid().name = str(name)

    name = property(Get_name, Set_name, doc="MPI's name of the type, or the one that it was given.")

    @property
    def typechar(self) -> str:
        """Character code, as in the array module; "V" where there is none."""
        return self._body.char

    @property
    def typestr(self) -> str:
        """NumPy's type string."""
        if self._body.is_null:
            return ""
        return f"V{self._body.map.extent}" if self._body.char == "V" else self._body.code

    def tocode(self) -> str:
        """Character code or type string that `fromcode` takes."""
        if self._body.char in ("V", ""):
            raise ValueError("cannot map to character code or type string")
        return self._body.char

    @classmethod
    def fromcode(cls, code: str) -> Datatype:
        """Datatype for a character code or a NumPy type string."""
        try:
            return _BY_CODE[code]
        except KeyError:
            raise ValueError(f"cannot map code {code!r} to an MPI datatype") from None

    # --- life ---------------------------------------------------------------------------------------

    def Commit(self) -> Self:
        """Make it ready for messages."""
        self._valid().is_committed = True
        return self

    def Free(self) -> None:
        """Give the handle back; it becomes DATATYPE_NULL. Messages under way keep what they need."""
        body = self._valid()
        if body.constant is not None or body.is_parametrised:
            raise MPIException(_ERR_TYPE, f"{self!r} is predefined and cannot be freed")
        deleted(self)
        self._body = _NULL

    def _kept(self) -> dict[int, Any]:
        """Return the attributes that the program has set."""
        return self._valid().attributes

    def free(self) -> None:
        """Give it back; a handle of a predefined type becomes null, the module's own stays as it is."""
        if self and self._constant is None:
            if self.is_predefined:
                self._body = _NULL
            else:
                self.Free()

    def _valid(self) -> TypeBody:
        """Refuse DATATYPE_NULL."""
        if self._body.is_null:
            raise MPIException(_ERR_TYPE, "this is DATATYPE_NULL, or a datatype that has been freed")
        return self._body


_NULL = TypeBody("DATATYPE_NULL", "MPI_DATATYPE_NULL", "", "")
DATATYPE_NULL = Datatype._of(_NULL)
DATATYPE_NULL._constant = "DATATYPE_NULL"


def _predefined() -> dict[str, Datatype]:
    made: dict[str, Datatype] = {"DATATYPE_NULL": DATATYPE_NULL}
    for row in _TABLE.replace("\n", "|").split("|"):
        if row.strip():
            constant, name, code, char = row.split()
            made[constant] = Datatype._make(constant, f"MPI_{name}", code, char)
    absent = dict.fromkeys(_ABSENT, DATATYPE_NULL)
    return made | {alias: made[name] for alias, name in _ALIASES.items()} | absent


def _basic_body(constant: str | None, name: str, code: str, char: str) -> TypeBody:
    """Return what a predefined type is."""
    parts = [np.dtype(part) for part in (code or "V0").split("+")]
    fields = [("value", parts[0]), ("index", parts[-1])]
    dtype = np.dtype(fields, align=True) if len(parts) == 2 else parts[0]
    places = tuple(dtype.fields[field][1] for field, _ in fields) if dtype.fields else (0,)
    sizes = tuple(part.itemsize for part in parts)
    body = TypeBody(constant, name, code, char)
    body.dtype, body.is_committed = dtype, True
    body.map = Typemap.of_basic(sizes, places, dtype.itemsize, dtype.alignment)
    return body


#: name in the module -> datatype
DATATYPES: dict[str, Datatype] = _predefined()


def _codes() -> dict[str, Datatype]:
    found: dict[str, Datatype] = {}
    for name in (
        *("SIGNED_CHAR", "SHORT", "INT", "LONG", "LONG_LONG", "UNSIGNED_CHAR", "UNSIGNED_SHORT", "UNSIGNED"),
        *(
            "UNSIGNED_LONG",
            "UNSIGNED_LONG_LONG",
            "C_BOOL",
            "FLOAT",
            "DOUBLE",
            "LONG_DOUBLE",
            "FLOAT16_T",
            "CHAR",
        ),
        *("C_FLOAT_COMPLEX", "C_DOUBLE_COMPLEX", "C_LONG_DOUBLE_COMPLEX", "AINT", "WCHAR"),
    ):
        found[DATATYPES[name].typechar] = DATATYPES[name]
    for name in ("INT8_T", "INT16_T", "INT32_T", "INT64_T", "UINT8_T", "UINT16_T", "UINT32_T", "UINT64_T"):
        found[DATATYPES[name].code] = DATATYPES[name]
    for name in ("C_BOOL", "FLOAT16_T", "FLOAT", "DOUBLE", "LONG_DOUBLE"):
        found[DATATYPES[name].code] = DATATYPES[name]
    for name in ("C_FLOAT_COMPLEX", "C_DOUBLE_COMPLEX", "C_LONG_DOUBLE_COMPLEX"):
        found[DATATYPES[name].code] = found["Z" + DATATYPES[name].typechar.lower()] = DATATYPES[name]
    same = {"n": "l", "N": "L", "P": "p", "a": "c", "S": "c", "S1": "c", "s": "c", "1s": "c"}
    found |= {alias: found[char] for alias, char in same.items()}
    found |= dict.fromkeys(("U1", "u", "1u", "w", "1w"), found["U"])
    found |= dict.fromkeys(("M", "M8", "m", "m8"), DATATYPES["INT64_T"])
    return found


_BY_CODE: dict[str, Datatype] = _codes()


def lookup(datatype: Datatype | str) -> Datatype:
    """Return the datatype for a datatype or a code."""
    if isinstance(datatype, Datatype):
        return datatype
    try:
        return _BY_CODE[datatype]
    except KeyError:
        raise KeyError(f"cannot map {datatype!r} to MPI datatype") from None


def find_format(code: str | None) -> Datatype:
    """Return the datatype for a buffer's format."""
    if code is None or code == "B":
        return DATATYPES["BYTE"]
    if code[0] == ">":
        raise BufferError(f"format string {code!r} with non-native byte order")
    return lookup(code[1:] if code[0] in "@<" else code)


def _datatype_create(
    datatype: Datatype, combiner: str, params: dict[str, Any], free: bool = False
) -> Datatype:
    """Make a datatype again from what `Datatype.decode` has said of it; mpi4py has the same function."""
    made: Datatype = getattr(datatype, f"Create_{combiner.lower()}")(**params)
    return made.Commit()


_datatype_create.__module__ = MODULE_NAME
