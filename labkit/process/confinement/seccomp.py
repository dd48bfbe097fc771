"""The kernel's filter of system calls (seccomp, mode 2): once installed, a process cannot take it off.

What is refused fails with EPERM, which Python raises as PermissionError at the line that asked.
`labkit.process.confinement.seccomp` says what is refused to whom.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from dataclasses import dataclass
from functools import cache

__all__ = ["install_filter", "is_known", "program"]


EPERM, ENOSYS = 1, 38
#: O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_APPEND
_WRITING = 0o1 | 0o2 | 0o100 | 0o1000 | 0o2000
_NAMESPACES = 0x7E020000
_MSG_FASTOPEN = 0x20000000

#: number on x86_64, number on aarch64; None: does not exist there
Numbers = tuple[int | None, int | None]


@dataclass(frozen=True)
class When:
    """A condition on an argument under which a call is allowed.

    `argument`: Which one, from 0 on.
    `mask`: The bits of its low half that count.
    `values`: One of which they must have; empty: any but 0.
    `is_pointer`: Both halves count: it must be NULL.
    """

    argument: int
    mask: int
    values: tuple[int, ...] = (0,)
    is_pointer: bool = False


_ALL = 0xFFFFFFFF
_SHARED = When(3, 0x01)  # MAP_SHARED, MAP_SHARED_VALIDATE
_PRIVATE = When(1, 128, ())  # FUTEX_PRIVATE_FLAG
#: MADV_DONTNEED, MADV_FREE, MADV_HUGEPAGE, MADV_NOHUGEPAGE: of memory allocators, on their own pages
_ADVICE = When(2, _ALL, (4, 8, 14, 15))

#: paths: what is needed to import, and shows names and sizes
OPENING: dict[str, tuple[Numbers, When | None]] = {
    "openat": ((257, 56), When(2, _WRITING)),
    "stat": ((4, None), None),
    "lstat": ((6, None), None),
    "newfstatat": ((262, 79), None),
    "access": ((21, None), None),
    "faccessat": ((269, 48), None),
    "faccessat2": ((439, 439), None),
    "readlink": ((89, None), None),
    "readlinkat": ((267, 78), None),
    "getdents64": ((217, 61), None),
    "getcwd": ((79, 17), None),
}

RANK_MAY: dict[str, tuple[Numbers, When | None]] = {
    "read": ((0, 63), None), "write": ((1, 64), None), "close": ((3, 57), None), "fstat": ((5, 80), None),
    "lseek": ((8, 62), None), "pread64": ((17, 67), None), "readv": ((19, 65), None),
    "writev": ((20, 66), None), "dup": ((32, 23), None),
    "mmap": ((9, 222), _SHARED), "mprotect": ((10, 226), None), "munmap": ((11, 215), None),
    "brk": ((12, 214), None), "mremap": ((25, 216), None), "madvise": ((28, 233), _ADVICE),
    "futex": ((202, 98), _PRIVATE),
    "rt_sigaction": ((13, 134), None), "rt_sigprocmask": ((14, 135), None),
    "rt_sigreturn": ((15, 139), None), "sigaltstack": ((131, 132), None),
    "restart_syscall": ((219, 128), None),
    "getrandom": ((318, 278), None), "uname": ((63, 160), None), "sched_yield": ((24, 124), None),
    "sched_getaffinity": ((204, 123), None),
    "getpid": ((39, 172), None), "gettid": ((186, 178), None), "getppid": ((110, 173), None),
    "getuid": ((102, 174), None), "geteuid": ((107, 175), None), "getgid": ((104, 176), None),
    "getegid": ((108, 177), None),
    "exit": ((60, 93), None), "exit_group": ((231, 94), None),
}  # fmt: skip

_OWN = When(0, _ALL)  # of this process only: pid 0

#: None: never; a condition: only then
PROGRAM_MAY_NOT: dict[str, tuple[Numbers, When | None]] = {
    # what is written in addition to a file's content
    "chmod": ((90, None), None), "fchmod": ((91, 52), None), "fchmodat": ((268, 53), None),
    "fchmodat2": ((452, 452), None), "chown": ((92, None), None), "lchown": ((94, None), None),
    "fchown": ((93, 55), None), "fchownat": ((260, 54), None), "utime": ((132, None), None),
    "utimes": ((235, None), None), "futimesat": ((261, None), None), "utimensat": ((280, 88), None),
    "setxattr": ((188, 5), None), "lsetxattr": ((189, 6), None), "fsetxattr": ((190, 7), None),
    "removexattr": ((197, 14), None), "lremovexattr": ((198, 15), None), "fremovexattr": ((199, 16), None),
    "setxattrat": ((463, 463), None), "removexattrat": ((466, 466), None),
    "file_setattr": ((469, 469), None),
    # others to talk to; its own pairs stay, as long as they cannot be pointed elsewhere
    "socket": ((41, 198), When(1, 0xF, (1,))), "connect": ((42, 203), None), "bind": ((49, 200), None),
    "listen": ((50, 201), None), "accept": ((43, 202), None), "accept4": ((288, 242), None),
    "socketpair": ((53, 199), When(1, 0xF, (1, 5))), "sendmmsg": ((307, 269), None),
    "sendto": ((44, 206), When(4, _ALL, (0,), is_pointer=True)),
    "sendmsg": ((46, 211), When(2, _MSG_FASTOPEN)),
    "shmget": ((29, 194), None), "shmat": ((30, 196), None), "shmctl": ((31, 195), None),
    "semget": ((64, 190), None), "semop": ((65, 193), None), "semctl": ((66, 191), None),
    "msgget": ((68, 186), None), "msgsnd": ((69, 189), None), "msgrcv": ((70, 188), None),
    "msgctl": ((71, 187), None), "mq_open": ((240, 180), None), "mq_unlink": ((241, 181), None),
    # other processes
    "setpriority": ((141, 140), None), "ioprio_set": ((251, 30), None), "prlimit64": ((302, 261), _OWN),
    "sched_setparam": ((142, 118), None), "sched_setscheduler": ((144, 119), None),
    "sched_setattr": ((314, 274), None), "sched_setaffinity": ((203, 122), _OWN),
    "ptrace": ((101, 117), None), "process_vm_readv": ((310, 270), None),
    "process_vm_writev": ((311, 271), None), "pidfd_getfd": ((438, 438), None),
    "process_madvise": ((440, 440), None), "process_mrelease": ((448, 448), None),
    "kcmp": ((312, 272), None), "move_pages": ((279, 239), None), "migrate_pages": ((256, 238), None),
    # the machine
    "clock_settime": ((227, 112), None), "settimeofday": ((164, 170), None),
    "adjtimex": ((159, 171), None), "clock_adjtime": ((305, 266), None),
    "mount": ((165, 40), None), "umount2": ((166, 39), None), "pivot_root": ((155, 41), None),
    "chroot": ((161, 51), None), "unshare": ((272, 97), None), "setns": ((308, 268), None),
    "clone": ((56, 220), When(0, _NAMESPACES)), "open_tree": ((428, 428), None),
    "move_mount": ((429, 429), None), "fsopen": ((430, 430), None), "fsconfig": ((431, 431), None),
    "fsmount": ((432, 432), None), "fspick": ((433, 433), None), "mount_setattr": ((442, 442), None),
    "keyctl": ((250, 219), None), "add_key": ((248, 217), None), "request_key": ((249, 218), None),
    "bpf": ((321, 280), None), "perf_event_open": ((298, 241), None), "io_uring_setup": ((425, 425), None),
    "io_uring_enter": ((426, 426), None), "io_uring_register": ((427, 427), None),
    "userfaultfd": ((323, 282), None), "kexec_load": ((246, 104), None),
    "kexec_file_load": ((320, 294), None), "init_module": ((175, 105), None),
    "finit_module": ((313, 273), None), "delete_module": ((176, 106), None), "reboot": ((169, 142), None),
    "swapon": ((167, 224), None), "swapoff": ((168, 225), None), "sethostname": ((170, 161), None),
    "setdomainname": ((171, 162), None), "open_by_handle_at": ((304, 265), None),
    "quotactl": ((179, 60), None), "acct": ((163, 89), None), "syslog": ((103, 116), None),
    "vhangup": ((153, 58), None), "iopl": ((172, None), None), "ioperm": ((173, None), None),
    "fanotify_init": ((300, 262), None), "personality": ((135, 92), None),
    # other users; who was root is not any more
    "setuid": ((105, 146), None), "setgid": ((106, 144), None), "setreuid": ((113, 145), None),
    "setregid": ((114, 143), None), "setresuid": ((117, 147), None), "setresgid": ((119, 149), None),
    "setgroups": ((116, 159), None), "setfsuid": ((122, 151), None), "setfsgid": ((123, 152), None),
    "capset": ((126, 91), None),
}  # fmt: skip


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
def program(policy: str) -> _Program:
    """Return the filter as the kernel takes it; made once, before ranks are forked."""
    lines = _instructions(policy)
    code = (_Instruction * len(lines))(*(_Instruction(*line) for line in lines))
    return _Program(len(lines), code)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def install_filter(policy: str) -> None:
    """Refuse this process what a policy does not allow, for good."""
    if not is_known():
        raise OSError(f"no list of system calls for {sys.platform} on {platform.machine()}")
    libc = _libc()
    filter_ = program(policy)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    if libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(filter_), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
