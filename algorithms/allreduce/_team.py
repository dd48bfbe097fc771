"""Allreduce inside a team: by recursive doubling, by halving and doubling, around a ring.

All work on ``recv``, into which every member has put its operand, and receive into ``incoming``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from labkit.registry import Cost
from labkit.schedule import Group, Section, Step, block, blocks, whole
from labkit.schedule.doubling import Core, core_of, doublings, floor_power_of_two
from labkit.schedule.group import Team
from labkit.schedule.step import Ints

__all__ = [
    "Core",
    "Partner",
    "around",
    "around_cost",
    "core_of",
    "doubling",
    "doubling_cost",
    "halving",
    "halving_cost",
    "into_recv",
]

Numbers = NDArray[np.int64]
#: a neighbor's number in the core: ``partner(number, round)``
Partner = Callable[[Numbers, int], Numbers]


def into_recv(group: Group) -> Step:
    """Return the copy that everything begins with."""
    return group.copy(whole("send"), whole("recv"))


def _fold(team: Team, core: Core, total: Section, incoming: Section) -> Step:
    return (
        team.send(total, core.neighbor, where=core.is_out)
        + team.recv(incoming, core.neighbor, where=core.has_out)
        + team.combine(incoming, total, source_first=core.kept == 1, where=core.has_out)
    )


def _unfold(team: Team, core: Core, total: Section) -> Step:
    return team.send(total, core.neighbor, where=core.has_out) + team.recv(
        total, core.neighbor, where=core.is_out
    )


def doubling(
    team: Team,
    total: Section | None = None,
    incoming: Section | None = None,
    partner: Partner = lambda number, k: number ^ 1 << k,
) -> Iterator[Step]:
    """Yield fold, an exchange of all with each partner, unfold."""
    total, incoming = total or whole("recv"), incoming or whole("incoming")
    core = core_of(team)
    yield _fold(team, core, total, incoming)
    for k in range(core.size.bit_length() - 1):
        peer = core.team_number(partner(core.number, k))
        yield team.sendrecv(total, peer, incoming, peer, where=~core.is_out)
        yield team.combine(incoming, total, source_first=peer < team.number, where=~core.is_out)
    yield _unfold(team, core, total)


def doubling_cost(size: int, n_bytes: float) -> Cost:
    """Return the exact cost of `doubling` in a team of this size."""
    core = floor_power_of_two(size)
    levels, fold = core.bit_length() - 1, int(size > core)
    return Cost(levels + 2 * fold, (levels + 2 * fold) * n_bytes, (levels + fold) * n_bytes)


def halving(team: Team, labels: Numbers | None = None, partner: Partner | None = None) -> Iterator[Step]:
    """Yield fold, reduce-scatter by halving, allgather by doubling, unfold; on as many parts as the core.

    Partners differ in one bit of their numbers in the core, or of the numbers' labels; or they are given, and
    their labels differ in the round's bit, and in no lower one.
    """
    core = core_of(team, kept=0)
    label = core.number if labels is None else labels[np.minimum(core.number, core.size - 1)]
    number_of = np.arange(core.size) if labels is None else np.argsort(labels)
    first, length = np.zeros_like(label), core.size
    rounds = []
    yield _fold(team, core, whole("recv"), whole("incoming"))
    for k, distance in enumerate(doublings(core.size)):
        other = number_of[(label ^ distance) % core.size] if partner is None else partner(core.number, k)
        peer = core.team_number(other)
        length //= 2
        is_upper = (label & distance) != 0
        kept, given = first + is_upper * length, first + ~is_upper * length
        rounds.append((peer, kept, given, length))
        received = blocks("incoming", kept, length)
        yield team.sendrecv(blocks("recv", given, length), peer, received, peer, where=~core.is_out)
        yield team.combine(received, blocks("recv", kept, length), peer < team.number, where=~core.is_out)
        first = kept
    for peer, kept, given, length in reversed(rounds):
        yield team.sendrecv(
            blocks("recv", kept, length), peer, blocks("recv", given, length), peer, where=~core.is_out
        )
    yield _unfold(team, core, whole("recv"))


def halving_cost(size: int, n_bytes: float) -> Cost:
    """Return the exact cost of `halving` when the core's size divides the message."""
    core = floor_power_of_two(size)
    levels, fold = core.bit_length() - 1, int(size > core)
    volume = n_bytes * (core - 1) / core
    return Cost(2 * levels + 2 * fold, 2 * volume + 2 * fold * n_bytes, volume + fold * n_bytes)


def around(team: Team, part: Callable[[Ints], Ints] = lambda number: number) -> Iterator[Step]:
    """Yield reduce-scatter and allgather around the ring of a team of one size; a part for each number."""
    number, size = team.number, team.largest
    left, right = (number - 1) % size, (number + 1) % size
    for i in range(size - 1):
        arriving = part((number - i - 1) % size)
        yield team.sendrecv(
            block("recv", part((number - i) % size)), right, block("incoming", arriving), left
        )
        yield team.combine(block("incoming", arriving), block("recv", arriving))
    for i in range(size - 1):
        yield team.sendrecv(
            block("recv", part((number + 1 - i) % size)),
            right,
            block("recv", part((number - i) % size)),
            left,
        )


def around_cost(size: int, n_bytes: float) -> Cost:
    """Return the exact cost of `around` when the team's size divides the message."""
    volume = (size - 1) * n_bytes / size
    return Cost(2 * (size - 1), 2 * volume, volume)
