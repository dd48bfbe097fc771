"""Scatterv in one go: the root sends every rank its block, of whatever size.

The schedule is that of the linear scatter; only the sizes differ, and they are bound at run time.

**Cost**: p - 1 messages through the root's port: ``(p-1)*alpha + (sum of the others' blocks)*beta``; with
blocks of n bytes on average ``(p-1) * (alpha + n*beta)``.

**Requires**: nothing; any number of ranks, any counts, zero included; any root.

**Properties**: no rank uses a size that MPI does not tell it: the root knows all
counts, the others only their own.

**Reference**: E. Chan, M. Heimlich, A. Purkayastha, R. van de Geijn: Collective communication: theory,
practice, and experience. Concurrency and Computation 19(13), 2007. doi:10.1002/cpe.1206

>>> ALGORITHM.cost(5, 100)
Cost(rounds=4, volume_bytes=400, reduced_bytes=0.0)
"""

from __future__ import annotations

from labkit.algorithms.scatter import linear

__all__ = ["ALGORITHM"]

ALGORITHM = linear.ALGORITHM.taken_as("scatterv")
