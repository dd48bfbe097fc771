"""Datatypes: MPI's predefined ones, and how buffers are recognised as one of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from labkit.comm import names
from labkit.comm.handles.base import MODULE_NAME, Named
from labkit.errors import UnsupportedError

__all__ = ["DATATYPES", "DATATYPE_NULL", "Datatype", "find_format", "lookup"]

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
COMPLEX16 COMPLEX16 c16 D | FLOAT16_T SHORT_FLOAT f2 e
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


class Datatype(Named):
    """An MPI datatype; the predefined ones are simulated.

    Attributes
    ----------
    code : str
        NumPy's kind and size (``"f8"``), or two of them for a value with its location (``"f8+i4"``).
    """

    __slots__ = ("_char", "_constant", "_name", "code", "dtype")
    __module__ = MODULE_NAME
    _known = names.DATATYPE
    _char: str
    _name: str
    code: str
    dtype: np.dtype[Any]

    def __new__(cls, datatype: Datatype | None = None) -> Datatype:
        """Return DATATYPE_NULL, or the datatype given."""
        if datatype is None:
            return DATATYPE_NULL
        if not isinstance(datatype, Datatype):
            raise TypeError(f"datatype: expected a Datatype, got {type(datatype).__name__}")
        return datatype

    @classmethod
    def _make(cls, constant: str | None, name: str, code: str, char: str) -> Datatype:
        self = object.__new__(cls)
        self._constant, self._name, self.code, self._char = constant, name, code, char
        parts = code.split("+")
        value_index = [("value", parts[0]), ("index", parts[-1])]
        self.dtype = np.dtype(value_index, align=True) if len(parts) == 2 else np.dtype(code or "V0")
        return self

    def __repr__(self) -> str:
        return f"labkit.MPI.{self._constant or 'Datatype'}"

    def __bool__(self) -> bool:
        return self is not DATATYPE_NULL

    def Get_size(self) -> int:
        """Bytes of data in one element."""
        if len(self.code.split("+")) == 2:
            return sum(np.dtype(part).itemsize for part in self.code.split("+"))
        return self.dtype.itemsize

    def Get_extent(self) -> tuple[int, int]:
        """Lower bound and extent, in bytes."""
        return 0, self.dtype.itemsize

    def Get_name(self) -> str:
        """MPI's name of the type."""
        return self._name

    size = property(Get_size, doc="Bytes of data in one element.")
    name = property(Get_name, doc="MPI's name of the type.")

    @property
    def extent(self) -> int:
        """Bytes from one element to the next."""
        return self.dtype.itemsize

    lb = property(lambda self: 0, doc="Lower bound.")
    ub = property(lambda self: self.dtype.itemsize, doc="Upper bound.")
    is_predefined = property(lambda self: True, doc="Whether MPI defines it.")
    is_named = property(lambda self: True, doc="Whether it has a name of its own.")
    combiner = property(lambda self: 0, doc="COMBINER_NAMED.")

    @property
    def typechar(self) -> str:
        """Character code, as in the array module; "V" for a value with its location."""
        return self._char

    @property
    def typestr(self) -> str:
        """NumPy's type string."""
        return f"V{self.dtype.itemsize}" if self._char == "V" else self.code

    def tocode(self) -> str:
        """Character code or type string that `fromcode` takes."""
        if self._char == "V" or not self._char:
            raise ValueError("cannot map to character code or type string")
        return self._char

    @classmethod
    def fromcode(cls, code: str) -> Datatype:
        """Datatype for a character code or a NumPy type string."""
        try:
            return _BY_CODE[code]
        except KeyError:
            raise ValueError(f"cannot map code {code!r} to an MPI datatype") from None

    def Commit(self) -> Datatype:
        """Nothing to do for a predefined type."""
        return self

    def Dup(self) -> Datatype:
        """Refuse: derived types are not simulated yet."""
        raise UnsupportedError("MPI.Datatype.Dup makes a derived datatype; those are not simulated yet")


DATATYPE_NULL = Datatype._make("DATATYPE_NULL", "MPI_DATATYPE_NULL", "", "")


def _predefined() -> dict[str, Datatype]:
    made: dict[str, Datatype] = {"DATATYPE_NULL": DATATYPE_NULL}
    for row in _TABLE.replace("\n", "|").split("|"):
        if row.strip():
            constant, name, code, char = row.split()
            made[constant] = Datatype._make(constant, f"MPI_{name}", code, char)
    return made | {alias: made[name] for alias, name in _ALIASES.items()}


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
    """Return the datatype for a datatype or a code.

    Raises
    ------
    KeyError
        If no datatype belongs to the code.
    """
    if isinstance(datatype, Datatype):
        return datatype
    try:
        return _BY_CODE[datatype]
    except KeyError:
        raise KeyError(f"cannot map {datatype!r} to MPI datatype") from None


def find_format(code: str | None) -> Datatype:
    """Return the datatype for a buffer's format.

    Raises
    ------
    KeyError
        If MPI has none, for example for Python objects (``"O"``) or records.
    BufferError
        If the byte order is not the machine's.
    """
    if code is None or code == "B":
        return DATATYPES["BYTE"]
    if code[0] == ">":
        raise BufferError(f"format string {code!r} with non-native byte order")
    return lookup(code[1:] if code[0] in "@<=" else code)
