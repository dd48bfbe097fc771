"""Prefix sums of an array distributed in blocks, and their uses: each file is one algorithm.

Those that sum are functions ``name(comm, values, n)`` of this rank's block of an array of n numbers, which
rank r of p has from ``r n // p`` to ``(r + 1) n // p``; they return the block of its inclusive prefix sums.
`labkit.algorithms.scan` has the collectives, which sum one operand of each rank.
"""
