"""Calls about error classes, codes and strings."""

from __future__ import annotations

from typing import Any

from labkit.comm.handles.constants import ERROR_TEXTS
from labkit.comm.handles.errorcodes import class_of, codes_in_use, text_of
from labkit.comm.handles.exceptions import Exception as MPIException

__all__ = ["ERROR_FUNCTIONS"]

_ERR_ARG = 13


def Get_error_class(errorcode: int) -> int:
    """Error class of an error code."""
    return class_of(_checked(errorcode))


def Get_error_string(errorcode: int) -> str:
    """MPI's words for an error code, or the program's own."""
    return text_of(_checked(errorcode))


def _checked(errorcode: int) -> int:
    code = int(errorcode)
    if code < 0:
        raise MPIException(_ERR_ARG, f"errorcode={code} is negative")
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
    """Give an added class or code its words."""
    codes_in_use().texts[_added(errorcode)] = str(string)


def Remove_error_class(errorclass: int) -> None:
    """Take an added class away; it must have no codes and no words any more."""
    number, codes = _added(errorclass), codes_in_use()
    if not codes.is_class(number) or codes.is_used(number):
        raise MPIException(_ERR_ARG, f"{number} is no error class, or has codes or a string still")
    del codes.classes[number]


def Remove_error_code(errorcode: int) -> None:
    """Take an added code away; it must have no words any more."""
    number, codes = _added(errorcode), codes_in_use()
    if codes.is_class(number) or number in codes.texts:
        raise MPIException(_ERR_ARG, f"{number} is an error class, or has a string still")
    del codes.classes[number]


def Remove_error_string(errorcode: int) -> None:
    """Take the words of an added class or code away."""
    number, codes = _added(errorcode), codes_in_use()
    if number not in codes.texts:
        raise MPIException(_ERR_ARG, f"error code {number} has no string")
    del codes.texts[number]


def _added(number: int) -> int:
    if int(number) not in codes_in_use().classes:
        raise MPIException(
            _ERR_ARG, f"{number} is none of the error classes and codes that this rank has added"
        )
    return int(number)


#: name in the module -> function
ERROR_FUNCTIONS: dict[str, Any] = {
    function.__name__: function
    for function in (
        *(Get_error_class, Get_error_string, Add_error_class, Add_error_code, Add_error_string),
        *(Remove_error_class, Remove_error_code, Remove_error_string),
    )
}
