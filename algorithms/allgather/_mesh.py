"""Allgather through a mesh: what is known spreads along one dimension, then along the next one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

import numpy as np

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Section, Step, block, blocks
from labkit.schedule.group import Team
from labkit.schedule.phases import to_all
from labkit.schedule.step import Ints

__all__ = ["first_of", "in_order", "line", "nearest_first", "through_mesh", "turns"]

Dims = Callable[[int], Sequence[int]]


def through_mesh(name: str, dims: Dims) -> Algorithm:
    """Return the allgather through the row-major mesh ``dims(ranks)``, along its last dimension first."""

    def rounds(group: Group, in_order: int = 0) -> Iterator[Step]:
        return (_in_order if in_order else _around)(group, dims(group.size))

    def cost(ranks: int, n_bytes: float, in_order: int = 0) -> Cost:
        return _cost(dims(ranks), n_bytes, in_order > 0)

    return Algorithm(name, "allgather", schedule=rounds, cost=cost, parameters={"in_order": 0})


def line(group: Group, dims: Sequence[int], axis: int) -> Team:
    """Return the teams of the ranks that differ in one coordinate of a row-major mesh."""
    inner, d, me = prod(dims[axis + 1 :]), dims[axis], group.ranks
    number = me // inner % d
    return Team(group, number, d, lambda other: me + (np.asarray(other) - number) * inner, d)


def first_of(group: Group, dims: Sequence[int], axis: int) -> Ints:
    """Return whom a rank serves first: number 0 of its line, in the last of three dimensions the next one."""
    return line(group, dims, axis).number + 1 if len(dims) == 3 and axis == 0 else 0


def _around(group: Group, dims: Sequence[int]) -> Iterator[Step]:
    """Yield for each dimension the exchanges with all other ranks of the line, the nearest first."""
    yield group.copy(block("send"), block("recv", group.ranks))
    for axis in reversed(range(len(dims))):
        yield from nearest_first(line(group, dims, axis), _known(dims, axis))


def nearest_first(team: Team, known: Callable[[Ints], Section]) -> Iterator[Step]:
    """Yield a team's exchange of what ranks know, ``known(rank)``, each with the nearest ones first."""
    for i in range(1, team.largest):
        to, source = ((team.number + way) % team.largest for way in (i, -i))
        yield team.sendrecv(known(team.group.ranks), to, known(team.rank(source)), source)


def _in_order(group: Group, dims: Sequence[int]) -> Iterator[Step]:
    """Yield for each dimension all receives at once, and one send after another."""
    yield group.copy(block("send"), block("recv", group.ranks))
    for axis in reversed(range(len(dims))):
        yield from in_order(line(group, dims, axis), _known(dims, axis), first_of(group, dims, axis))


def in_order(team: Team, known: Callable[[Ints], Section], first: Ints) -> Iterator[Step]:
    """Yield the same with all receives posted, and one send after another from number `first` on."""
    return to_all(team, lambda _: known(team.group.ranks), lambda number: known(team.rank(number)), first)


def _known(dims: Sequence[int], axis: int) -> Callable[[Ints], Section]:
    """Return which blocks a rank knows before the exchange along an axis: one stretch."""
    inner = prod(dims[axis + 1 :])
    return lambda rank: blocks("recv", np.asarray(rank) // inner * inner, inner)


def _cost(dims: Sequence[int], n_bytes: float, is_in_order: bool) -> Cost:
    """Return the exact cost: along each dimension as many messages as `turns` says."""
    messages = [turns(dims, axis, is_in_order) for axis in range(len(dims))]
    volume = sum(number * prod(dims[axis + 1 :]) for axis, number in enumerate(messages))
    return Cost(sum(messages), volume * n_bytes)


def turns(dims: Sequence[int], axis: int, is_in_order: bool) -> int:
    """Return the messages one after another along a dimension of d ranks.

    They are d - 1; if all serve the ranks in the same order, the last rank has to wait d - 2 turns before it
    can send for the first time.
    """
    d = dims[axis]
    return 2 * d - 3 if is_in_order and d > 2 and (len(dims), axis) != (3, 0) else d - 1
