"""Multiplication of dense matrices that are distributed in blocks: each file is one algorithm.

Every algorithm is a function ``name(comm, a, b)`` of this rank's blocks of A and B and returns its block of
A B. `labkit.datasets.matrices.block` makes such blocks.
"""
