"""The upper-case collectives that a submission may call, blocking or not, and what their arguments are."""

from __future__ import annotations

__all__ = ["BLOCKING", "COLLECTIVES"]

#: upper-case collective -> what its arguments are: read, written, operator, root, counts
BLOCKING: dict[str, tuple[str, ...]] = {
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

#: these, and their nonblocking twins: Allreduce and Iallreduce
COLLECTIVES = {**BLOCKING, **{f"I{name[0].lower()}{name[1:]}": kinds for name, kinds in BLOCKING.items()}}
