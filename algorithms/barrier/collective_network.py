"""Barrier on the machine's collective network, such as the tree of a Blue Gene.

Where the network model has a row for this operation (`NetworkModel.collective_network`) and all ranks of
the run take part, the messages of a binomial tree cost nothing and load no link: the way up tells rank 0
that all have entered, the way down releases them. Each rank then leaves max(least, start + stage *
log2(p)) + bytes * per_byte later than the last rank that it needs has come.

**Cost**: the network's. Elsewhere the same tree goes over the links: ``2*ceil(log2 p) * alpha``.

**Requires**: nothing. On a machine without such a network, or on some of the ranks, it is `tree`.

**Properties**: the time hardly depends on the number of ranks; no message of the program is slowed down.

**Reference**: T. Hoefler, W. Gropp, R. Thakur, J. L. Traff: Toward performance models of MPI
implementations for understanding application scaling issues. EuroMPI 2010.
doi:10.1007/978-3-642-15646-5_3

>>> cost(8, 0)
Cost(rounds=6, volume_bytes=0.0, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.barrier.tree import cost, rounds
from labkit.registry import Algorithm

__all__ = ["ALGORITHM", "cost", "rounds"]

ALGORITHM = Algorithm("collective_network", "barrier", schedule=rounds, cost=cost)
