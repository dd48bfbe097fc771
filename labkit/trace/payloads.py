"""Payloads between ranks: messages, and of a real run's collectives the blocks, by the definition of each.

A simulated run's collectives are messages. A real run tells the operation, not the messages that its
library made of it. An alltoall is a block from each rank to each, a gather one from each to the root; what is
combined on its way (reductions, scans) has no blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

    from labkit.trace.trace import Trace

__all__ = ["payloads"]

_COLUMNS = ("source", "destination", "bytes", "send_posted_s")
_FROM_ROOT, _TO_ROOT = ("bcast", "scatter", "scatterv"), ("gather", "gatherv")
_TO_ALL = ("allgather", "allgatherv", "alltoall", "alltoallv")


def payloads(trace: Trace) -> pd.DataFrame:
    """Return who gave how much to whom when.

    Parameters
    ----------
    trace : Trace

    Returns
    -------
    pandas.DataFrame
        source, destination, bytes, send_posted_s.
    """
    messages = trace.messages[list(_COLUMNS)]
    if trace.clocks is None:
        return messages
    import pandas as pd

    return pd.concat([messages, _blocks(trace)], ignore_index=True)


def _blocks(trace: Trace) -> pd.DataFrame:
    """Return the blocks of collectives between different ranks."""
    import pandas as pd

    assert trace.calls is not None
    calls = trace.calls[trace.calls["joint"] >= 0].sort_values(["joint", "position"], kind="stable")
    rows = calls.index.to_numpy()
    joint, rank, root, size = (calls[name].to_numpy() for name in ("joint", "rank", "root", "bytes"))
    begin, names = calls["begin_s"].to_numpy(), calls["call"].to_numpy()
    columns: tuple[list[NDArray[np.float64]], ...] = ([], [], [], [])
    groups = np.split(np.arange(len(rows)), np.flatnonzero(np.diff(joint)) + 1) if len(rows) else []
    for own in groups:
        name = str(names[own[0]]).lower()
        base = name.removeprefix("i") if name not in _TO_ALL else name
        members = rank[own]
        if base in _FROM_ROOT:
            givers, takers = own[members == root[own[0]]], members
        elif base in _TO_ROOT:
            givers, takers = own, root[own[:1]]
        elif base in _TO_ALL:
            givers, takers = own, members
        else:
            continue
        for giver in givers.tolist():
            counts = trace.blocks.get(int(rows[giver]))
            sent = np.full(len(takers), size[giver]) if counts is None else np.asarray(counts)
            if base == "scatter" and counts is None:  # the root's own block is as the others
                sent = np.full(len(takers), size[own].max())
            if len(sent) != len(takers):
                continue
            others = takers != rank[giver]
            for column, value in zip(
                columns, (rank[giver], takers[others], sent[others], begin[giver]), strict=True
            ):
                column.append(np.broadcast_to(value, int(others.sum())))
    found = [np.concatenate(column) if column else np.empty(0) for column in columns]
    types = (np.int64, np.int64, np.int64, np.float64)
    named = zip(_COLUMNS, found, types, strict=True)
    return pd.DataFrame({name: column.astype(kind) for name, column, kind in named})
