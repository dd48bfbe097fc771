"""Sample sort: a sorted sample of all keys tells where to cut; every key then travels once.

Needs: p or more keys on every rank. Promises: the sorted sequence, rank after rank. If no two keys are equal
and all ranks have n/p, a multiple of p, none ends with more than 2 n/p. Equal keys all go to one rank.
"""

from typing import Any

import numpy as np

from labkit import local
from labkit.program.context import phase


def sample_sort(comm: Any, keys: Any) -> Any:
    """Return this rank's block of the sorted sequence of all keys."""
    p = comm.size
    with phase("local sort"):
        keys = local.sort(keys)

    with phase("splitters"):  # p samples of each rank; of these p p, one root takes every p-th
        samples = comm.gather(keys[np.arange(p) * len(keys) // p], root=0)
        splitters = None
        if comm.rank == 0:
            splitters = local.merge(np.concatenate(samples), np.full(p, p))[p::p]
        splitters = comm.bcast(splitters, root=0)

    with phase("exchange"):  # piece j, between splitters j - 1 and j, goes to rank j
        pieces = comm.alltoall(np.split(keys, local.count_up_to(keys, splitters, False)))

    with phase("merge"):
        return local.merge(np.concatenate(pieces), [len(piece) for piece in pieces])
