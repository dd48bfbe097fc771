"""Who knows on which numbers of ranks growth is measured must not do something else on the others."""

from __future__ import annotations

from typing import Any

import numpy as np

from labkit.grading import find_assignment


def _broadcasts_on_powers(comm: Any, data: Any, root: int) -> Any:
    """A tree on numbers of ranks that are fixed in the checks; on others the root sends to all."""
    if comm.size & (comm.size - 1):
        if comm.rank == root:
            for other in range(comm.size):
                if other != root:
                    comm.send(data, other)
            return data
        return comm.recv(source=root)
    me, reach = (comm.rank - root) % comm.size, 1
    while reach < comm.size:
        if me < reach:
            comm.send(data, (me + reach + root) % comm.size)
        elif me < 2 * reach:
            data = comm.recv(source=(me - reach + root) % comm.size)
        reach *= 2
    return data


def test_growth_on_ranks_that_are_known_is_not_enough() -> None:
    def chains_elsewhere(comm: Any, keys: Any, buckets: int) -> Any:
        counts, total = np.bincount(keys, minlength=buckets), None
        if comm.size & (comm.size - 1):
            before = comm.recv(source=comm.rank - 1) if comm.rank else 0 * counts
            total = before + counts
            comm.send(total, comm.rank + 1) if comm.rank + 1 < comm.size else None
            total = comm.bcast(total, root=comm.size - 1)
        else:
            total, before = comm.allreduce(counts), comm.scan(counts) - counts
        first, found = np.cumsum(total) - total + before, np.empty(len(keys), np.int64)
        order = np.argsort(keys, kind="stable")
        found[order] = (first - np.cumsum(counts) + counts)[keys[order]] + np.arange(len(keys))
        return found

    for name, function in (("broadcast", _broadcasts_on_powers), ("scaling_bug", chains_elsewhere)):
        (found,) = find_assignment(name).try_out(function, only=["scaling"]).results
        assert (found.points, "are allowed." in found.feedback) == (0, True), found.feedback
