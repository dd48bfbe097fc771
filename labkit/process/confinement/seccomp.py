"""The kernel's filter of system calls (seccomp, mode 2): once installed, a process cannot take it off.

What is refused fails with EPERM, which Python raises as PermissionError at the line that asked.
`labkit.process.confinement.calls` says what is refused to whom.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from functools import cache
from typing import Any

from labkit.process.confinement.calls import ENOSYS, EPERM, OPENING, PROGRAM_MAY_NOT, RANK_MAY, When

__all__ = ["install", "is_known", "program"]

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
#: numbers of another calling convention of x86_64 begin here
_X32 = 0x40000000
_CLONE3 = 435
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

_Line = tuple[int, int, int, int]


class _Instruction(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_ushort),
        ("jt", ctypes.c_ubyte),
        ("jf", ctypes.c_ubyte),
        ("k", ctypes.c_uint32),
    ]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.POINTER(_Instruction))]


def is_known() -> bool:
    """Whether the numbers of this machine's system calls are known."""
    return sys.platform == "linux" and platform.machine() in _MACHINES and sys.maxsize > 2**32


def _allowed_when(when: When | None) -> list[_Line]:
    """Return what decides a call whose number has been found."""
    if when is None:
        return [(_RETURN, 0, 0, _ALLOW)]
    lines: list[_Line] = []
    if when.is_pointer:  # the high half (little endian)
        lines += [(_LOAD, 0, 0, 20 + 8 * when.argument), (_EQUAL, 1, 0, 0), (_RETURN, 0, 0, _ERROR | EPERM)]
    lines += [(_LOAD, 0, 0, 16 + 8 * when.argument), (_AND, 0, 0, when.mask)]
    if not when.values:
        return [*lines, (_EQUAL, 0, 1, 0), (_RETURN, 0, 0, _ERROR | EPERM), (_RETURN, 0, 0, _ALLOW)]
    for value in when.values:
        lines += [(_EQUAL, 0, 1, value), (_RETURN, 0, 0, _ALLOW)]
    return [*lines, (_RETURN, 0, 0, _ERROR | EPERM)]


def _instructions(policy: str) -> list[_Line]:
    column, architecture = _MACHINES[platform.machine()]
    lines: list[_Line] = [
        (_LOAD, 0, 0, 4),  # seccomp_data.arch
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),  # seccomp_data.nr
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _ERROR | EPERM),
    ]

    def add(number: int | None, decision: list[_Line]) -> None:
        if number is not None:
            lines.extend([(_EQUAL, 0, len(decision), number), *decision])

    if policy == "program":
        add(_CLONE3, [(_RETURN, 0, 0, _ERROR | ENOSYS)])  # whose flags no filter sees: callers use clone
        for numbers, when in PROGRAM_MAY_NOT.values():
            add(numbers[column], [(_RETURN, 0, 0, _ERROR | EPERM)] if when is None else _allowed_when(when))
        return [*lines, (_RETURN, 0, 0, _ALLOW)]
    for numbers, when in {**RANK_MAY, **(OPENING if policy == "reading rank" else {})}.values():
        add(numbers[column], _allowed_when(when))
    return [*lines, (_RETURN, 0, 0, _ERROR | EPERM)]


@cache
def program(policy: str) -> Any:
    """Return the filter as the kernel takes it; made once, before ranks are forked."""
    lines = _instructions(policy)
    code = (_Instruction * len(lines))(*(_Instruction(*line) for line in lines))
    return _Program(len(lines), code)


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def install(policy: str) -> None:
    """Refuse this process what a policy does not allow, for good.

    Parameters
    ----------
    policy : str
        ``"rank"``, ``"reading rank"`` (files may be opened for reading, where something else says which) or
        ``"program"``.

    Raises
    ------
    OSError
        The kernel does not take the filter, or this kind of machine is not known.
    """
    if not is_known():
        raise OSError(f"no list of system calls for {sys.platform} on {platform.machine()}")
    libc = _libc()
    filter_ = program(policy)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    if libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(filter_), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
