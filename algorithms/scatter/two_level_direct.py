"""Scatter in two levels: from the root to the leaders of nodes, then inside every node.

A node is `node` consecutive ranks; its leader is its first rank, or the root. The root
sends each leader the blocks of its node in one message, and the leader hands them out; with the switch
`in_turn` both send to one rank after another.

**Cost**: with N nodes of c ranks ``(N-1 + c-1)*alpha + (p-1)*n*beta``, which is the root's own part.

**Requires**: nothing; any number of ranks, any root. Parameters: `node` (ranks of a node), `in_turn`.

**Properties**: between nodes there is one message a node, instead of one a rank.

**Reference**: N. T. Karonis, B. R. de Supinski, I. Foster, W. Gropp, E. Lusk, J. Bresnahan: Exploiting
hierarchy in parallel computer networks to optimize collective operation performance. IPDPS 2000.
doi:10.1109/IPDPS.2000.846009

>>> cost(32, 100)
Cost(rounds=10, volume_bytes=3100, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.gather._passing import node_blocks
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, Temporary, block, blocks, whole
from labkit.schedule.group import leaders, members

__all__ = ["ALGORITHM", "cost", "rounds"]


def hand_out(group: Group, node: int, in_turn: int = 0) -> Iterator[Step]:
    """Yield the second level: from the leaders' buffer ``node`` (the root's ``send``) to the members."""
    me, root = group.ranks, group.root
    inside = members(group, node, root)
    is_leader, is_root, first = inside.number == 0, me == root, me // node * node
    send = group.send if in_turn else group.isend
    yield inside.recv(block("recv"), 0, where=~is_leader)
    for number in range(1, inside.largest):
        is_there = is_leader & (number < inside.size)
        target = inside.rank(number)
        yield send(block("send", target), target, where=is_there & is_root)
        yield send(block("node", target - first), target, where=is_there & ~is_root)
    yield group.wait(where=is_leader)
    yield group.copy(block("send", root), block("recv"), where=is_root)
    yield group.copy(block("node"), block("recv"), where=is_leader & ~is_root)


def rounds(group: Group, node: int = 8, in_turn: int = 0) -> Iterator[Step]:
    """Yield the messages between nodes, then those inside."""
    p, root = group.size, group.root
    outside = leaders(group, node, root)
    is_root = group.ranks == root
    yield outside.recv(whole("node"), 0, where=~is_root)
    for number in range(1, outside.largest):
        begin = (root // node + number) % outside.largest * node
        of_node = blocks("send", begin, min(node, p - begin))
        yield (outside.send if in_turn else outside.isend)(of_node, number, where=is_root)
    yield group.wait(where=is_root)
    yield from hand_out(group, node, in_turn)


def cost(ranks: int, n_bytes: float, node: int = 8, in_turn: int = 0) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    nodes = -(-ranks // node)  # the root serves its own node when it has sent to all leaders
    return Cost(nodes - 1 + min(node, ranks) - 1, (ranks - 1) * n_bytes)


ALGORITHM = Algorithm(
    "two_level_direct",
    "scatter",
    schedule=rounds,
    cost=cost,
    temporaries=(Temporary("node", like="recv", blocks=node_blocks),),
    parameters={"node": 8, "in_turn": 0},
)
