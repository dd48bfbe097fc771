"""Memory of MPI libraries: the heap that a call takes, and the connections that a collective needs."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from labkit import registry
from labkit.errors import DataError

__all__ = ["heap_bytes", "partners"]

#: fields of glibc's struct mallinfo2
_FIELDS = (
    "arena",
    "ordblks",
    "smblks",
    "hblks",
    "hblkhd",
    "usmblks",
    "fsmblks",
    "uordblks",
    "fordblks",
    "keepcost",
)


def heap_bytes() -> int:
    """Return the bytes of the heap that this process has allocated and not freed, in all arenas.

    The difference of two calls is what the calls in between have kept, such as the tables of a new
    communicator. In simulation all ranks share one heap, so there it says nothing of a rank.

    Returns
    -------
    int
        As glibc counts them (``mallinfo2``): blocks in use, with their headers, and mapped blocks.

    Raises
    ------
    DataError
        If the C library has no ``mallinfo2`` (glibc has it from 2.33 on).
    """
    ask = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if ask is None:
        raise DataError("the heap is counted by mallinfo2 of glibc 2.33 or later; this C library has none")
    ask.restype = type(
        "mallinfo2", (ctypes.Structure,), {"_fields_": [(f, ctypes.c_size_t) for f in _FIELDS]}
    )
    found: Any = ask()
    return int(found.uordblks + found.hblkhd)


def partners(operation: str, algorithm: str, ranks: int) -> int:
    """Return how many others a rank exchanges messages with in a collective, at most.

    Parameters
    ----------
    operation, algorithm : str
        Of the registry, such as "alltoall" and "bruck".
    ranks : int

    Returns
    -------
    int
        Of the rank that has the most. A library that opens a connection with the first message to a rank
        needs at least that many.

    Raises
    ------
    RegistryError, ScheduleError
        If there is no such algorithm, or it is not for this number of ranks.
    """
    pairs = [np.empty(0, np.int64)]
    for step in registry.get(operation, algorithm).build(ranks).steps():
        for column in step.columns:
            here, peer = np.broadcast_arrays(column.ranks, column.peer)
            is_message = peer >= 0
            here, peer = here[is_message], peer[is_message]
            pairs += [here * ranks + peer, peer * ranks + here]
    both = np.unique(np.concatenate(pairs))
    return int(np.bincount(both // ranks).max(initial=0))
