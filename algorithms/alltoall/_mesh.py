"""Alltoall through a mesh: all blocks move along one dimension, then along the next one.

Ranks are the points of a mesh, in row-major order. A rank's p blocks are an array over the same mesh, by
destination; after the exchange along a dimension that index is the source's instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Section, Step, blocks, whole
from labkit.schedule.section import Ints

__all__ = ["through_mesh"]


def through_mesh(name: str, dims: Callable[[int], Sequence[int]]) -> Algorithm:
    """Return the alltoall through the mesh ``dims(ranks)``."""
    return Algorithm(
        name,
        "alltoall",
        schedule=lambda group: _rounds(group, dims(group.size)),
        cost=lambda ranks, n_bytes: _cost(dims(ranks), n_bytes),
        temporaries=("moving",),
    )


def _slab(buffer: str, dims: Sequence[int], axis: int, at: Ints) -> Section:
    """Return the blocks whose index along `axis` is `at`."""
    inner, outer = prod(dims[axis + 1 :]), prod(dims[:axis])
    stride = inner * dims[axis]
    return blocks(buffer, at * inner, (outer - 1) * stride + inner, inner, stride)


def _rounds(group: Group, dims: Sequence[int]) -> Iterator[Step]:
    """Yield for each dimension the exchanges with all other ranks of the line."""
    me, p = group.ranks, group.size
    axes = [axis for axis in range(len(dims)) if dims[axis] > 1]
    if not axes:
        yield group.copy(whole("send"), whole("recv"))
    held = "send"
    for turn, axis in enumerate(axes):
        inner = prod(dims[axis + 1 :])
        mine = me // inner % dims[axis]
        target = "recv" if (len(axes) - turn) % 2 else "moving"
        yield group.copy(_slab(held, dims, axis, mine), _slab(target, dims, axis, mine))
        for i in range(1, dims[axis]):
            to, source = (mine + i) % dims[axis], (mine - i) % dims[axis]
            yield group.sendrecv(
                _slab(held, dims, axis, to),
                me + (to - mine) * inner,
                _slab(target, dims, axis, source),
                me + (source - mine) * inner,
            )
        held = target
    assert p == prod(dims)


def _cost(dims: Sequence[int], n_bytes: float) -> Cost:
    """Return the exact cost: along a dimension of d ranks d - 1 messages of p/d blocks."""
    p = prod(dims)
    return Cost(sum(d - 1 for d in dims), sum((d - 1) * p // d for d in dims) * n_bytes)
