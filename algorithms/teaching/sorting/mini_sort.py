"""Mini sort: quicksort over the ranks, one key each: a pivot by medians of three, then each part by itself.

Needs: one key on every rank, no two equal. Promises: rank r ends with the key that has r keys before it.
"""

from typing import Any

import numpy as np

from labkit import MPI
from labkit.program.context import phase


def mini_sort(comm: Any, keys: Any) -> Any:
    """Return the key that belongs to this rank, as an array of one."""
    key = keys[0]
    while comm.size > 1:
        with phase("pivot"):
            pivot = median_of_medians(comm, key) if comm.size > 2 else comm.allreduce(key, op=MPI.MIN)
        with phase("prefix sums"):
            is_left = int(key <= pivot)
            left, all_left = comm.scan(is_left), comm.allreduce(is_left)
        with phase("exchange"):
            place = left - 1 if is_left else all_left + comm.rank - left
            key = comm.sendrecv(key, dest=place, source=MPI.ANY_SOURCE)
            comm = comm.Split(comm.rank < all_left)
    return np.array([key])


def median_of_medians(comm: Any, key: Any) -> Any:
    """Return a key near the middle: one of every three who are left takes the median, round after round."""
    step, me = 1, comm.rank
    while me % step == 0 and me // (3 * step) < comm.size // (3 * step):
        if me % (3 * step):
            comm.send(key, dest=me - me % (3 * step))
        else:
            key = sorted([key, comm.recv(source=me + step), comm.recv(source=me + 2 * step)])[1]
        step *= 3
    return comm.bcast(key, root=0)
