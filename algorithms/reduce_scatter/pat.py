"""Reduce-scatter with blocks of any sizes, by parallel aggregated trees (PAT).

The schedule is that of the reduce-scatter for equal blocks; only the sizes differ. They are bound at run
time: every rank knows all of them.

**Cost**: with equal blocks of n bytes that of equal blocks; otherwise each round lasts as long as its largest
message.

**Requires**: a commutative operator; any number of ranks, any counts, zero included.

**Properties**: the fewest bytes over far links.

**Reference**: S. Jeaugey: PAT: a new algorithm for all-gather and reduce-scatter operations at scale. 2025.
doi:10.48550/arXiv.2506.20252

>>> ALGORITHM.cost(8, 100)
Cost(rounds=3, volume_bytes=700, reduced_bytes=700)
"""

from __future__ import annotations

from labkit.algorithms.reduce_scatter_block import pat

__all__ = ["ALGORITHM"]

ALGORITHM = pat.ALGORITHM.taken_as("reduce_scatter")
