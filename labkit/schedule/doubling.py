"""Doubling among any number of members: who has no partner gets what it lacks from others of its subtree.

In turn k the members r and r XOR 2**k exchange, so that subtrees of 2**k consecutive members, which know the
same, become subtrees of twice as many. Where the number of members is no power of two, one subtree may be
shorter than its partner: those that find no partner are then served by those that did, in a tree inside their
own subtree. Nobody folds, and a member's place needs no other numbering.

R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH. IJHPCA
19(1), 2005. doi:10.1177/1094342005051521
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from labkit.schedule.group import Team
from labkit.schedule.step import Section, Step

__all__ = [
    "Core",
    "Turn",
    "backwards",
    "bine_labels",
    "ceil_log2",
    "core_of",
    "doublings",
    "floor_power_of_two",
    "largest_divisor",
    "log_ceil",
    "mesh",
    "prime_factors",
    "spread",
    "times",
    "turns",
]


Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Turn:
    """One turn, as every member sees it.

    `partner`: The number to exchange with; it exists where `is_met`.
    `mine`, `theirs`: First number and number of members of the own subtree and of the partner's.
    `hops`: Another member of the own subtree each, and where one gives it what it got, or takes it from
        there.
    """

    partner: Numbers
    is_met: Mask
    mine: tuple[Numbers, Numbers]
    theirs: tuple[Numbers, Numbers]
    hops: list[tuple[Numbers, Mask, Mask]]


def turns(number: Numbers, size: int) -> Iterator[Turn]:
    """Yield the turns of `size` members, as these numbers see them."""
    for width in doublings(size):
        partner = number ^ width
        mine, theirs = number // width * width, partner // width * width
        n_met = size - mine - width  # of the own subtree
        is_short = (theirs > mine) & (theirs < size) & (theirs + width > size)
        hops = []
        for hop in reversed(doublings(width)):
            other, end = number ^ hop, number // (2 * hop) * (2 * hop) + n_met
            gives = is_short & (number < other) & (number < end) & (end <= other)
            takes = is_short & (other < number) & (other < end) & (end <= number)
            hops.append((other, gives, takes))
        sizes = [np.clip(size - first, 0, width) for first in (mine, theirs)]
        yield Turn(partner, partner < size, (mine, sizes[0]), (theirs, sizes[1]), hops)


def spread(team: Team, section: Callable[[Numbers, Numbers], Section]) -> Iterator[Step]:
    """Yield an allgather: ``section(first, n)`` is what `n` members from number `first` on have brought."""
    for turn in turns(team.number, team.largest):
        theirs = section(*turn.theirs)
        yield team.sendrecv(section(*turn.mine), turn.partner, theirs, turn.partner, where=turn.is_met)
        for other, gives, takes in turn.hops:
            yield team.send(theirs, other, where=gives)
            yield team.recv(theirs, other, where=takes)


def times(
    size: int,
    message: Callable[[Numbers], Numbers],
    work: Callable[[Turn], Numbers] | None = None,
    start: Numbers | None = None,
) -> Numbers:
    """Return when every member is done, if ``message(n)`` is what a message about a subtree of `n` takes."""
    number = np.arange(size)
    at = np.zeros_like(number) if start is None else start.copy()
    for turn in turns(number, size):
        partner = np.where(turn.is_met, turn.partner, number)
        longer = np.maximum(message(turn.mine[1]), message(turn.theirs[1]))
        at = np.where(turn.is_met, np.maximum(at, at[partner]) + longer, at)
        has_got = turn.is_met.copy()
        for other, _, takes in turn.hops:
            taker, giver = number[takes], other[takes]
            at[taker] = at[giver] = np.maximum(at[taker], at[giver]) + message(turn.theirs[1])[taker]
            has_got |= takes
        if work is not None:
            at = at + np.where(has_got, work(turn), 0)
    return at


# The core of a team: as many members as the largest power of two has; the others fold into a neighbor.


@dataclass(frozen=True)
class Core:
    """Who is in the core: of each of the first pairs of neighbors, 2i and 2i + 1, only one.

    `size`, `extra`: Members of the core, and how many pairs there are.
    `number`: The number in the core.
    `is_out`, `has_out`: Whether a member has handed its part to its neighbor before, or taken one over.
    `neighbor`: The other one of the pair, by its number in the team.
    `kept`: Whether the first (0) or the second (1) of a pair is in the core.
    """

    size: int
    extra: int
    number: Numbers
    is_out: NDArray[np.bool_]
    has_out: NDArray[np.bool_]
    neighbor: Numbers
    kept: int

    def team_number(self, number: Numbers) -> Numbers:
        """Return the number in the team of a number in the core."""
        return np.where(number < self.extra, 2 * number + self.kept, number + self.extra)


def core_of(team: Team, kept: int = 1) -> Core:
    """Return the core of a team of one size, with the first (0) or the second (1) of every pair in it."""
    core = floor_power_of_two(team.largest)
    extra = team.largest - core
    is_pair, is_kept = team.number < 2 * extra, team.number % 2 == kept
    return Core(
        core,
        extra,
        np.where(is_pair, team.number // 2, team.number - extra),
        is_pair & ~is_kept,
        is_pair & is_kept,
        team.number ^ 1,
        kept,
    )


# Small integer helpers that tree and hypercube algorithms share.


def doublings(size: int) -> list[int]:
    """Return 1, 2, 4, ... below `size`: the distances of a tree or of recursive doubling.

    Examples
    --------
    >>> doublings(6)
    [1, 2, 4]
    """
    return [1 << k for k in range(ceil_log2(size))]


def ceil_log2(size: int) -> int:
    """Return the smallest k with ``2**k >= size``."""
    return (size - 1).bit_length()


def floor_power_of_two(size: int) -> int:
    """Return the largest power of two that is not above `size` (at least 1)."""
    return 1 << (size.bit_length() - 1)


def log_ceil(size: int, radix: int) -> int:
    """Return the smallest k with ``radix**k >= size``.

    Examples
    --------
    >>> [log_ceil(p, 3) for p in (1, 2, 3, 4, 9, 10)]
    [0, 1, 1, 2, 2, 3]
    """
    k, power = 0, 1
    while power < size:
        k, power = k + 1, power * radix
    return k


def bine_labels(size: int) -> NDArray[np.int64]:
    """Return labels under which Bine trees and butterflies are binomial trees and hypercubes.

    A number (modulo `size`, a power of two) has digits in base -2; neighbors of a Bine network differ in
    all of the lowest digits. In the Gray code of the digits that is one bit. Labels that differ in bit j
    belong to numbers ``(1 - (-2)**(j+1)) / 3`` apart, 1, 1, 3, 5, 11 ..., instead of 1, 2, 4, 8, 16 ...

    Examples
    --------
    >>> bine_labels(8)
    array([0, 1, 5, 4, 6, 7, 3, 2])
    """
    digits = np.arange(size)
    value = np.zeros(size, np.int64)
    for place in range(size.bit_length() - 1):
        value += (digits >> place & 1) * (-2) ** place
    labels = np.empty(size, np.int64)
    labels[value % size] = digits ^ digits >> 1
    return labels


def mesh(size: int, dimensions: int) -> tuple[int, ...]:
    """Return the dimensions of a mesh of `size` points, as equal as whole numbers allow, the smaller first.

    Examples
    --------
    >>> mesh(12, 2), mesh(64, 3), mesh(7, 2)
    ((3, 4), (4, 4, 4), (1, 7))
    """
    if dimensions == 1:
        return (size,)
    first = next(d for d in range(round(size ** (1 / dimensions)), 0, -1) if size % d == 0)
    return (first, *mesh(size // first, dimensions - 1))


def prime_factors(size: int) -> tuple[int, ...]:
    """Return the prime factors, in rising order.

    Examples
    --------
    >>> prime_factors(12), prime_factors(1)
    ((2, 2, 3), ())
    """
    for d in range(2, size + 1):
        if size % d == 0:
            return (d, *prime_factors(size // d))
    return ()


def backwards(dims: Sequence[int]) -> NDArray[np.int64]:
    """Return every number with its digits backwards: of radix ``dims[0]`` the highest, then the lowest one.

    Examples
    --------
    >>> backwards((2, 2, 2)), backwards((2, 3))
    (array([0, 4, 2, 6, 1, 5, 3, 7]), array([0, 2, 4, 1, 3, 5]))
    """
    return np.arange(prod(dims)).reshape(dims[::-1]).transpose().ravel()


def largest_divisor(size: int, limit: int) -> int:
    """Return the largest divisor of `size` that is not above `limit`.

    Examples
    --------
    >>> largest_divisor(12, 5)
    4
    """
    return next(d for d in range(min(limit, size), 0, -1) if size % d == 0)
