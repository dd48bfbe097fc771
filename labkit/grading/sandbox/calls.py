"""The upper-case collectives that a submission may call, blocking or not, and what their arguments are."""

from __future__ import annotations

from labkit.comm.surface import METHODS, Method

__all__ = ["COLLECTIVES", "OF_MESSAGES", "ROWS"]

#: their rows of the table of methods: all but those whose blocks have a datatype each
ROWS: dict[str, Method] = {
    row.name: row for row in METHODS if row.problem and row.form != "persistent" and row.base != "Alltoallw"
}
#: name -> the roles of its arguments: read, written, operator, root, counts
COLLECTIVES = {row.name: tuple(p.role for p in row.parameters) for row in ROWS.values()}
#: those that are made of messages of a private communicator
OF_MESSAGES = (
    *("reduce", "allreduce", "scan", "exscan", "neighbor_allgather", "neighbor_alltoall"),
    *("Neighbor_allgather", "Neighbor_allgatherv", "Neighbor_alltoall", "Neighbor_alltoallv"),
)
