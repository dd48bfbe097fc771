"""Fortran's types by precision, class or size, and pairs: the names of the types that there are."""

from __future__ import annotations

from labkit.comm.handles.constants import CONSTANTS
from labkit.comm.handles.exceptions import Exception as MPIException

__all__ = ["complex_for", "integer_for", "matching", "real_for", "value_index"]

_ERR_ARG = 13
#: decimal digits that an integer of a type has
_INTEGERS = ((2, "INTEGER1"), (4, "INTEGER2"), (9, "INTEGER4"), (18, "INTEGER8"))
#: decimal digits and range of exponents of a real
_REALS = ((6, 37, "REAL4"), (15, 307, "REAL8"), (18, 4931, "REAL16"))
_COMPLEX = {"REAL4": "COMPLEX8", "REAL8": "COMPLEX16", "REAL16": "COMPLEX32"}
_MATCHES = {
    "INTEGER": {1: "INTEGER1", 2: "INTEGER2", 4: "INTEGER", 8: "INTEGER8"},
    "REAL": {4: "REAL", 8: "REAL8", 16: "REAL16"},
    "COMPLEX": {8: "COMPLEX", 16: "COMPLEX16", 32: "COMPLEX32"},
    "LOGICAL": {1: "LOGICAL1", 2: "LOGICAL2", 4: "LOGICAL", 8: "LOGICAL8"},
}


def integer_for(digits: int) -> str:
    """Return the smallest integer of so many digits; ERR_ARG where there is none."""
    for most, name in _INTEGERS:
        if digits <= most:
            return name
    raise MPIException(_ERR_ARG, f"no integer has {digits} decimal digits; the longest has 18")


def real_for(digits: int, exponents: int) -> str:
    """Return the smallest real of a precision and range; ERR_ARG where there is none."""
    for most, widest, name in _REALS:
        if digits <= most and exponents <= widest:
            return name
    raise MPIException(_ERR_ARG, f"no real has {digits} digits and exponents to {exponents}")


def complex_for(digits: int, exponents: int) -> str:
    """Return the smallest complex number of a precision and range."""
    return _COMPLEX[real_for(digits, exponents)]


def matching(typeclass: int, size: int) -> str:
    """Return the type of a class with so many bytes; ERR_ARG where there is none."""
    for name, sizes in _MATCHES.items():
        if typeclass == CONSTANTS[f"TYPECLASS_{name}"] and size in sizes:
            return sizes[size]
    raise MPIException(_ERR_ARG, f"no type of class {typeclass} has {size} bytes")


def value_index(value: str | None, index: str | None) -> str:
    """Return the pair of two types; DATATYPE_NULL where MPI has none."""
    pairs = {"FLOAT": "FLOAT_INT", "DOUBLE": "DOUBLE_INT", "LONG": "LONG_INT", "INT": "TWOINT"}
    pairs |= {"SHORT": "SHORT_INT", "LONG_DOUBLE": "LONG_DOUBLE_INT"}
    return pairs.get(value or "", "DATATYPE_NULL") if index == "INT" else "DATATYPE_NULL"
