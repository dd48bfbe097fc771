"""Gather in two levels: inside every node to its leader, then from the leaders to the root.

A node is `node` consecutive ranks; its leader is its first rank, or the root. Every
leader collects its node's blocks, and sends them to the root in one message. Leaders and root post all their
receives at once or, with the switch `in_turn`, receive from one rank after another.

**Cost**: ``(c-1 + N-1)*alpha + (p-1)*n*beta`` for N nodes of c ranks.

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


def rounds(group: Group, node: int = 8, in_turn: int = 0) -> Iterator[Step]:
    """Yield the messages inside nodes, then those between."""
    me, p, root = group.ranks, group.size, group.root
    inside, outside = members(group, node, root), leaders(group, node, root)
    is_leader, is_root, first = inside.number == 0, me == root, me // node * node
    receive = group.recv if in_turn else group.irecv
    yield group.copy(block("send"), block("recv", root), where=is_root)
    yield group.copy(block("send"), block("node"), where=is_leader & ~is_root)
    yield inside.send(block("send"), 0, where=~is_leader)
    for number in range(1, inside.largest):
        is_there = is_leader & (number < inside.size)
        sender = inside.rank(number)
        yield receive(block("recv", sender), sender, where=is_there & is_root)
        yield receive(block("node", sender - first), sender, where=is_there & ~is_root)
    yield group.wait(where=is_leader)
    yield outside.send(whole("node"), 0, where=~is_root)
    for number in range(1, outside.largest):
        begin = (root // node + number) % outside.largest * node
        of_node = blocks("recv", begin, min(node, p - begin))
        yield (outside.recv if in_turn else outside.irecv)(of_node, number, where=is_root)
    yield group.wait(where=is_root)


def cost(ranks: int, n_bytes: float, node: int = 8, in_turn: int = 0) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    return Cost(min(node, ranks) - 1 + -(-ranks // node) - 1, (ranks - 1) * n_bytes)


ALGORITHM = Algorithm(
    "two_level",
    "gather",
    schedule=rounds,
    cost=cost,
    temporaries=(Temporary("node", like="send", blocks=node_blocks),),
    parameters={"node": 8, "in_turn": 0},
)
