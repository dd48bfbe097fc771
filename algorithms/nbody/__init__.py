"""Gravity of bodies in the plane that are distributed over ranks: each file is one algorithm.

Each is a function ``name(comm, positions, masses)`` of this rank's bodies, and returns a `Pull`: their
accelerations, for a gravitational constant of 1, and how many interactions each body took.
"""
