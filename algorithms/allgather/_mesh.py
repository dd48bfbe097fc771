"""Allgather through a mesh: what is known spreads along one dimension, then along the next one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, block, blocks

__all__ = ["through_mesh"]


def through_mesh(name: str, dims: Callable[[int], Sequence[int]], is_last_first: bool = True) -> Algorithm:
    """Return the allgather through the mesh ``dims(ranks)``, along its last or its first dimension first."""
    return Algorithm(
        name,
        "allgather",
        schedule=lambda group: _rounds(group, dims(group.size), is_last_first),
        cost=lambda ranks, n_bytes: _cost(dims(ranks), n_bytes),
    )


def _rounds(group: Group, dims: Sequence[int], is_last_first: bool) -> Iterator[Step]:
    """Yield for each dimension of a row-major mesh the exchanges with all other ranks of the line.

    From the last dimension on, what a rank knows is one stretch of blocks; from the first on, it is spread.
    """
    me = group.ranks
    yield group.copy(block("send"), block("recv", me))
    axes = range(len(dims))
    for axis in reversed(axes) if is_last_first else axes:
        inner, outer, d = prod(dims[axis + 1 :]), prod(dims[:axis]), dims[axis]
        for i in range(1, d):
            mine = me // inner % d
            to, source = me + ((mine + i) % d - mine) * inner, me + ((mine - i) % d - mine) * inner
            if is_last_first:
                known, new = (blocks("recv", rank // inner * inner, inner) for rank in (me, source))
            else:
                rule = ((outer - 1) * d * inner + 1, 1, d * inner)
                known, new = (blocks("recv", rank % (d * inner), *rule) for rank in (me, source))
            yield group.sendrecv(known, to, new, source)


def _cost(dims: Sequence[int], n_bytes: float) -> Cost:
    """Return the exact cost: d - 1 messages along a dimension of d ranks; every block arrives once."""
    return Cost(sum(d - 1 for d in dims), (prod(dims) - 1) * n_bytes)
