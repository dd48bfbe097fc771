"""Alltoall through a mesh: all blocks move along one dimension, then along the next one.

Ranks are the points of a mesh, in row-major order. A rank's p blocks are an array over the same mesh, by
destination; after the exchange along a dimension that index is the source's instead.

With the switch `whole` ranks do not choose what they send: along all dimensions but the first every rank of a
line gets whatever the others have, all p blocks of every rank, and chooses at the end. By doubling that goes
on until everyone has everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod

import numpy as np
from numpy.typing import NDArray

from labkit.algorithms.allgather._mesh import first_of, in_order, line, turns
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Section, Step, Temporary, blocks, whole
from labkit.schedule.doubling import spread, times
from labkit.schedule.group import everyone
from labkit.schedule.phases import to_all
from labkit.schedule.step import Ints

__all__ = ["through_mesh"]


def through_mesh(name: str, dims: Callable[[int], Sequence[int]], is_by_doubling: bool = False) -> Algorithm:
    """Return the alltoall through the mesh ``dims(ranks)``."""
    kept = 0 if is_by_doubling else 1

    def rounds(group: Group, whole: int = 0) -> Iterator[Step]:
        return _whole(group, dims(group.size), kept) if whole else _rounds(group, dims(group.size))

    def cost(ranks: int, n_bytes: float, whole: int = 0) -> Cost:
        return _cost_whole(dims(ranks), n_bytes, kept) if whole else _cost(dims(ranks), n_bytes)

    def held(group: Group, whole: int = 0) -> NDArray[np.int64]:
        p = group.size
        return np.full(len(group.ranks), p * prod(dims(p)[kept:]) if whole else p)

    return Algorithm(
        name,
        "alltoall",
        schedule=rounds,
        cost=cost,
        temporaries=(Temporary("moving", blocks=held),),
        parameters={"whole": 0},
    )


def _slab(buffer: str, dims: Sequence[int], axis: int, at: Ints) -> Section:
    """Return the blocks whose index along `axis` is `at`."""
    inner, outer = prod(dims[axis + 1 :]), prod(dims[:axis])
    stride = inner * dims[axis]
    return blocks(buffer, at * inner, (outer - 1) * stride + inner, inner, stride)


def _rounds(group: Group, dims: Sequence[int]) -> Iterator[Step]:
    """Yield for each dimension the exchanges with all other ranks of the line."""
    axes = [axis for axis in range(len(dims)) if dims[axis] > 1]
    if not axes:
        yield group.copy(whole("send"), whole("recv"))
    held = "send"
    for turn, axis in enumerate(axes):
        team = line(group, dims, axis)
        target = "recv" if (len(axes) - turn) % 2 else "moving"
        yield group.copy(_slab(held, dims, axis, team.number), _slab(target, dims, axis, team.number))
        for i in range(1, team.largest):
            to, source = (team.number + i) % team.largest, (team.number - i) % team.largest
            yield team.sendrecv(_slab(held, dims, axis, to), to, _slab(target, dims, axis, source), source)
        held = target


def _cost(dims: Sequence[int], n_bytes: float) -> Cost:
    """Return the exact cost: along a dimension of d ranks d - 1 messages of p/d blocks."""
    p = prod(dims)
    return Cost(sum(d - 1 for d in dims), sum((d - 1) * p // d for d in dims) * n_bytes)


def _whole(group: Group, dims: Sequence[int], kept: int) -> Iterator[Step]:
    """Yield the spreading of everything along all dimensions but the first `kept`, then the choice.

    ``moving`` has p blocks of each of the ranks that differ in the other dimensions.
    """
    me, p, n = group.ranks, group.size, prod(dims[kept:])

    def known(rank: Ints, inner: int) -> Section:
        return blocks("moving", np.asarray(rank) // inner * inner % n * p, inner * p)

    def chosen(of: Ints) -> Section:
        return blocks("moving", np.asarray(of), (n - 1) * p + 1, 1, p)

    yield group.copy(whole("send"), known(me, 1))
    if not kept:
        yield from spread(everyone(group), lambda first, n: blocks("moving", first * p, n * p))
        yield group.copy(chosen(me), whole("recv"))
        return
    for axis in reversed(range(kept, len(dims))):
        spread_here = partial(known, inner=prod(dims[axis + 1 :]))
        yield from in_order(line(group, dims, axis), spread_here, first_of(group, dims, axis))
    yield group.copy(chosen(me), blocks("recv", me // n * n, n))
    team = line(group, dims, 0)
    yield from to_all(
        team,
        lambda number: chosen(team.rank(number)),
        lambda number: blocks("recv", np.asarray(team.rank(number)) // n * n, n),
        first_of(group, dims, 0),
    )


def _cost_whole(dims: Sequence[int], n_bytes: float, kept: int) -> Cost:
    """Return the exact cost: all p blocks of the ranks met so far travel along, then one of each."""
    p = prod(dims)
    if not kept:
        return Cost(int(times(p, np.ones_like).max()), int(times(p, np.positive).max()) * p * n_bytes)
    messages = [turns(dims, axis, is_in_order=True) for axis in range(len(dims))]
    volume = sum(messages[axis] * p * prod(dims[axis + 1 :]) for axis in range(kept, len(dims)))
    return Cost(sum(messages), (volume + sum(messages[:kept]) * prod(dims[kept:])) * n_bytes)
