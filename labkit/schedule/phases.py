"""Phases that many algorithms are made of, written for a team: down a tree, up a tree, around a ring."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from labkit.schedule.group import Team
from labkit.schedule.step import NO_STEP, Ints, Section, Step
from labkit.schedule.trees import Tree

__all__ = ["down", "pass_around", "to_all", "up"]

#: ``section(part)``
Parts = Callable[[int], Section | None]
#: ``section(part, number of the buffer)``
Buffers = Callable[[int, int], Section | None]


def no_buffer(part: int, number: int) -> None:
    """Messages without content."""


def down(
    team: Team, tree: Tree, section: Parts, parts: int = 1, is_posted: bool = True, ahead: int = 1
) -> Iterator[Step]:
    """Yield one step for each part: take it from the parent, send it to the children.

    The receives of the next `ahead` parts are posted before a part is passed on (one: double buffering), and
    the number of parts whose sends are open together; if it is the number of parts no rank waits for a send
    before the end. Or each send is waited for before the next one, if they are not posted.
    """
    number, size, parent = team.number, team.size, _parent(tree, team.number)
    children = [_at(slot, number, size) for slot in tree.children]
    has_child = np.any([child >= 0 for child in children], axis=0) if children else False
    has_parent = parent >= 0
    open_parts = min(ahead, parts)

    def received(part: int) -> int:
        return part % (open_parts + 1)

    def sent(part: int) -> int:
        return open_parts + 1 + part % open_parts

    def post(part: int) -> Step:
        if part >= parts:
            return NO_STEP
        return team.irecv(section(part), parent, where=has_parent, label=received(part))

    if parts == 1:
        yield team.recv(section(0), parent, where=has_parent)
    else:
        yield from map(post, range(open_parts))
    for part in range(parts):
        if parts > 1:
            yield post(part + open_parts) + team.wait(where=has_parent, label=received(part))
        for child in children:
            if is_posted:
                yield team.isend(section(part), child, where=child >= 0, label=sent(part))
            else:
                yield team.send(section(part), child, where=child >= 0)
        if is_posted and part + 1 >= open_parts:
            yield team.wait(where=has_child, label=sent(part + 1))  # those of the oldest part that is open
    if is_posted and open_parts > 1:
        yield team.wait(where=has_child)  # the sends of the last parts


def up(
    team: Team,
    tree: Tree,
    partial: Parts,
    incoming: Buffers = no_buffer,
    parts: int = 1,
    ahead: int = 0,
    is_in_front: bool = False,
    is_posted: bool = True,
) -> Iterator[Step]:
    """Yield the way up: every number combines what its children send, then sends the sum to its parent.

    Children come in reverse order of sending and are put behind what is there (or in front of it): in rank
    order for k-nomial trees. With `ahead` the next message is being received while the last one is combined:
    with 1 its receive is posted after the wait for the last one, with 2 before. More posts that many receives
    where numbers have one child at most, and 2 elsewhere. ``incoming(part, turn)`` is then one of two or that
    many buffers, by turn. The sends of several parts are open together, unless they are not posted.
    """
    number, size, parent = team.number, team.size, _parent(tree, team.number)
    slots = [_at(slot, number, size) for slot in tree.children[::-1]]
    if ahead == 2 or (ahead > 2 and len(slots) > 1):
        yield from _up_in_pairs(team, slots, parent, partial, incoming, parts, is_in_front, is_posted)
        return
    turns = [(part, child) for part in range(parts) for child in slots]
    buffers = max(ahead, 2)

    def post(turn: int) -> Step:
        if turn >= len(turns):
            return NO_STEP
        part, child = turns[turn]
        return team.irecv(incoming(part, turn % buffers), child, where=child >= 0, label=turn % buffers)

    yield from map(post, range(max(ahead - 1, 1) if ahead else 0))
    for turn, (part, child) in enumerate(turns):
        has_child, received, total = child >= 0, incoming(part, turn % buffers), partial(part)
        if ahead == 0:
            yield team.recv(received, child, where=has_child)
        elif ahead == 1:
            yield team.wait(where=has_child, label=turn % buffers) + post(turn + 1)
        else:
            yield post(turn + ahead - 1) + team.wait(where=has_child, label=turn % buffers)
        if received is not None and total is not None:
            yield team.combine(received, total, source_first=is_in_front, where=has_child)
        if (turn + 1) % len(slots) == 0:
            if parts == 1 or not is_posted:
                yield team.send(total, parent, where=parent >= 0)
            else:
                yield team.isend(total, parent, where=parent >= 0, label=buffers)
    if slots and parts > 1 and is_posted:
        yield team.wait(where=parent >= 0, label=buffers)


def _up_in_pairs(
    team: Team,
    slots: list[NDArray[np.int64]],
    parent: NDArray[np.int64],
    partial: Parts,
    incoming: Buffers,
    parts: int,
    is_in_front: bool,
    is_posted: bool,
) -> Iterator[Step]:
    """Yield the way up in which every number posts its next receive before it waits for the last one."""
    has = np.array([child >= 0 for child in slots]).reshape(len(slots), len(parent))
    count, index = has.sum(0), np.cumsum(has, 0) - 1  # children, and which one of them a slot has

    def is_turn(part: int, slot: int, parity: int) -> NDArray[np.bool_]:
        turn = (part * count + index[slot]) % 2 == parity
        return np.asarray(has[slot] & turn)

    def post(part: int, slot: int, where: NDArray[np.bool_]) -> Iterator[Step]:
        for parity in (0, 1):
            chosen = where & is_turn(part, slot, parity)
            yield team.irecv(incoming(part, parity), slots[slot], where=chosen, label=parity)

    def post_first(part: int, where: NDArray[np.bool_]) -> Iterator[Step]:
        for slot in range(len(slots)):
            yield from post(part, slot, where & (index[slot] == 0))

    yield from post_first(0, np.ones(len(parent), bool))
    for part in range(parts):
        total = partial(part)
        for slot in range(len(slots)):
            for later in range(slot + 1, len(slots)):
                yield from post(part, later, has[slot] & (index[later] == index[slot] + 1))
            if part + 1 < parts:
                yield from post_first(part + 1, has[slot] & (index[slot] == count - 1))
            for parity in (0, 1):
                here, received = is_turn(part, slot, parity), incoming(part, parity)
                yield team.wait(where=here, label=parity)
                if received is not None and total is not None:
                    yield team.combine(received, total, source_first=is_in_front, where=here)
        if parts == 1 or not is_posted:
            yield team.send(total, parent, where=parent >= 0)
        else:
            yield team.isend(total, parent, where=parent >= 0, label=2)
    if parts > 1 and is_posted:
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


def to_all(
    team: Team, what: Callable[[Ints], Section], into: Callable[[Ints], Section], first: Ints = 0
) -> Iterator[Step]:
    """Yield an exchange of everyone with everyone in teams of one size.

    All receives are posted, then one send follows another, to the numbers from `first` on, around. What goes
    to a number is ``what(number)``, what comes from it ``into(number)``.
    """
    peers = [(np.asarray(first) + turn) % team.largest for turn in range(team.largest)]
    for peer in peers:
        yield team.irecv(into(peer), peer, where=peer != team.number)
    for peer in peers:
        yield team.send(what(peer), peer, where=peer != team.number)
    if team.largest > 1:
        yield team.wait()


def _parent(tree: Tree, number: NDArray[np.int64]) -> NDArray[np.int64]:
    return tree.parent[np.minimum(number, len(tree) - 1)]


def _at(slot: NDArray[np.int64], number: NDArray[np.int64], size: Ints) -> NDArray[np.int64]:
    """Return the child in this slot, or -1 if the team is too small to have it."""
    child = slot[np.minimum(number, len(slot) - 1)]
    return np.where(child < size, child, -1)
