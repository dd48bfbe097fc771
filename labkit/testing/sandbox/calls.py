"""The upper-case collectives that a submission may call, and what their arguments are."""

from __future__ import annotations

__all__ = ["COLLECTIVES"]

#: upper-case collective -> what its arguments are: read, written, operator, root, counts
COLLECTIVES: dict[str, tuple[str, ...]] = {
    "Barrier": (),
    "Bcast": ("write", "root"),
    "Reduce": ("read", "write", "op", "root"),
    "Allreduce": ("read", "write", "op"),
    "Scan": ("read", "write", "op"),
    "Exscan": ("read", "write", "op"),
    "Gather": ("read", "write", "root"),
    "Gatherv": ("read", "write", "root"),
    "Scatter": ("read", "write", "root"),
    "Scatterv": ("read", "write", "root"),
    "Allgather": ("read", "write"),
    "Allgatherv": ("read", "write"),
    "Alltoall": ("read", "write"),
    "Alltoallv": ("read", "write"),
    "Reduce_scatter_block": ("read", "write", "op"),
    "Reduce_scatter": ("read", "write", "counts", "op"),
}
