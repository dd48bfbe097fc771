"""Namespaces of a confined process: its own view of files, network, messages between processes, process ids.

In its own view every file system is read only, so nothing leaves a trace in it, access times included; what
shows other processes (/proc, /sys) and what others wait behind (/dev/shm, sockets) is covered. Folders
that only root may enter are covered too, with what Python needs in them bound in their place: who was root
can then go on as nobody. All of this needs root, or a user namespace, which some systems refuse.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
import sys
from collections.abc import Iterable
from functools import cache

__all__ = ["close_view", "hide_clock", "leave_namespaces", "open_ways", "own_memory", "own_processes"]


_NEW = {
    "mount": 0x20000,
    "host name": 0x04000000,
    "ipc": 0x08000000,
    "network": 0x40000000,
    "process": 0x20000000,
}
_NEWUSER = 0x10000000
_BIND, _REC, _PRIVATE, _NOSUID, _NODEV = 4096, 16384, 1 << 18, 2, 4
_SET_ATTRIBUTES, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_READ_ONLY = 1


class _Attributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "user")]


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def leave_namespaces(names: Iterable[str]) -> list[str]:
    """Get its own namespaces, where that is allowed; those that were granted.

    A namespace of process ids begins with the next process that is forked.
    """
    if sys.platform != "linux":
        return []
    libc = _libc()
    user, group = os.geteuid(), os.getegid()
    if user != 0:
        if libc.unshare(_NEWUSER) != 0:
            return []
        with contextlib.suppress(OSError):
            for name, text in (
                ("setgroups", "deny"),
                ("uid_map", f"{user} {user} 1"),
                ("gid_map", f"{group} {group} 1"),
            ):
                with open(f"/proc/self/{name}", "w") as file:
                    file.write(text)
    granted = [name for name in names if libc.unshare(_NEW[name]) == 0]
    if "mount" in granted:
        try:
            _mount(None, "/", None, _REC | _PRIVATE)
        except OSError:
            granted.remove("mount")
    return granted


def open_ways(paths: Iterable[str]) -> None:
    """Make paths reachable for all users in this view: closed folders above them are covered."""
    closed: dict[str, list[str]] = {}
    for path in paths:
        folder = _closed_above(path)
        if folder is not None:
            closed.setdefault(folder, []).append(path)
    for folder, inside in closed.items():
        # the innermost first would cover what comes later
        wanted = sorted(path for path in inside if not any(_is_beneath(path, one) for one in inside))
        handles = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in wanted]
        _mount("tmpfs", folder, "tmpfs", _NOSUID | _NODEV, "mode=755,size=1m")
        for path, handle in handles:
            is_folder = os.path.isdir(f"/proc/self/fd/{handle}")
            os.makedirs(path if is_folder else os.path.dirname(path), exist_ok=True)
            if not is_folder:
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
            _mount(f"/proc/self/fd/{handle}", path, None, _BIND | _REC)
            os.close(handle)


def _is_beneath(path: str, other: str) -> bool:
    return path != other and path.startswith(other.rstrip(os.sep) + os.sep)


def _closed_above(path: str) -> str | None:
    """Return the outermost folder above a path that some users may not enter."""
    way, found = os.path.dirname(os.path.realpath(path)), None
    while way != os.sep:
        if not os.stat(way).st_mode & 0o001:
            found = way
        way = os.path.dirname(way)
    return found


def close_view(writable: Iterable[str] = (), covered: Iterable[str] = ()) -> None:
    """Make every file system read only but these folders, and cover others by empty ones."""
    kept = [os.path.realpath(folder) for folder in writable]
    for folder in kept:
        _mount(folder, folder, None, _BIND)
    for folder in covered:
        if os.path.isdir(folder) and not os.path.islink(folder):
            # a folder that is to be written in may lie beneath
            if any(_is_beneath(one, os.path.realpath(folder)) for one in kept):
                continue
            _mount("tmpfs", folder, "tmpfs", _NOSUID | _NODEV, "mode=755,size=64k")
    _set_attributes("/", _Attributes(set=_READ_ONLY | _NOSUID), _AT_RECURSIVE)
    for folder in kept:
        _set_attributes(folder, _Attributes(clear=_READ_ONLY), 0)


def own_processes() -> bool:
    """Show only the processes of this namespace in /proc; whether the system lets."""
    try:
        _mount("proc", "/proc", "proc", _NOSUID | _NODEV)
    except OSError:
        return False
    return True


def own_memory(folder: str) -> None:
    """Put an empty file system in memory in the place of a folder, for all users to write in."""
    if os.path.isdir(folder):
        _mount("tmpfs", folder, "tmpfs", _NOSUID | _NODEV, "mode=1777,size=256m")


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind, options)]
    if _libc().mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def _set_attributes(path: str, attributes: _Attributes, flags: int) -> None:
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    done = _libc().syscall(
        ctypes.c_long(_SET_ATTRIBUTES),
        ctypes.c_int(_AT_FDCWD),
        os.fsencode(path),
        ctypes.c_uint(flags),
        ctypes.byref(attributes),
        size,
    )
    if done != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)


# The machine's clocks, hidden from a process: without them it cannot measure how busy other processes are.
#
# Reading a clock needs no system call on Linux: the kernel maps code (vDSO) and data into every process. Here
# the code is replaced by the system calls that it stands for, which a filter then refuses, and the data is
# unmapped. What this process forks inherits that. The processor's own counter is closed apart, by
# `labkit.process.confinement.containment.close_clock`: some libraries read it while they are loaded.


_AT_SYSINFO_EHDR = 33
_READ, _WRITE, _EXECUTE = 1, 2, 4
_DYNAMIC, _STRINGS, _SYMBOLS = 2, 5, 6
#: function of the vDSO -> system call on x86_64; None: it says that it does not exist
_CALLS = {
    b"clock_gettime": 228,
    b"clock_getres": 229,
    b"gettimeofday": 96,
    b"time": 201,
    b"getcpu": 309,
    b"getrandom": None,
}


def hide_clock() -> bool:
    """Take the clocks away from this process and all that it forks; whether that is possible here.

    The system calls themselves stay: a filter has to refuse them.
    """
    if sys.platform != "linux" or platform.machine() != "x86_64" or sys.maxsize < 2**32:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    libc.getauxval.restype = ctypes.c_ulong
    base = libc.getauxval(ctypes.c_ulong(_AT_SYSINFO_EHDR))
    try:
        if base and not (_replace(libc, base) and _unmap_data(libc)):
            return False
    except (OSError, ValueError, struct.error):
        return False
    return True


def _mapped(name: str) -> list[tuple[int, int]]:
    """Return the ranges of addresses of this process's mappings whose names begin so."""
    found = []
    with open("/proc/self/maps", encoding="utf-8") as file:
        for line in file:
            words = line.split(None, 5)
            if len(words) == 6 and words[5].startswith(name):
                begin, end = words[0].split("-")
                found.append((int(begin, 16), int(end, 16)))
    return found


