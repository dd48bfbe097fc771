"""Radix sort: digit by digit from the lowest, count where every key belongs, and send it there.

Needs: whole numbers >= 0. Promises: the sorted sequence; rank r ends with places r n/p to (r + 1) n/p, n/p
rounded up, whatever the keys; one pass for every digit of the largest key. No two keys are ever compared.
"""

from typing import Any

import numpy as np

from labkit import MPI, local
from labkit.program.context import phase


def radix_sort(comm: Any, keys: Any, bits: int = 8) -> Any:
    """Return this rank's block of the sorted sequence of all keys."""
    share = -(-comm.allreduce(len(keys)) // comm.size)  # places of a rank
    largest = comm.allreduce(int(max(keys, default=0)), op=MPI.MAX)
    for shift in range(0, largest.bit_length(), bits):
        with phase("count"):  # my keys in the order of this digit, and how many have each
            keys, mine = local.partition(keys, shift, bits)

        with phase("prefix sums"):  # before my keys with digit d: smaller digits, then d on lower ranks
            everybody = comm.allreduce(mine)
            before = comm.exscan(mine)
            first = np.cumsum(everybody) - everybody + (0 if before is None else before)

        with phase("exchange"):
            nth = np.arange(len(keys)) - np.repeat(np.cumsum(mine) - mine, mine)  # of my keys with its digit
            place = np.repeat(first, mine) + nth
            pieces = comm.alltoall(np.split(keys, np.searchsorted(place, np.arange(1, comm.size) * share)))

        with phase("scatter"):  # by digit, and of one digit in the order of the ranks that they come from
            keys, _ = local.partition(np.concatenate(pieces), shift, bits)
    return keys
