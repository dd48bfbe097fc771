"""Phases that many algorithms are made of, written for a team: down a tree, up a tree, around a ring."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from labkit.schedule.section import Ints, Section
from labkit.schedule.step import NO_STEP, Step
from labkit.schedule.team import Team
from labkit.schedule.trees import Tree

__all__ = ["down", "pass_around", "up"]

#: ``section(part)``
Parts = Callable[[int], Section | None]
#: ``section(part, number of the buffer)``
Buffers = Callable[[int, int], Section | None]


def no_buffer(part: int, number: int) -> None:
    """Messages without content."""


def down(team: Team, tree: Tree, section: Parts, parts: int = 1, is_posted: bool = True) -> Iterator[Step]:
    """Yield one step for each part: take it from the parent, send it to the children.

    The receive of the next part is posted before a part is passed on (double buffering). The sends of a part
    are posted together and then waited for; or each is waited for before the next one.
    """
    number, size, parent = team.number, team.size, _parent(tree, team.number)
    children = [_at(slot, number, size) for slot in tree.children]
    has_child = np.any([child >= 0 for child in children], axis=0) if children else False
    has_parent = parent >= 0

    def post(part: int) -> Step:
        if part >= parts:
            return NO_STEP
        return team.irecv(section(part), parent, where=has_parent, label=part % 2)

    yield post(0) if parts > 1 else team.recv(section(0), parent, where=has_parent)
    for part in range(parts):
        if parts > 1:
            yield post(part + 1) + team.wait(where=has_parent, label=part % 2)
        for child in children:
            if is_posted:
                yield team.isend(section(part), child, where=child >= 0, label=2)
            else:
                yield team.send(section(part), child, where=child >= 0)
        if is_posted:
            yield team.wait(where=has_child, label=2)


def up(
    team: Team,
    tree: Tree,
    partial: Parts,
    incoming: Buffers = no_buffer,
    parts: int = 1,
    is_overlapped: bool = False,
    is_in_front: bool = False,
) -> Iterator[Step]:
    """Yield the way up: every number combines what its children send, then sends the sum to its parent.

    Children come in reverse order of sending and are put behind what is there (or in front of it): in rank
    order for k-nomial trees. With `is_overlapped` the next message is being received while the last one is
    combined; ``incoming(part, turn)`` is then one of two buffers by turn.
    """
    number, size, parent = team.number, team.size, _parent(tree, team.number)
    slots = [_at(slot, number, size) for slot in tree.children[::-1]]
    turns = [(part, child) for part in range(parts) for child in slots]

    def post(turn: int) -> Step:
        if turn >= len(turns):
            return NO_STEP
        part, child = turns[turn]
        return team.irecv(incoming(part, turn % 2), child, where=child >= 0, label=turn % 2)

    if is_overlapped:
        yield post(0)
    for turn, (part, child) in enumerate(turns):
        has_child, received, total = child >= 0, incoming(part, turn % 2), partial(part)
        if is_overlapped:
            yield team.wait(where=has_child, label=turn % 2) + post(turn + 1)
        else:
            yield team.recv(received, child, where=has_child)
        if received is not None and total is not None:
            yield team.combine(received, total, source_first=is_in_front, where=has_child)
        if (turn + 1) % len(slots) == 0:
            if parts == 1:
                yield team.send(total, parent, where=parent >= 0)
            else:
                yield team.isend(total, parent, where=parent >= 0, label=2)
    if slots and parts > 1:
        yield team.wait(where=parent >= 0, label=2)


def pass_around(team: Team, section: Callable[[Ints], Section | None]) -> Iterator[Step]:
    """Yield an allgather around the ring of a team: ``section(number)`` is what that number starts with."""
    number, size = team.number, team.size
    for i in range(team.largest - 1):
        yield team.sendrecv(
            section((number - i) % size),
            (number + 1) % size,
            section((number - i - 1) % size),
            (number - 1) % size,
            where=i < np.asarray(size) - 1,
        )


def _parent(tree: Tree, number: NDArray[np.int64]) -> NDArray[np.int64]:
    return tree.parent[np.minimum(number, len(tree) - 1)]


def _at(slot: NDArray[np.int64], number: NDArray[np.int64], size: Ints) -> NDArray[np.int64]:
    """Return the child in this slot, -1 where there is none or the team is too small to have it."""
    child = slot[np.minimum(number, len(slot) - 1)]
    return np.where(child < size, child, -1)
