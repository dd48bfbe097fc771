"""A list of the system calls that a submission's process may make; every other one is refused.

The filter is the kernel's own (seccomp, mode 2): once installed, a process cannot take it off. What is not
listed fails with EPERM, which Python raises as PermissionError at the line that asked: sockets, processes,
threads, signals to others, shared memory, file locks and files opened for writing.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from functools import cache
from typing import Any

__all__ = ["ALLOWED", "install", "is_known", "program"]

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000 | 1, 0x80000000
_LOAD, _JUMP_EQUAL, _JUMP_SET, _RETURN = 0x20, 0x15, 0x45, 0x06
#: O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_APPEND
_WRITING = 0o1 | 0o2 | 0o100 | 0o1000 | 0o2000

#: call -> (number on x86_64, number on aarch64); None: does not exist there
ALLOWED: dict[str, tuple[int | None, int | None]] = {
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "fstat": (5, 80), "lseek": (8, 62),
    "pread64": (17, 67), "readv": (19, 65), "writev": (20, 66), "dup": (32, 23),
    "stat": (4, None), "lstat": (6, None), "newfstatat": (262, 79), "access": (21, None),
    "faccessat": (269, 48), "faccessat2": (439, 439), "readlink": (89, None), "readlinkat": (267, 78),
    "getcwd": (79, 17), "getdents64": (217, 61),
    "mmap": (9, 222), "mprotect": (10, 226), "munmap": (11, 215), "brk": (12, 214), "mremap": (25, 216),
    "madvise": (28, 233), "futex": (202, 98),
    "poll": (7, None), "ppoll": (271, 73), "select": (23, None), "pselect6": (270, 72),
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132), "restart_syscall": (219, 128),
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "gettimeofday": (96, 169), "time": (201, None),
    "times": (100, 153), "getrusage": (98, 165), "getrandom": (318, 278), "uname": (63, 160),
    "sched_yield": (24, 124), "sched_getaffinity": (204, 123),
    "getpid": (39, 172), "gettid": (186, 178), "getppid": (110, 173),
    "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177),
    "exit": (60, 93), "exit_group": (231, 94),
}  # fmt: skip
_OPENAT = (257, 56)
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}


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


def _instructions(may_open: bool) -> list[tuple[int, int, int, int]]:
    column, architecture = _MACHINES[platform.machine()]
    lines = [
        (_LOAD, 0, 0, 4),  # seccomp_data.arch
        (_JUMP_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),  # seccomp_data.nr
    ]
    if may_open:
        lines += [
            (_JUMP_EQUAL, 0, 4, _OPENAT[column]),
            (_LOAD, 0, 0, 16 + 8 * 2),  # the low half of openat's flags (little endian)
            (_JUMP_SET, 1, 0, _WRITING),
            (_RETURN, 0, 0, _ALLOW),
            (_RETURN, 0, 0, _REFUSE),
        ]
    for numbers in ALLOWED.values():
        number = numbers[column]
        if number is not None:
            lines += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
    return [*lines, (_RETURN, 0, 0, _REFUSE)]


@cache
def program(may_open: bool) -> Any:
    """Return the filter as the kernel takes it; made once, before ranks are forked."""
    lines = _instructions(may_open)
    code = (_Instruction * len(lines))(*(_Instruction(*line) for line in lines))
    return _Program(len(lines), code)


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def install(may_open: bool) -> None:
    """Refuse this process every system call that is not listed, for good.

    Parameters
    ----------
    may_open : bool
        Whether files may be opened for reading (where something else says which).

    Raises
    ------
    OSError
        The kernel does not take the filter, or this kind of machine is not known.
    """
    if not is_known():
        raise OSError(f"no list of system calls for {sys.platform} on {platform.machine()}")
    libc = _libc()
    filter_ = program(may_open)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    if libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(filter_), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
