"""One collective operation of tables 4 and 6, all ranks starting together; or the litmus test."""

from __future__ import annotations

from typing import Any

import numpy as np

from labkit import MPI, sized
from labkit.study.guidelines.litmus import own_broadcast

__all__ = ["program"]


def program(comm: Any, operation: str = "Bcast", size: int = 800) -> None:
    """Call the operation once with messages of `size` bytes."""
    p, is_root = comm.Get_size(), comm.Get_rank() == 0
    words = size // 8
    one, other = sized(words, np.float64), sized(words, np.float64)
    match operation:
        case "Barrier":
            comm.Barrier()
        case "Bcast":
            comm.Bcast(one, root=0)
        case "Reduce":
            comm.Reduce(one, other if is_root else None, op=MPI.SUM, root=0)
        case "Allreduce":
            comm.Allreduce(one, other, op=MPI.SUM)
        case "Gather":
            comm.Gather(one, sized(words * p, np.float64) if is_root else None, root=0)
        case "Allgather":
            comm.Allgather(one, sized(words * p, np.float64))
        case "Alltoall":
            comm.Alltoall(sized(words * p, np.float64), sized(words * p, np.float64))
        case "Bcast (BT)":
            own_broadcast(comm, one)
        case _:
            raise ValueError(f"operation must be one of table 4's columns, got {operation!r}")
