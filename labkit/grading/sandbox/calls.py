"""The upper-case collectives that a submission may call, blocking or not, and what their arguments are."""

from __future__ import annotations

from labkit.comm.surface import METHODS, Method

__all__ = ["COLLECTIVES", "ROWS"]

#: their rows of the table of methods: all but those whose blocks have a datatype each
ROWS: dict[str, Method] = {
    row.name: row for row in METHODS if row.problem and row.form != "persistent" and row.base != "Alltoallw"
}
#: name -> the roles of its arguments: read, written, operator, root, counts
COLLECTIVES = {row.name: tuple(p.role for p in row.parameters) for row in ROWS.values()}
