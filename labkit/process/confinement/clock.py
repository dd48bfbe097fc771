"""The machine's clocks, hidden from a process: without them it cannot measure how busy other processes are.

Reading a clock needs no system call on Linux: the kernel maps code (vDSO) and data into every process. Here
the code is replaced by the system calls that it stands for, which a filter then refuses, and the data is
unmapped. What this process forks inherits that. The processor's own counter is closed apart, by
`labkit.process.confinement.containment.close_clock`: some libraries read it while they are loaded.
"""

from __future__ import annotations

import ctypes
import platform
import struct
import sys

__all__ = ["hide_clock"]

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
