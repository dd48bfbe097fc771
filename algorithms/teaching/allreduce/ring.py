"""Allreduce around a ring: every block is summed up on one way around, and told on a second one.

Needs: `value` an array of numbers, the same length n everywhere. Promises: all have the sum after
2 (p - 1) rounds of one message of about n/p numbers a rank, whatever p is.
"""

from typing import Any

import numpy as np


def ring(comm: Any, value: Any) -> Any:
    """Return the sum of all arrays, on every rank."""
    p, me = comm.size, comm.rank
    right, left = (me + 1) % p, (me - 1) % p
    blocks = np.array_split(value, p)
    for i in range(p - 1):  # the sums grow: after p - 1 steps block me + 1 is complete here
        arrived = comm.sendrecv(blocks[(me - i) % p], dest=right, source=left)
        blocks[(me - i - 1) % p] = blocks[(me - i - 1) % p] + arrived
    for i in range(p - 1):  # the sums travel
        blocks[(me - i) % p] = comm.sendrecv(blocks[(me + 1 - i) % p], dest=right, source=left)
    return np.concatenate(blocks)
