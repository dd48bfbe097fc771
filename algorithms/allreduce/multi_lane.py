"""Allreduce over several lanes: every rank of a node takes part in the exchange between nodes.

A node is c consecutive ranks, c the largest divisor of p not above `node`; the message is cut into c parts.
A reduce-scatter around the ring of each node leaves part l + 1 to its rank l; the ranks l of all nodes
combine their parts by recursive doubling; an allgather around the node's ring collects the parts.

**Cost**: with N = p/c = 2**k nodes ``(2(c-1) + k)*alpha + (2(c-1) + k)*n/c*beta``, ``(c-1 + k)*n/c`` bytes
combined; the fold of recursive doubling if N is no power of two.

**Requires**: a commutative operator; any number of ranks. Parameter: `node`.

**Properties**: all ports of a node send to other nodes at once, a c-th of the message each.

**Reference**: J. L. Träff, S. Hunold: Decomposing MPI collectives for exploiting multi-lane communication.
CLUSTER 2020. doi:10.1109/CLUSTER49012.2020.00037

>>> cost(64, 800)
Cost(rounds=17, volume_bytes=1700.0, reduced_bytes=1000.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.allreduce._team import doubling, doubling_cost, into_recv
from labkit.registry import Algorithm, Cost, Requirements
from labkit.schedule import Group, Step, block
from labkit.schedule.doubling import largest_divisor
from labkit.schedule.group import Team, members

__all__ = ["ALGORITHM", "cost", "rounds"]


def parts_of_message(ranks: int, node: int = 8) -> int:
    """Return the number of lanes."""
    return largest_divisor(ranks, node)


def rounds(group: Group, node: int = 8) -> Iterator[Step]:
    """Yield the reduce-scatter in nodes, the lanes' rounds, the allgather in nodes."""
    me, p = group.ranks, group.size
    c = largest_divisor(p, node)
    inside, number = members(group, c), me % c
    lane = Team(group, me // c, p // c, lambda other: other * c + number, p // c)
    left, right = (number - 1) % c, (number + 1) % c
    yield into_recv(group)
    for i in range(c - 1):
        arriving = (number - i - 1) % c
        yield inside.sendrecv(block("recv", (number - i) % c), right, block("incoming", arriving), left)
        yield group.combine(block("incoming", arriving), block("recv", arriving))
    mine = (number + 1) % c
    yield from doubling(lane, block("recv", mine), block("incoming", mine))
    for i in range(c - 1):
        yield inside.sendrecv(block("recv", (mine - i) % c), right, block("recv", (mine - i - 1) % c), left)


def cost(ranks: int, n_bytes: float, node: int = 8) -> Cost:
    """Return the exact cost when c divides the message."""
    c = largest_divisor(ranks, node)
    part = n_bytes / c
    lanes = doubling_cost(ranks // c, part)
    return Cost(
        lanes.rounds + 2 * (c - 1),
        lanes.volume_bytes + 2 * (c - 1) * part,
        lanes.reduced_bytes + (c - 1) * part,
    )


ALGORITHM = Algorithm(
    "multi_lane",
    "allreduce",
    schedule=rounds,
    cost=cost,
    requirements=Requirements(commutative=True),
    parts=parts_of_message,
    temporaries=("incoming",),
    parameters={"node": 8},
)
