"""The page on which a real rank notes its blocking calls, by the library of `labkit.real.mpi.waits_page`.

What reads it is `labkit.real.mpi.waits`.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import sys
from types import ModuleType

TYPE_CHECKING = False  # as in typing, which every rank would import for this alone
if TYPE_CHECKING:
    from typing import Any

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
    "load_library",
    "open_page",
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
        ("magic", ctypes.c_uint64),
        ("epoch", ctypes.c_uint64),
        *((name, ctypes.c_int32) for name in ("call", "waited", "comms", "members")),
        *((name, ctypes.c_uint32) for name in ("flags", "requests")),
    ]


class Page(ctypes.Structure):
    """A rank's page."""

    _fields_ = [
        ("head", PageHead),
        ("names", (ctypes.c_char * _NAME) * CALLS),
        ("waiting", Entry * WAITED),
        ("rows", CommRow * _COMMS),
        ("member", ctypes.c_int32 * _MEMBERS),
        ("request", Entry * _REQUESTS),
    ]


# The library that notes a real rank's blocking calls on its page (`labkit.real.mpi.waits_page`).
#
# Every rank of a real run loads this file: it needs little.


#: without and with the calls that count in MPI_Count
_LIBRARY, _LARGE = "_mpi_waits.so", "_mpi_waits_large.so"


class _Constants(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("world", "null_comm", "null_request")),
        *(
            (name, ctypes.c_int32)
            for name in (
                "rank",
                "size",
                "handle_bytes",
                "any_source",
                "any_tag",
                "proc_null",
                "undefined",
                "status_bytes",
                "error_at",
                "error_in_status",
                "error_pending",
                "combiner_named",
            )
        ),
    ]


@functools.cache
def load_library() -> Any:
    """Put the library before MPI, which must not be loaded yet; return its path, or None."""
    kernels = importlib.util.find_spec("labkit._kernels")  # next to them; they themselves are not needed
    if sys.platform != "linux" or "mpi4py.MPI" in sys.modules or kernels is None or kernels.origin is None:
        return None
    name = _LARGE if _has_large_counts() else _LIBRARY
    path = os.path.join(os.path.dirname(kernels.origin), name)
    return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL) if os.path.exists(path) else None


def _has_large_counts() -> bool:
    """Whether the MPI library has the calls with MPI_Count.

    mpi4py makes them wherever it finds their names, and therefore must not find them in another library.
    """
    paths = os.environ.get("MPI4PY_LIBMPI", "").split(os.pathsep)
    if abi := os.environ.get("MPI4PY_MPIABI"):  # mpi4py's first choice: whatever its extension is linked to
        paths = ["libmpi.so.12"] if abi.lower() in ("mpich", "impi") else []
    for path in filter(None, paths):
        try:
            return hasattr(ctypes.CDLL(path, mode=os.RTLD_LAZY | os.RTLD_LOCAL), "PMPI_Bsend_init_c")
        except OSError:
            continue
    return False


def open_page(library: Any, path: str, mpi: ModuleType, rank: int, size: int) -> bool:
    """Begin to note this rank's waits; whether that can be done under this MPI."""
    named = str(mpi.Get_library_version())
    if library is None or not any(name in named for name in ("Open MPI", "MPICH")):
        return False
    status, error = mpi.Status(), 0x5EED
    status.Set_error(error)
    layout = ctypes.string_at(mpi._addressof(status), mpi._sizeof(status))
    constants = _Constants(
        world=mpi._handleof(mpi.COMM_WORLD),
        null_comm=mpi._handleof(mpi.COMM_NULL),
        null_request=mpi._handleof(mpi.REQUEST_NULL),
        rank=rank,
        size=size,
        handle_bytes=mpi._sizeof(mpi.COMM_WORLD),
        any_source=mpi.ANY_SOURCE,
        any_tag=mpi.ANY_TAG,
        proc_null=mpi.PROC_NULL,
        undefined=mpi.UNDEFINED,
        status_bytes=len(layout),
        error_at=layout.index(error.to_bytes(4, sys.byteorder)),
        error_in_status=mpi.ERR_IN_STATUS,
        error_pending=mpi.ERR_PENDING,
        combiner_named=mpi.COMBINER_NAMED,
    )
    return bool(library.labkit_waits_open(os.fsencode(path), ctypes.byref(constants)))