def _replace(libc: ctypes.CDLL, base: int) -> bool:
    ((begin, end),) = _mapped("[vdso]")
    if begin != base:
        return False
    length = ctypes.c_size_t(end - begin)
    if libc.mprotect(ctypes.c_void_p(begin), length, _READ | _WRITE | _EXECUTE) != 0:
        return False
    image = (ctypes.c_ubyte * (end - begin)).from_address(begin)
    places = _functions(bytes(image))
    for name, offset in places.items():
        number = _CALLS[name]
        # mov eax, number; syscall; ret; or: mov eax, -ENOSYS; ret
        stub = struct.pack("<BI", 0xB8, number) + b"\x0f\x05\xc3" if number else b"\xb8\xda\xff\xff\xff\xc3"
        image[offset : offset + len(stub)] = list(stub)
    libc.mprotect(ctypes.c_void_p(begin), length, _READ | _EXECUTE)
    return {b"clock_gettime", b"gettimeofday", b"time"} <= places.keys()


def _functions(image: bytes) -> dict[bytes, int]:
    """Return where the functions begin in a vDSO, from its ELF tables."""
    (headers,), (size, count) = struct.unpack_from("<Q", image, 32), struct.unpack_from("<HH", image, 54)
    tables: dict[int, int] = {}
    for nth in range(count):
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", image, headers + nth * size)
        if kind == _DYNAMIC:
            tables.update(struct.iter_unpack("<QQ", image[offset : offset + length]))
    strings, symbols = tables[_STRINGS], tables[_SYMBOLS]
    found: dict[bytes, int] = {}
    # The kernel's linker puts the strings behind the symbols; there may be no other count of them.
    for place in range(symbols, strings - 23, 24):
        name, _, _, section, value, _ = struct.unpack_from("<IBBHQQ", image, place)
        text = image[strings + name : image.index(b"\0", strings + name)].removeprefix(b"__vdso_")
        if section and text in _CALLS and value + 8 <= len(image):
            found[text] = value
    return found


def _unmap_data(libc: ctypes.CDLL) -> bool:
    """Unmap the pages that the clock's code reads: they hold the time of the last tick."""
    for begin, end in _mapped("[vvar"):
        if libc.munmap(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin)) != 0:
            return False
    return not _mapped("[vvar")
