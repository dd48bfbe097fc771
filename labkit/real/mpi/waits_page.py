"""The page on which a real rank notes its blocking calls, by the library of `labkit.real.mpi.waits_library`.

What reads it is `labkit.real.mpi.waits`.
"""

from __future__ import annotations

import ctypes

__all__ = [
    "BUFFERED",
    "CALLS",
    "FINISHED",
    "HISTORY",
    "MAGIC",
    "NOTE_WAITS",
    "OVERFLOW",
    "THREADS",
    "WAITED",
    "CommRow",
    "Entry",
    "Page",
    "PageHead",
]

#: the file in a launch's folder that asks its ranks to note what they wait for, where the header does not
NOTE_WAITS = "waits"
#: as in kernels/waits/page.hpp
MAGIC = 0x31746177_6B62616C
WAITED, _COMMS, _MEMBERS, _REQUESTS, CALLS, _NAME, HISTORY = 32, 64, 1 << 16, 1 << 12, 64, 24, 32
THREADS, OVERFLOW, BUFFERED, FINISHED = 1, 2, 4, 8


class Entry(ctypes.Structure):
    """One thing waited for, or offered."""

    _fields_ = [
        *((name, ctypes.c_int32) for name in ("kind", "peer", "tag", "is_active")),
        *((name, ctypes.c_uint64) for name in ("comm", "ordinal", "bytes", "handle")),
    ]


class CommRow(ctypes.Structure):
    """What is known of a communicator."""

    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("handle", "id", "entered", "made")),
        *((name, ctypes.c_int32) for name in ("first_member", "members")),
        *((name, ctypes.c_int32 * HISTORY) for name in ("calls", "roots")),
    ]


class PageHead(ctypes.Structure):
    """Where the rank is."""

    _fields_ = [
        ("magic", ctypes.c_uint64), ("epoch", ctypes.c_uint64),
        *((name, ctypes.c_int32) for name in ("call", "waited", "comms", "members")),
        *((name, ctypes.c_uint32) for name in ("flags", "requests")),
    ]  # fmt: skip


class Page(ctypes.Structure):
    """A rank's page."""

    _fields_ = [
        ("head", PageHead), ("names", (ctypes.c_char * _NAME) * CALLS), ("waiting", Entry * WAITED),
        ("rows", CommRow * _COMMS), ("member", ctypes.c_int32 * _MEMBERS), ("request", Entry * _REQUESTS),
    ]  # fmt: skip
