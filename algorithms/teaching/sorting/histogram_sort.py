"""Histogram sort: guess the splitters, count how many keys lie below each, and halve where they can be.

Needs: numbers, one or more on every rank. Promises: the sorted sequence, rank after rank. If the keys are
different whole numbers of at most 53 bits, none ends with more than (1 + balance) n/p + 1 of them.
"""

from typing import Any

import numpy as np

from labkit import MPI, local
from labkit.program.context import phase


def histogram_sort(comm: Any, keys: Any, balance: float = 0.1) -> Any:
    """Return this rank's block of the sorted sequence of all keys."""
    p = comm.size
    with phase("local sort"):
        keys = local.sort(keys)

    with phase("splitters"):  # below splitter j there are to be j n/p keys; it lies between low and high
        n = comm.allreduce(len(keys))
        low = np.full(p - 1, float(comm.allreduce(keys[0], op=MPI.MIN)))
        high = np.full(p - 1, float(comm.allreduce(keys[-1], op=MPI.MAX)))
        for _ in range(64):
            splitters = (low + high) / 2
            below = comm.allreduce(local.count_up_to(keys, splitters, False))  # the histogram
            off = below - np.arange(1, p) * n // p
            if np.all(abs(off) <= balance / 2 * n / p):
                break
            low, high = np.where(off < 0, splitters, low), np.where(off > 0, splitters, high)

    with phase("exchange"):
        pieces = comm.alltoall(np.split(keys, local.count_up_to(keys, splitters, False)))

    with phase("merge"):
        return local.merge(np.concatenate(pieces), [len(piece) for piece in pieces])
