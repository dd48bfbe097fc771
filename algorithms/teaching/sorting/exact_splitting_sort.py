"""Exact splitting: one by one, medians of medians find the keys at places j n/p of all; then all keys travel.

Needs: nothing. Promises: the sorted sequence, rank after rank. If no two keys are equal, rank j ends with
places j n/p to (j + 1) n/p, both rounded down. Equal keys all go to one rank.
"""

from typing import Any

import numpy as np

from labkit import local
from labkit.program.context import phase


def exact_splitting_sort(comm: Any, keys: Any) -> Any:
    """Return this rank's block of the sorted sequence of all keys."""
    with phase("local sort"):
        keys = local.sort(keys)
    with phase("splitters"):
        n, p = comm.allreduce(len(keys)), comm.size
        splitters = np.array([key_at(comm, keys, j * n // p) if n else 0 for j in range(1, p)], keys.dtype)
    with phase("exchange"):
        pieces = comm.alltoall(np.split(keys, local.count_up_to(keys, splitters, False)))
    with phase("merge"):
        return local.merge(np.concatenate(pieces), [len(piece) for piece in pieces])


def key_at(comm: Any, keys: Any, place: int) -> Any:
    """Return the key that has `place` keys of all ranks before it (and their equals, if it has any)."""
    low, high = 0, len(keys)  # my keys from low to high can be it
    while True:
        mine = (keys[(low + high) // 2], high - low) if low < high else None
        medians = sorted(median for median in comm.allgather(mine) if median)
        weights = np.cumsum([weight for _, weight in medians])  # how many keys a median stands for
        pivot = medians[np.searchsorted(weights, weights[-1] / 2)][0]
        counts = local.count_up_to(keys, np.array([pivot, pivot]), np.array([False, True]))
        below, up_to = comm.allreduce(counts)
        if below <= place < up_to:
            return pivot
        low, high = (low, min(high, counts[0])) if place < below else (max(low, counts[1]), high)
