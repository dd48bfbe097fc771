"""A heap that keeps what simulated ranks free, while their code is being measured.

The ranks of a simulation share one heap. glibc gives the free end of a heap back to the system as soon as it
is large, in the code of whichever rank frees the last piece: that rank alone would pay for the pages that all
of them have filled (5 to 8 ms for 256 MB, where each of 32 ranks computes for 20 ms), as no process of a real
machine does. So nothing is given back while ranks are measured; afterwards all of it is, in nobody's time. An
array so large that it is mapped alone is still given back by the rank that drops it.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator

__all__ = ["kept_heap"]

#: glibc's names for `mallopt`
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_NEVER = -1
#: bytes from which on a piece is mapped alone. glibc raises the limit up to here by itself, as a program
#: frees larger and larger pieces, until `mallopt` is called for the first time.
_MAPPED_ALONE = 4 * 1024 * 1024 * ctypes.sizeof(ctypes.c_long)

_holders = 0


@contextlib.contextmanager
def kept_heap() -> Iterator[None]:
    """Keep what is freed inside; does nothing where the C library is not glibc."""
    global _holders
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):
        yield
        return
    _holders += 1
    libc.mallopt(_MMAP_THRESHOLD, _MAPPED_ALONE)
    libc.mallopt(_TRIM_THRESHOLD, _NEVER)
    try:
        yield
    finally:
        _holders -= 1
        if not _holders:
            libc.mallopt(_TRIM_THRESHOLD, 2 * _MAPPED_ALONE)  # where glibc's own adaption ends, too
            libc.malloc_trim(0)
