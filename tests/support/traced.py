"""A program with what a trace has: nested phases, a collective, messages around a ring, imbalance."""

from __future__ import annotations

from typing import Any

import numpy as np

import labkit as lk

__all__ = ["work_and_ring"]


def work_and_ring(comm: Any, seconds: float, work: str = "work") -> None:
    """Compute and agree, then pass 100 numbers on to the right.

    Parameters
    ----------
    comm : communicator
    seconds : float
        What this rank computes.
    work : str
        Name of the first phase; its part "inner" holds the collective, "ring" is the second.
    """
    with lk.phase(work):
        lk.compute(seconds=seconds)
        with lk.phase("inner"):
            comm.allreduce(comm.rank)
    with lk.phase("ring"):
        request = comm.isend(np.arange(100), (comm.rank + 1) % comm.size)
        comm.recv(source=(comm.rank - 1) % comm.size)
        request.wait()
